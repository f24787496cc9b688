# The instruction sets that the CPU's kernels are compiled for, beside the baseline; the best one that a processor runs is
# chosen when the program starts (src/kernels/cpu/isa.h).
#   CHIMERE_CPU_ISAS    all; native: what the best kernels for this machine's processor need, for a program that stays
#                       here (elsewhere it runs with these or the baseline's); none; or a list of avx2, avxvnni and avx512vl
#                       (with avx2: byte dot products in either encoding) and avx512.
#                       On 64-bit ARM all and native are the three sets of NEON kernels, which are small
set(CHIMERE_CPU_ISAS all CACHE STRING "Instruction sets of the CPU's kernels: all, native, none or a list of avx2, avxvnni, avx512vl and avx512")

# The instruction sets for this machine's processor.
function(chimere_native_isas result)
  set(isas "")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -dM -E -x c++ /dev/null
                  OUTPUT_VARIABLE macros ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(isas avx2 avxvnni avx512vl avx512)
  else()
    set(has "")
    foreach(feature IN ITEMS AVX2 FMA F16C AVX512F AVX512BW AVX512DQ AVX512VL AVX512VNNI AVX512VBMI AVX512BITALG GFNI AVXVNNI)
      if(macros MATCHES "__${feature}__ 1")
        list(APPEND has ${feature})
      endif()
    endforeach()
    set(avx2 "AVX2;FMA;F16C")
    set(avx512 "${avx2};AVX512F;AVX512BW;AVX512DQ;AVX512VL;AVX512VNNI")
    if("${has}" MATCHES "^${avx512};AVX512VBMI;AVX512BITALG;GFNI")
      set(isas avx512)
    elseif("${has}" MATCHES "^${avx512}")
      set(isas avx2 avx512)  # the codebooks' products are those of AVX2
    elseif("${has}" MATCHES "^${avx2}.*AVXVNNI$")
      set(isas avx2 avxvnni)
    elseif("${has}" MATCHES "^${avx2}")
      set(isas avx2)
    endif()
  endif()
  set(${result} ${isas} PARENT_SCOPE)
endfunction()

function(chimere_cpu_isas result)
  set(isas ${CHIMERE_CPU_ISAS})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND isas MATCHES "^(all|native)$")
    set(isas neon)
  elseif(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" OR isas STREQUAL none)
    set(isas "")
  elseif(isas STREQUAL all)
    set(isas avx2 avxvnni avx512vl avx512)
  elseif(isas STREQUAL native)
    chimere_native_isas(isas)
  endif()
  foreach(isa IN LISTS isas)
    if(NOT isa MATCHES "^(avx2|avxvnni|avx512vl|avx512|neon)$")
      message(FATAL_ERROR "CHIMERE_CPU_ISAS=${CHIMERE_CPU_ISAS}: say all, native, none or a list of avx2, avxvnni, avx512vl and avx512.")
    endif()
  endforeach()
  list(JOIN isas " " text)
  message(STATUS "CPU kernels: baseline ${text}")
  set(${result} ${isas} PARENT_SCOPE)
endfunction()
