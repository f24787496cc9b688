// The integer product (docs/numerics.md, rule 4) with AVX2, for any format F with the base Layout
// (cpu/integer_format.h) and
//
//   F::kOffset    log2 of the number added to the integers to make them unsigned, or -1
//   F::kSigned    whether the integers are signed (then kOffset is -1)
//   F::unpack(p, v)      256 elements at p as bytes in eight vectors
//   F::scales(p, s, m)   scales of 8 groups of 32 in s[0], or of 16 groups of 16; likewise minima,
//                        which only formats with minima set
//
// Up to four activation rows share one unpacking in registers; more rows share one in memory
// (Unpacked).
#ifndef CHIMERE_KERNELS_CPU_AVX2_INTEGER_PRODUCT_H_
#define CHIMERE_KERNELS_CPU_AVX2_INTEGER_PRODUCT_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/integer_format.h"
#include "kernels/cpu/matmul.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu::avx2 {
namespace {

inline constexpr int kSuper = 256;
inline constexpr int kMaxRows = 4;

CHIMERE_INLINE __m256i load_bytes(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

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

/// Products of 32 weights and activations, four elements per lane. No 16-bit sum of two can
/// saturate: the unsigned weights of these formats are at most 128.
template <class F>
CHIMERE_INLINE __m256i multiply(__m256i w, const int8_t* x) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i q = load_bytes(x);
  if constexpr (F::kSigned) {
    q = _mm256_sign_epi8(q, w);
    w = _mm256_abs_epi8(w);
  }
  return _mm256_madd_epi16(_mm256_maddubs_epi16(w, q), ones);
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
  if constexpr (F::kOffset > 0) {
    dot = _mm256_add_epi32(dot, _mm256_slli_epi32(load_bytes(neg_sum), F::kOffset));
  }
  return _mm256_cvtepi32_ps(dot);
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
  for (int r = 0; r < R; ++r) {
    __m256i dot[8];
    for (int i = 0; i < 8; ++i) dot[i] = multiply<F>(w[i], x[r].q + element + 32 * i);
    const __m256i a = sums_of_16_transposed(dot);
    const __m256i b = sums_of_16_transposed(dot + 4);
    const __m256 d = _mm256_loadu_ps(x[r].d + element / kActivationBlock);
    if constexpr (F::kGroup == 16) {
      const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
      const __m256i pair = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
      const __m256i pair_above = _mm256_set_epi32(7, 7, 6, 6, 5, 5, 4, 4);
      const int32_t* neg_sum = x[r].neg_sum16 + element / 16;
      const __m256 f0 = offset_to_float<F>(_mm256_permutevar8x32_epi32(a, order), neg_sum);
      const __m256 f1 = offset_to_float<F>(_mm256_permutevar8x32_epi32(b, order), neg_sum + 8);
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
      const __m256i sums = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                            _mm256_permute2x128_si256(a, b, 0x31));
      const __m256 f = offset_to_float<F>(sums, x[r].neg_sum32 + element / 32);
      acc[r][half] = _mm256_fmadd_ps(f, _mm256_mul_ps(s[0], d), acc[r][half]);
      if constexpr (F::kMinimum) {
        const __m256 d_sum = _mm256_loadu_ps(x[r].d_sum + element / kActivationBlock);
        acc[r][half] = _mm256_fnmadd_ps(m[0], d_sum, acc[r][half]);
      }
    }
  }
}

