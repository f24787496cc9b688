#include "kernels/byte_dots.h"

#include "kernels/cpu/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace chimere::kernels {
namespace ref {

void byte_dots(const int8_t* rows, int64_t n_rows, int64_t n, const int16_t* query, int32_t* out) {
  for (int64_t r = 0; r < n_rows; ++r) {
    const int8_t* row = rows + r * n;
    int32_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += int32_t{row[i]} * int32_t{query[i]};
    out[r] = sum;
  }
}

}  // namespace ref

#if defined(__x86_64__)
namespace {

[[gnu::target("avx2")]] int32_t sum_of(__m256i lanes) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

/// 16 products, added in pairs.
[[gnu::target("avx2")]] __m256i pairs(const int8_t* row, const int16_t* query) {
  return _mm256_madd_epi16(
      _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row))),
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query)));
}

[[gnu::target("avx2")]] void byte_dots_avx2(const int8_t* rows, int64_t n_rows, int64_t n,
                                            const int16_t* query, int32_t* out) {
  for (int64_t r = 0; r < n_rows; ++r) {
    const int8_t* row = rows + r * n;
    __m256i even = _mm256_setzero_si256();
    __m256i odd = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
      even = _mm256_add_epi32(even, pairs(row + i, query + i));
      odd = _mm256_add_epi32(odd, pairs(row + i + 16, query + i + 16));
    }
    int32_t sum = sum_of(_mm256_add_epi32(even, odd));
    for (; i < n; ++i) sum += int32_t{row[i]} * int32_t{query[i]};
    out[r] = sum;
  }
}

}  // namespace
#endif

void byte_dots(const int8_t* rows, int64_t n_rows, int64_t n, const int16_t* query, int32_t* out) {
#if defined(__x86_64__)
  static const bool avx2 = cpu::cpu_features().avx2;
  if (avx2) return byte_dots_avx2(rows, n_rows, n, query, out);
#endif
  ref::byte_dots(rows, n_rows, n, query, out);
}

}  // namespace chimere::kernels
