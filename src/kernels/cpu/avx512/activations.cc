// Rounding of activations (docs/numerics.md, rule 3) with AVX-512.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// Rounds one block of 32 to 32 integers of 32 bits, and fills in the scale and sums of block b of
/// `out`.
CHIMERE_INLINE void round_block(const float* x, int64_t b, const RoundedRow& out) {
  const __m512 low = _mm512_loadu_ps(x);
  const __m512 high = _mm512_loadu_ps(x + 16);
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  // Compared as integers, magnitudes keep their order, with infinities and NaNs above all numbers.
  const uint32_t bits = _mm512_reduce_max_epu32(
      _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                       _mm512_and_si512(_mm512_castps_si512(high), magnitude)));
  const float amax = __builtin_bit_cast(float, bits);
  float d = 0;
  __m512i q_low = _mm512_setzero_si512();
  __m512i q_high = _mm512_setzero_si512();
  if (bits >= 0x7F800000U) {
    d = __builtin_nanf("");
  } else if (amax >= 0x1p-100F) {
    d = activation_scale(amax);
    const __m512 id = _mm512_set1_ps(127.0F / amax);
    q_low = _mm512_cvtps_epi32(_mm512_mul_ps(low, id));
    q_high = _mm512_cvtps_epi32(_mm512_mul_ps(high, id));
  }
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out.q + 32 * b), _mm512_cvtepi32_epi8(q_low));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out.q + 32 * b + 16), _mm512_cvtepi32_epi8(q_high));
  const int32_t sum_low = _mm512_reduce_add_epi32(q_low);
  const int32_t sum_high = _mm512_reduce_add_epi32(q_high);
  out.d[b] = d;
  out.d_sum[b] = d * static_cast<float>(sum_low + sum_high);
  out.neg_sum32[b] = -(sum_low + sum_high);
  out.neg_sum16[2 * b] = -sum_low;
  out.neg_sum16[2 * b + 1] = -sum_high;
}

void order_by_fours(const RoundedRow& out, int64_t n) {
  for (int64_t i = 0; i < n; i += 64) {
    // Bytes c of 16 quads are the dwords shifted right by 8 c and truncated.
    const __m512i q = _mm512_loadu_si512(out.q + i);
    int8_t* to = out.q_by_fours + i / 256 * 256 + i % 256 / 4;
    for (int c = 0; c < 4; ++c) {
      const __m512i shifted = _mm512_srlv_epi32(q, _mm512_set1_epi32(8 * c));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 64 * c), _mm512_cvtepi32_epi8(shifted));
    }
  }
}

void order_by_eights(const RoundedRow& out, int64_t n) {
  const __m512i pairs = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
  for (int64_t i = 0; i < n; i += 64) {
    // Eights k of two groups of 32.
    const __m512i q = _mm512_permutexvar_epi64(pairs, _mm512_loadu_si512(out.q + i));
    int8_t* to = out.q_by_eights + i / 256 * 256 + i % 256 / 4;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 64), _mm512_extracti64x2_epi64(q, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 128), _mm512_extracti64x2_epi64(q, 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 192), _mm512_extracti64x2_epi64(q, 3));
  }
}

}  // namespace

void round_activations(const float* x, int64_t n, const RoundedRow& out) {
  const int64_t blocks = n / kActivationBlock;
  for (int64_t b = 0; b < blocks; ++b) round_block(x + kActivationBlock * b, b, out);
  for (int64_t b = blocks; b < padded(n) / kActivationBlock; ++b) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q + 32 * b), _mm256_setzero_si256());
    out.d[b] = 0;
    out.d_sum[b] = 0;
    out.neg_sum32[b] = 0;
    out.neg_sum16[2 * b] = 0;
    out.neg_sum16[2 * b + 1] = 0;
  }
  if (out.q_by_fours != nullptr) order_by_fours(out, padded(n));
  if (out.q_by_eights != nullptr) order_by_eights(out, padded(n));
}

}  // namespace chimere::kernels::cpu::avx512
