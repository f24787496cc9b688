// The integer product (docs/numerics.md, rule 4) with AVX2, for any format F with the base Layout
// (cpu/integer_format.h) and
//
//   F::kOffset    log2 of the number added to the integers to make them unsigned, or -1
//   F::kSigned    whether the integers are signed (then kOffset is -1)
//   F::kLargest   otherwise, the largest of them after the offset
//   F::unpack(p, v)      256 elements at p as bytes in eight vectors, in natural order or, if F has
//                        a member kByEights, in that of RoundedRow::q_by_eights
//   F::scales(p, s, m)   scales of 8 groups of 32 in s[0], or of 16 groups of 16; likewise minima,
//                        which only formats with minima set
//
// Up to four activation rows share one unpacking in registers, lanes are scale groups; more rows
// share tiles of eight weight rows (tile_product.h).
#ifndef CHIMERE_KERNELS_CPU_AVX2_INTEGER_PRODUCT_H_
#define CHIMERE_KERNELS_CPU_AVX2_INTEGER_PRODUCT_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx2/byte_products.h"
#include "kernels/cpu/avx2/tile_product.h"
#include "kernels/cpu/integer_format.h"
#include "kernels/cpu/matmul.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// From this number of activation rows on, unpacking into tiles is cheaper.
inline constexpr int64_t kTileRows = 5;

/// The tree of 16 over partial sums 0 to 7 and 8 to 15.
CHIMERE_INLINE float tree_of_16(__m256 low, __m256 high) {
  const __m256 a = _mm256_add_ps(low, high);
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

CHIMERE_INLINE float widen_f16(uint16_t h) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

/// Products of 32 weights and activations, four elements per lane.
template <class F>
CHIMERE_INLINE __m256i multiply(__m256i w, const int8_t* x) {
  __m256i dot = _mm256_setzero_si256();
  ByteSums<F> sums;
  add_products<F>(sums, weights_of<F>(w), load_bytes(x), true, dot);
  if constexpr (kVnni) return dot;
  return _mm256_madd_epi16(sums.v, _mm256_set1_epi16(1));
}

CHIMERE_INLINE __m256i fold_pairs(__m256i a, __m256i b) {
  return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

/// v[i] holds 4-element sums of elements 32 i .. 32 i + 31; lane 4 k + i of the result is the sum
/// of elements 32 i + 16 k .. + 15.
CHIMERE_INLINE __m256i sums_of_16_transposed(const __m256i v[4]) {
  const __m256i a = fold_pairs(v[0], v[1]);
  const __m256i b = fold_pairs(v[2], v[3]);
  return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

template <class F>
CHIMERE_INLINE __m256 offset_to_float(__m256i dot, const int32_t* neg_sum) {
  if constexpr (offset_bits<F>() > 0) {
    dot = _mm256_add_epi32(dot, _mm256_slli_epi32(load_bytes(neg_sum), offset_bits<F>()));
  }
  return _mm256_cvtepi32_ps(dot);
}

/// Sums of groups of 32 of a super-block, from weights by eights and activations in the same order;
/// `first` to `last` of the eights of a group.
template <class F>
CHIMERE_INLINE __m256i sums_by_eights(const __m256i w[8], const int8_t* x, int first, int last) {
  constexpr int kChain = chain_quads<F>() < 2                       ? 1
                         : F::kGroup == 32 && chain_quads<F>() >= 4 ? 4
                                                                    : 2;
  __m256i dot[2];
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    dot[h] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int k = first; k < last; k += kChain) {
      ByteSums<F> sums;
#pragma GCC unroll 4
      for (int i = k; i < k + kChain; ++i) {
        add_products<F>(sums, weights_of<F>(w[2 * i + h]), load_bytes(x + 64 * i + 32 * h), i == k,
                        dot[h]);
      }
      add_sums<F>(sums, dot[h]);
    }
  }
  // Groups 0, 1, 4, 5, 2, 3, 6, 7.
  return _mm256_hadd_epi32(dot[0], dot[1]);
}

template <class F>
CHIMERE_INLINE constexpr bool unpacks_by_eights() {
  return requires { F::kByEights; };
}

/// Whether R activation rows meet the weights by eights: for two or more, putting the weights in
/// that order costs less than summing every row's products across lanes.
template <class F, int R>
CHIMERE_INLINE constexpr bool multiplies_by_eights() {
  return unpacks_by_eights<F>() || R > 1;
}

/// From natural order to that of RoundedRow::q_by_eights.
CHIMERE_INLINE void order_by_eights(__m256i w[8]) {
  __m256i v[8];
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const __m256i* g = w + 4 * h;
    const __m256i a = _mm256_unpacklo_epi64(g[0], g[1]);
    const __m256i b = _mm256_unpackhi_epi64(g[0], g[1]);
    const __m256i c = _mm256_unpacklo_epi64(g[2], g[3]);
    const __m256i d = _mm256_unpackhi_epi64(g[2], g[3]);
    v[h] = _mm256_permute2x128_si256(a, c, 0x20);
    v[2 + h] = _mm256_permute2x128_si256(b, d, 0x20);
    v[4 + h] = _mm256_permute2x128_si256(a, c, 0x31);
    v[6 + h] = _mm256_permute2x128_si256(b, d, 0x31);
  }
  for (int i = 0; i < 8; ++i) w[i] = v[i];
}

