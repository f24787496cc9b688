// Rounding of activations (docs/numerics.md, rule 3) with AVX2.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/dot_rule.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

CHIMERE_INLINE int32_t sum(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

CHIMERE_INLINE uint32_t largest(__m256i v) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1))));
}

CHIMERE_INLINE void round_block(const float* x, int64_t b, const RoundedRow& out) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256 v[4];
  // Compared as integers, magnitudes keep their order, with infinities and NaNs above all numbers.
  __m256i top = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    top = _mm256_max_epu32(top, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  }
  const uint32_t bits = largest(top);
  const float amax = __builtin_bit_cast(float, bits);
  float d = 0;
  __m256i q[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                  _mm256_setzero_si256()};
  if (bits >= 0x7F800000U) {
    d = __builtin_nanf("");
  } else if (amax >= 0x1p-100F) {
    d = activation_scale(amax);
    const __m256 id = _mm256_set1_ps(127.0F / amax);
    for (int i = 0; i < 4; ++i) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], id));
  }
  // Packing works within 128-bit halves, so the dwords come out as 0, 4, 1, 5, ...
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q + 32 * b),
                      _mm256_permutevar8x32_epi32(packed, order));
  const int32_t sum_low = sum(_mm256_add_epi32(q[0], q[1]));
  const int32_t sum_high = sum(_mm256_add_epi32(q[2], q[3]));
  out.d[b] = d;
  out.d_sum[b] = d * static_cast<float>(sum_low + sum_high);
  out.neg_sum32[b] = -(sum_low + sum_high);
  out.neg_sum16[2 * b] = -sum_low;
  out.neg_sum16[2 * b + 1] = -sum_high;
}

void order_by_eights(const RoundedRow& out, int64_t n) {
  for (int64_t i = 0; i < n; i += kActivationBlock) {
    int8_t* to = out.q_by_eights + i / 256 * 256 + i % 256 / 4;
    for (int k = 0; k < 4; ++k) std::memcpy(to + 64 * k, out.q + i + 8 * k, 8);
  }
}

}  // namespace

// No AVX2 kernel reads activations by fours.
void round_activations(const float* x, int64_t n, const RoundedRow& out) {
  const int64_t blocks = n / kActivationBlock;
  for (int64_t b = 0; b < blocks; ++b) round_block(x + kActivationBlock * b, b, out);
  const int64_t rest = padded(n) / kActivationBlock - blocks;
  const auto count = static_cast<size_t>(rest);
  std::memset(out.q + 32 * blocks, 0, 32 * count);
  std::memset(out.d + blocks, 0, 4 * count);
  std::memset(out.d_sum + blocks, 0, 4 * count);
  std::memset(out.neg_sum32 + blocks, 0, 4 * count);
  std::memset(out.neg_sum16 + 2 * blocks, 0, 8 * count);
  if (out.q_by_eights != nullptr) order_by_eights(out, padded(n));
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
