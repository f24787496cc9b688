// One function, compiled for several instruction sets. Internal to the module.
#ifndef CHIMERE_QUANT_CLONES_H_
#define CHIMERE_QUANT_CLONES_H_

/// Before a function that is not a template: compiles it, with everything that it calls, for
/// AVX-512, for AVX2 and for any processor, and selects one of these when the program starts. Its
/// results are the same (no test compares them), because loops over lanes keep the order of every
/// lane's operations and the compiler contracts none. Sanitizers do not work with such selection.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CHIMERE_CLONES [[gnu::target_clones("avx512f", "avx2", "default"), gnu::flatten]]
#else
#define CHIMERE_CLONES
#endif

#endif  // CHIMERE_QUANT_CLONES_H_
