// Loops over a vocabulary are compiled for several instruction sets and selected at run time. Their
// results must not depend on the vector width, so that the bits are the same everywhere.
#ifndef CHIMERE_SAMPLING_TARGETS_H_
#define CHIMERE_SAMPLING_TARGETS_H_

#if defined(__x86_64__)
#define CHIMERE_FOR_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,fma")]]
#define CHIMERE_FOR_AVX2 [[gnu::target("avx2,fma")]]
#endif

namespace chimere::sampling {

#if defined(__x86_64__)
inline bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
inline bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}
#endif

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_TARGETS_H_
