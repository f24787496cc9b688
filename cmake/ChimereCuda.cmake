# Device code. chimere_cuda_modules(TARGET SOURCES a.cu ... WARPGROUPS b.cu ...) compiles each source with nvcc to a fat
# binary that lies in the program, and tells the target where (src/kernels/cuda/device/modules.h). WARPGROUPS: those of
# the sources that multiply by warpgroups on 9.0; they are compiled without them too, for --cuda-profile. Without nvcc
# the table is empty and the program says so when a GPU is asked for.
#   CHIMERE_CUDA        auto (with nvcc 12.8 or later, where a GPU, tests or architectures ask for it), on (an error
#                       without nvcc), off
#   CHIMERE_CUDA_ARCHS  architectures like 80;90;120; empty: those of the GPUs in this machine, else 90; with the tests one
#                       architecture, the first of these
set(CHIMERE_CUDA auto CACHE STRING "Device code for NVIDIA GPUs: auto, on or off")
set_property(CACHE CHIMERE_CUDA PROPERTY STRINGS auto on off)
set(CHIMERE_CUDA_ARCHS "" CACHE STRING "Compute capabilities to compile for, like 80;90;120; empty: the GPU's, else 90")

# The compute capabilities of the GPUs in this machine, like 90;120.
function(chimere_find_gpus result)
  set(archs "")
  find_program(CHIMERE_NVIDIA_SMI nvidia-smi)
  if(CHIMERE_NVIDIA_SMI)
    execute_process(COMMAND ${CHIMERE_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" found "${text}")
      string(REPLACE "." "" archs "${found}")
      list(REMOVE_DUPLICATES archs)
    endif()
  endif()
  set(${result} ${archs} PARENT_SCOPE)
endfunction()

# Sets CHIMERE_NVCC to the compiler, or to the empty string.
function(chimere_find_nvcc)
  set(CHIMERE_NVCC "" PARENT_SCOPE)
  if(CHIMERE_CUDA STREQUAL off)
    return()
  endif()
  chimere_find_gpus(gpus)
  if(CHIMERE_CUDA STREQUAL auto AND NOT gpus AND NOT CHIMERE_CUDA_ARCHS AND NOT CHIMERE_TESTS)
    message(NOTICE "No device code for NVIDIA GPUs: this machine shows none. To compile it all the same: "
                   "cmake --preset release -DCHIMERE_CUDA=on")
    return()
  endif()
  find_program(CHIMERE_NVCC_PROGRAM nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda/bin)
  set(why "nvcc was not found")
  if(CHIMERE_NVCC_PROGRAM)
    execute_process(COMMAND ${CHIMERE_NVCC_PROGRAM} --version OUTPUT_VARIABLE text ERROR_QUIET)
    string(REGEX MATCH "release ([0-9.]+)" found "${text}")
    if(found AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL 12.8)
      set(CHIMERE_NVCC ${CHIMERE_NVCC_PROGRAM} PARENT_SCOPE)
      return()
    endif()
    set(why "${CHIMERE_NVCC_PROGRAM} is older than 12.8")
  endif()
  if(CHIMERE_CUDA STREQUAL on)
    message(FATAL_ERROR "CHIMERE_CUDA=on, but ${why}.")
  endif()
  message(NOTICE "No device code for NVIDIA GPUs: ${why}. With nvcc 12.8 or later: "
                 "cmake --preset release -DCHIMERE_CUDA=on")
endfunction()
chimere_find_nvcc()

function(chimere_cuda_architectures result)
  set(archs ${CHIMERE_CUDA_ARCHS})
  if(NOT archs)
    chimere_find_gpus(archs)
    if(archs AND CHIMERE_TESTS)
      list(GET archs 0 archs)
    endif()
  endif()
  if(NOT archs)
    set(archs 90)
  endif()
  set(${result} ${archs} PARENT_SCOPE)
endfunction()

# Compiles a source to an image of the architectures that `codes` (options of nvcc) name.
function(chimere_cuda_image image source)
  cmake_parse_arguments(ARG "" "" "CODES" ${ARGN})
  get_filename_component(folder ${image} DIRECTORY)
  get_filename_component(name ${image} NAME_WE)
  # -fmad=false: docs/numerics.md, rule 1. --expt-relaxed-constexpr: constexpr functions run in device code too.
  add_custom_command(OUTPUT ${image}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${CHIMERE_CCACHE} ${CHIMERE_NVCC} -c -fatbin -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr
            -ccbin ${CMAKE_CXX_COMPILER} -I${CMAKE_SOURCE_DIR}/src
            -Werror=all-warnings ${ARG_CODES} -MD -MF ${image}.d -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${source}
    DEPFILE ${image}.d
    COMMENT "Device code ${name}"
    VERBATIM)
endfunction()

# Puts an image into the program, under `symbol`: appends to the caller's `incbins` and `images`.
macro(chimere_cuda_embed symbol image)
  list(APPEND images ${image})
  string(APPEND incbins "asm(\".section .rodata\\n.balign 16\\n${symbol}:\\n\"\n"
                        "    \".incbin \\\"${image}\\\"\\n.byte 0\\n.previous\\n\");\n"
                        "extern \"C\" const uint8_t ${symbol}[];\n")
endmacro()

function(chimere_cuda_modules target)
  cmake_parse_arguments(ARG "" "" "SOURCES;WARPGROUPS" ${ARGN})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/cuda_modules)
  set(incbins "")
  set(rows "")
  set(images "")
  if(CHIMERE_NVCC)
    chimere_cuda_architectures(archs)
    set(codes "")
    foreach(arch IN LISTS archs)
      # The warpgroup products of 9.0 are specific to that architecture (sm_90a).
      string(REGEX REPLACE "^90$" "90a" code ${arch})
      list(APPEND codes -gencode arch=compute_${code},code=sm_${code})
    endforeach()
    # GPUs newer than all of them compile the last one's PTX when they load it.
    list(SORT archs COMPARE NATURAL)
    list(GET archs -1 last)
    list(APPEND codes -gencode arch=compute_${last},code=compute_${last})
    message(STATUS "Device code for compute capabilities ${archs}")
    foreach(source IN LISTS ARG_SOURCES)
      get_filename_component(name ${source} NAME_WE)
      set(symbol chimere_cuda_module_${name})
      set(module_codes ${codes})
      set(without nullptr)
      if(90 IN_LIST archs AND source IN_LIST ARG_WARPGROUPS)
        list(APPEND module_codes -DCHIMERE_WARPGROUPS)
        set(without ${symbol}_without_warpgroups)
        chimere_cuda_image(${folder}/${name}_without_warpgroups.fatbin ${source}
          CODES -gencode arch=compute_90,code=sm_90)
        chimere_cuda_embed(${without} ${folder}/${name}_without_warpgroups.fatbin)
      endif()
      chimere_cuda_image(${folder}/${name}.fatbin ${source} CODES ${module_codes})
      chimere_cuda_embed(${symbol} ${folder}/${name}.fatbin)
      string(APPEND rows "    {\"${name}\", ${symbol}, ${without}},\n")
    endforeach()
  endif()
  set(CHIMERE_CUDA_INCBINS "${incbins}")
  set(CHIMERE_CUDA_ROWS "${rows}")
  configure_file(${CMAKE_SOURCE_DIR}/cmake/cuda_modules.cc.in ${folder}/modules.cc @ONLY)
  set_source_files_properties(${folder}/modules.cc PROPERTIES OBJECT_DEPENDS "${images}")
  target_sources(${target} PRIVATE ${folder}/modules.cc)
endfunction()