/// Sums of a super-block's groups: 8 of 32 in sums[0], or 16 of 16.
template <class F, bool kByEights>
CHIMERE_INLINE void group_sums(const __m256i w[8], const RoundedRow& x, int64_t element,
                               __m256i sums[2]) {
  if constexpr (kByEights) {
    const int8_t* q = x.q_by_eights + element;
    if constexpr (F::kGroup == 32) {
      sums[0] = _mm256_permute4x64_epi64(sums_by_eights<F>(w, q, 0, 4), 0xD8);
    } else {
      const __m256i even = sums_by_eights<F>(w, q, 0, 2);
      const __m256i odd = sums_by_eights<F>(w, q, 2, 4);
      sums[0] = _mm256_unpacklo_epi32(even, odd);
      sums[1] = _mm256_unpackhi_epi32(even, odd);
    }
  } else {
    __m256i dot[8];
    for (int i = 0; i < 8; ++i) dot[i] = multiply<F>(w[i], x.q + element + 32 * i);
    const __m256i a = sums_of_16_transposed(dot);
    const __m256i b = sums_of_16_transposed(dot + 4);
    if constexpr (F::kGroup == 16) {
      const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
      sums[0] = _mm256_permutevar8x32_epi32(a, order);
      sums[1] = _mm256_permutevar8x32_epi32(b, order);
    } else {
      sums[0] = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                 _mm256_permute2x128_si256(a, b, 0x31));
    }
  }
}

/// One super-block with R activation rows; acc[r][0] and [1] are partial sums 0 to 7 and 8 to 15.
/// Groups of 32 go to acc[r][half], those of 16 to both.
template <class F, int R>
CHIMERE_INLINE void step(const uint8_t* p, int64_t element, int half, const RoundedRow* x,
                         __m256 acc[R][2]) {
  __m256i w[8];
  __m256 s[2];
  __m256 m[2];
  F::unpack(p, w);
  F::scales(p, s, m);
  for (int i = 0; i < 8; ++i) w[i] = stored_weights<F>(w[i]);
  if constexpr (multiplies_by_eights<F, R>() && !unpacks_by_eights<F>()) order_by_eights(w);
  for (int r = 0; r < R; ++r) {
    __m256i sums[2];
    group_sums<F, multiplies_by_eights<F, R>()>(w, x[r], element, sums);
    const __m256 d = _mm256_loadu_ps(x[r].d + element / kActivationBlock);
    if constexpr (F::kGroup == 16) {
      const __m256i pair = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
      const __m256i pair_above = _mm256_set_epi32(7, 7, 6, 6, 5, 5, 4, 4);
      const int32_t* neg_sum = x[r].neg_sum16 + element / 16;
      const __m256 f0 = offset_to_float<F>(sums[0], neg_sum);
      const __m256 f1 = offset_to_float<F>(sums[1], neg_sum + 8);
      const __m256 d0 = _mm256_permutevar8x32_ps(d, pair);
      const __m256 d1 = _mm256_permutevar8x32_ps(d, pair_above);
      acc[r][0] = _mm256_fmadd_ps(f0, _mm256_mul_ps(s[0], d0), acc[r][0]);
      acc[r][1] = _mm256_fmadd_ps(f1, _mm256_mul_ps(s[1], d1), acc[r][1]);
      if constexpr (F::kMinimum) {
        // -(d · float(Σq)), so that the product with the minimum is added.
        const __m256 n0 = _mm256_mul_ps(d0, _mm256_cvtepi32_ps(load_bytes(neg_sum)));
        const __m256 n1 = _mm256_mul_ps(d1, _mm256_cvtepi32_ps(load_bytes(neg_sum + 8)));
        acc[r][0] = _mm256_fmadd_ps(m[0], n0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(m[1], n1, acc[r][1]);
      }
    } else {
      const __m256 f = offset_to_float<F>(sums[0], x[r].neg_sum32 + element / 32);
      acc[r][half] = _mm256_fmadd_ps(f, _mm256_mul_ps(s[0], d), acc[r][half]);
      if constexpr (F::kMinimum) {
        const __m256 d_sum = _mm256_loadu_ps(x[r].d_sum + element / kActivationBlock);
        acc[r][half] = _mm256_fnmadd_ps(m[0], d_sum, acc[r][half]);
      }
    }
  }
}

template <class F, int R>
CHIMERE_INLINE void dot_row(const uint8_t* w, int64_t n, const RoundedRow* x, float out[R]) {
  constexpr int64_t kBytes = F::kBlocks * F::kBlockBytes;
  __m256 acc[R][2];
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 2 * kSuper <= n; i += 2 * kSuper, w += 2 * kBytes) {
    step<F, R>(w, i, 0, x, acc);
    step<F, R>(w + kBytes, i + kSuper, 1, x, acc);
  }
  uint8_t copy[kBytes];
  for (int half = 0; i < n; i += kSuper, w += kBytes, half = 1) {
    step<F, R>(n - i < kSuper ? padded_blocks<F>(w, n - i, copy) : w, i, half, x, acc);
  }
  for (int r = 0; r < R; ++r) out[r] = tree_of_16(acc[r][0], acc[r][1]);
}

CHIMERE_INLINE void store(float& y, float v, bool accumulate) { y = accumulate ? y + v : v; }

template <class F, int R>
[[gnu::noinline]] void dot_rows(const IntegerProduct& p) {
  for (int64_t o = 0; o < p.n_out; ++o) {
    float v[R];
    dot_row<F, R>(p.w + o * p.w_stride, p.n_in, p.x, v);
    for (int r = 0; r < R; ++r) store(p.y[r][o], v[r], p.accumulate);
  }
}

template <class F>
void integer_product(const IntegerProduct& p) {
  if (p.n_rows >= kTileRows) return tiled_product<F>(p);
  switch (p.n_rows) {
    case 1:
      return dot_rows<F, 1>(p);
    case 2:
      return dot_rows<F, 2>(p);
    case 3:
      return dot_rows<F, 3>(p);
    default:
      return dot_rows<F, 4>(p);
  }
}

}  // namespace
}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_AVX2_INTEGER_PRODUCT_H_
