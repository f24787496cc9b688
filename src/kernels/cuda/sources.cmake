# The CUDA back end, included by the module: its host side is part of the module, its device code (.cu) is compiled twice,
# by nvcc for GPUs and by the C++ compiler for the emulator, which only tests link. Paths begin at the module.
set(CUDA_MODULES
  cuda/attend.cu
  cuda/attend_prefill.cu
  cuda/attend_split.cu
  cuda/choose_token.cu
  cuda/embed_tokens.cu
  cuda/log_sum_exp.cu
  cuda/low_rank.cu
  cuda/gdn_prefill.cu
  cuda/gdn_prefill_128.cu
  cuda/gdn_conv.cu
  cuda/gdn_decode.cu
  cuda/gdn_decode_128.cu
  cuda/gdn_decode_128_rows.cu
  cuda/gdn_fold.cu
  cuda/half_rows.cu
  cuda/host_experts.cu
  cuda/linear_prefill.cu
  cuda/linear_float.cu
  cuda/linear_decode.cu
  cuda/linear_tile.cu
  cuda/moe_prefill.cu
  cuda/moe_decode.cu
  cuda/moe_rows.cu
  cuda/moe_tile.cu
  cuda/norm.cu
  cuda/page_tables.cu
  cuda/rope_append.cu
  cuda/route.cu
  cuda/rounding.cu
  cuda/rows.cu
  cuda/sequence_attention.cu
  cuda/ssd_prefill.cu
  cuda/state_space.cu
  cuda/top_logits.cu)

# The modules that include ptx/warpgroup_mma.h.
set(CUDA_WARPGROUP_MODULES
  cuda/linear_prefill.cu
  cuda/moe_prefill.cu)

chimere_unity(cuda_sources kernels_cuda
  cuda/attention.cc
  cuda/choose_token.cc
  cuda/cuda_ops.cc
  cuda/device/cuda_device.cc
  cuda/device/cuda_stream.cc
  cuda/device/driver.cc
  cuda/device/profile.cc
  cuda/device_batch.cc
  cuda/embed_tokens.cc
  cuda/log_sum_exp.cc
  cuda/low_rank.cc
  cuda/half_rows.cc
  cuda/host_experts.cc
  cuda/linear_prefill.cc
  cuda/norm.cc
  cuda/pack_weights.cc
  cuda/page_tables.cc
  cuda/rows.cc
  cuda/scratch.cc
  cuda/sequence_attention.cc
  cuda/state_space.cc
  cuda/step_outputs.cc
  cuda/cuda_graph_cache.cc
  cuda/top_logits.cc)
# The names of the others clash (chimere_module(), ALONE).
target_sources(chimere_kernels PRIVATE ${cuda_sources}
  cuda/gdn.cc cuda/linear_decode.cc cuda/moe_prefill.cc cuda/moe_decode.cc cuda/moe_rows.cc cuda/moe_tile.cc cuda/step_arrays.cc cuda/weight_store.cc)
chimere_cuda_modules(chimere_kernels SOURCES ${CUDA_MODULES} WARPGROUPS ${CUDA_WARPGROUP_MODULES})

if(NOT CHIMERE_TESTS)
  return()
endif()

# Kernels register themselves; an OBJECT library links them although nothing refers to them.
add_library(chimere_kernels_emulator OBJECT
  ${CUDA_MODULES} cuda/emulator/block.cc cuda/emulator/device.cc cuda/emulator/fiber.cc)
target_include_directories(chimere_kernels_emulator PRIVATE ${CMAKE_SOURCE_DIR}/src)
set_source_files_properties(${CUDA_MODULES} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++;-Wno-unknown-pragmas")

# chimere_gpu_tests(NAME TIMEOUT SECONDS COMMAND ...): under the label gpu on a GPU, with its own limits and with those
# of compute capability 12.0. (The emulator has the latter's shared memory and no warpgroups at any time.) One at a time,
# because some compare the GPU's free memory before and after.
function(chimere_gpu_tests name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "COMMAND" ${ARGN})
  set(options LABELS gpu TIMEOUT ${ARG_TIMEOUT} PROPERTIES SKIP_RETURN_CODE 77 RESOURCE_LOCK gpu)
  chimere_add_test(${name}_on_gpu ${options} COMMAND ${ARG_COMMAND})
  chimere_add_test(${name}_sm_120_on_gpu ${options} COMMAND ${ARG_COMMAND} --cuda-profile=sm_120)
endfunction()

# chimere_cuda_test(NAME SOURCES a_test.cc ...): run on the emulator, and under the label gpu on a GPU.
function(chimere_cuda_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LABELS" ${ARGN})
  chimere_test(${name} SOURCES cuda/device_test_main.cc ${ARG_SOURCES} DEPS kernels_emulator kernels LABELS ${ARG_LABELS})
  chimere_gpu_tests(${name} TIMEOUT 120 COMMAND ${name} --device=gpu)
endfunction()

chimere_cuda_test(cuda_attention_test SOURCES cuda/attention_test.cc LABELS full)
chimere_cuda_test(cuda_prefill_test SOURCES cuda/prefill_test.cc)
chimere_cuda_test(cuda_choose_token_test SOURCES cuda/choose_token_test.cc)
chimere_cuda_test(cuda_embed_tokens_test SOURCES cuda/embed_tokens_test.cc)
chimere_cuda_test(cuda_log_sum_exp_test SOURCES cuda/log_sum_exp_test.cc)
chimere_cuda_test(cuda_gdn_test SOURCES cuda/gdn_test.cc)
chimere_cuda_test(cuda_linear_decode_test SOURCES cuda/linear_decode_test.cc)
chimere_cuda_test(cuda_low_rank_test SOURCES cuda/low_rank_test.cc)
chimere_cuda_test(cuda_moe_decode_test SOURCES cuda/moe_decode_test.cc LABELS full)
chimere_cuda_test(cuda_moe_rows_test SOURCES cuda/moe_rows_test.cc LABELS full)
chimere_cuda_test(cuda_moe_tile_test SOURCES cuda/moe_tile_test.cc)
chimere_cuda_test(cuda_norm_test SOURCES cuda/norm_test.cc)
chimere_cuda_test(cuda_ops_test SOURCES cuda/cuda_ops_test.cc)
chimere_cuda_test(cuda_profile_test SOURCES cuda/device/profile_test.cc)
chimere_cuda_test(cuda_rows_test SOURCES cuda/rows_test.cc)
chimere_cuda_test(cuda_sequence_attention_test SOURCES cuda/sequence_attention_test.cc)
chimere_cuda_test(cuda_state_space_test SOURCES cuda/state_space_test.cc cuda/ssd_prefill_test.cc)
chimere_cuda_test(cuda_top_logits_test SOURCES cuda/top_logits_test.cc)