/// Copies the rest of a row, less than 256 elements, into a zeroed super-block. It adds zeros to
/// the partial sums, which changes no bit unless a sum is -0. No sum is: every term is a multiple
/// of 2^-149 (scales and minima of f16 are multiples of 2^-24, those of activations of 2^-118), so
/// none is rounded to -0, and sums that start at +0 and cancel are +0.
template <class F>
CHIMERE_INLINE const uint8_t* padded_blocks(const uint8_t* p, int64_t elements, uint8_t* copy) {
  constexpr int64_t kElements = kSuper / F::kBlocks;
  std::memset(copy, 0, F::kBlocks * F::kBlockBytes);
  std::memcpy(copy, p, static_cast<size_t>(elements / kElements * F::kBlockBytes));
  return copy;
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

/// A super-block of F after unpacking.
template <class F>
struct Unpacked {
  struct Block {
    uint8_t q[kSuper];
    float s[16];
    float m[F::kMinimum ? 16 : 1];
  };
  static constexpr int kGroup = F::kGroup;
  static constexpr int kBlocks = 1;
  static constexpr int64_t kBlockBytes = sizeof(Block);
  static constexpr int kOffset = F::kOffset;
  static constexpr bool kSigned = F::kSigned;
  static constexpr bool kMinimum = F::kMinimum;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* b = reinterpret_cast<const Block*>(p);
    for (int i = 0; i < 8; ++i) v[i] = load_bytes(b->q + 32 * i);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 m[2]) {
    const auto* b = reinterpret_cast<const Block*>(p);
    for (int i = 0; i < (kGroup == 16 ? 2 : 1); ++i) {
      s[i] = _mm256_loadu_ps(b->s + 8 * i);
      if constexpr (kMinimum) m[i] = _mm256_loadu_ps(b->m + 8 * i);
    }
  }

  static void fill(const uint8_t* w, int64_t n, uint8_t* out) {
    constexpr int64_t kBytes = F::kBlocks * F::kBlockBytes;
    uint8_t copy[kBytes];
    auto* b = reinterpret_cast<Block*>(out);
    for (int64_t i = 0; i < n; i += kSuper, w += kBytes, ++b) {
      const uint8_t* p = n - i < kSuper ? padded_blocks<F>(w, n - i, copy) : w;
      __m256i v[8];
      __m256 s[2];
      __m256 m[2];
      F::unpack(p, v);
      F::scales(p, s, m);
      for (int k = 0; k < 8; ++k) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(b->q + 32 * k), v[k]);
      }
      for (int k = 0; k < (kGroup == 16 ? 2 : 1); ++k) {
        _mm256_storeu_ps(b->s + 8 * k, s[k]);
        if constexpr (kMinimum) _mm256_storeu_ps(b->m + 8 * k, m[k]);
      }
    }
  }
};

template <class F>
[[gnu::noinline]] void many_rows(const IntegerProduct& p) {
  using U = Unpacked<F>;
  // The last super-block of a row may be padded, and so are its activations.
  const int64_t n = (p.n_in + kSuper - 1) / kSuper * kSuper;
  for (int64_t o = 0; o < p.n_out; ++o) {
    U::fill(p.w + o * p.w_stride, p.n_in, p.scratch);
    int64_t r = 0;
    for (; r + kMaxRows <= p.n_rows; r += kMaxRows) {
      float v[kMaxRows];
      dot_row<U, kMaxRows>(p.scratch, n, p.x + r, v);
      for (int k = 0; k < kMaxRows; ++k) store(p.y[r + k][o], v[k], p.accumulate);
    }
    for (; r < p.n_rows; ++r) {
      float v[1];
      dot_row<U, 1>(p.scratch, n, p.x + r, v);
      store(p.y[r][o], v[0], p.accumulate);
    }
  }
}

template <class F>
void integer_product(const IntegerProduct& p) {
  switch (p.n_rows) {
    case 1:
      return dot_rows<F, 1>(p);
    case 2:
      return dot_rows<F, 2>(p);
    case 3:
      return dot_rows<F, 3>(p);
    case 4:
      return dot_rows<F, 4>(p);
    default:
      return many_rows<F>(p);
  }
}

}  // namespace
}  // namespace chimere::kernels::cpu::avx2

#endif  // CHIMERE_KERNELS_CPU_AVX2_INTEGER_PRODUCT_H_
