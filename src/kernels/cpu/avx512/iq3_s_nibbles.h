// The IQ3_S codebook as two byte tables, for lookups by byte permutation.
#ifndef CHIMERE_KERNELS_CPU_AVX512_IQ3_S_NIBBLES_H_
#define CHIMERE_KERNELS_CPU_AVX512_IQ3_S_NIBBLES_H_

#include <array>
#include <cstdint>

namespace chimere::kernels::cpu::avx512 {

/// Byte i: elements 0 (low nibble) and 1 of grid entry i; byte 512 + i: elements 2 and 3.
alignas(64) extern const std::array<uint8_t, 1024> kIq3SNibbles;

}  // namespace chimere::kernels::cpu::avx512

#endif  // CHIMERE_KERNELS_CPU_AVX512_IQ3_S_NIBBLES_H_
