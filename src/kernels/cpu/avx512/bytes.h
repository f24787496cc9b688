// Loads and shifts that unpack blocks into vectors of 64 bytes.
#ifndef CHIMERE_KERNELS_CPU_AVX512_BYTES_H_
#define CHIMERE_KERNELS_CPU_AVX512_BYTES_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/integer_format.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// Eight bytes in every 64-bit lane.
CHIMERE_INLINE __m512i eight_times(const uint8_t* p) { return _mm512_set1_epi64(load<int64_t>(p)); }

/// A table of 16 bytes for _mm512_shuffle_epi8.
CHIMERE_INLINE __m512i table_of_16(const int8_t* t) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(t)));
}

/// Eight times 16 bytes, each the nibbles of 32 elements (low ones first), to nibbles by eights:
/// the first four in a, the others in b.
CHIMERE_INLINE void nibbles_by_eights(__m512i a, __m512i b, __m512i v[4]) {
  const __m512i even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odd = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
  const __m512i low = _mm512_set1_epi8(15);
  const __m512i first = _mm512_permutex2var_epi64(a, even, b);
  const __m512i second = _mm512_permutex2var_epi64(a, odd, b);
  v[0] = _mm512_and_si512(first, low);
  v[1] = _mm512_and_si512(second, low);
  v[2] = _mm512_and_si512(_mm512_srli_epi16(first, 4), low);
  v[3] = _mm512_and_si512(_mm512_srli_epi16(second, 4), low);
}

/// 16 bytes of four places `stride` bytes apart.
CHIMERE_INLINE __m512i four_times_16(const uint8_t* p, int64_t stride) {
  const auto at = [=](int64_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * stride));
  };
  const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(at(0)), at(1), 1);
  const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(at(2)), at(3), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

}  // namespace
}  // namespace chimere::kernels::cpu::avx512

#endif  // CHIMERE_KERNELS_CPU_AVX512_BYTES_H_
