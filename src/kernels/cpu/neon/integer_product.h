// The integer product (docs/numerics.md, rule 4) with NEON, for any format F with the base Layout
// and
//
//   F::unpack(p, v)      256 elements at p as rule 4's integers in 16 vectors, in natural order
//   F::scales(p, s, m)   scales of 256 / F::kGroup groups, and minima, which only formats with
//   minima set
//
// A super-block of 256 weights is unpacked once for all activation rows. With i8mm, two weight rows
// meet two activation rows: an instruction multiplies 2 x 8 bytes by 8 x 2. Lanes of partial sums
// are scale groups (otherwise), or the four pairs of rows (i8mm).
#ifndef CHIMERE_KERNELS_CPU_NEON_INTEGER_PRODUCT_H_
#define CHIMERE_KERNELS_CPU_NEON_INTEGER_PRODUCT_H_

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul.h"
#include "kernels/dot_rule.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

inline constexpr int kSuper = 256;

/// Base of a format F of integer_product<F>().
template <DType kType, class BlockType, int kBlocksOf256>
struct Layout {
  using Block = BlockType;
  static constexpr int kGroup = scale_group(kType);     ///< elements of a scale group
  static constexpr int kGroups = kSuper / kGroup;       ///< in a super-block
  static constexpr bool kMinimum = has_minimum(kType);  ///< whether groups have a minimum
  static constexpr int kBlocks = kBlocksOf256;          ///< blocks in 256 elements
  static constexpr int64_t kBlockBytes = sizeof(Block);

  CHIMERE_INLINE static const Block* at(const uint8_t* p) {
    return reinterpret_cast<const Block*>(p);
  }
};

/// Adds the products of 16 weights and activations to four sums, in any order.
CHIMERE_INLINE int32x4_t dot_bytes(int32x4_t sum, int8x16_t w, int8x16_t x) {
#ifdef __ARM_FEATURE_DOTPROD
  return vdotq_s32(sum, w, x);
#else
  sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(w), vget_low_s8(x)));
  return vpadalq_s16(sum, vmull_high_s8(w, x));
#endif
}

struct SuperBlock {
  int8_t q[kSuper];
  float s[16];
  float m[16];
};

template <class F>
CHIMERE_INLINE void unpack_super(const uint8_t* p, SuperBlock& out) {
  int8x16_t v[16];
  F::unpack(p, v);
  for (int i = 0; i < 16; ++i) vst1q_s8(out.q + 16 * i, v[i]);
  F::scales(p, out.s, out.m);
}

/// The sums of four groups of 32, from group g on, or of 16.
template <int kGroup>
CHIMERE_INLINE int32x4_t group_sums(const int8_t* w, const int8_t* x) {
  int32x4_t sum[4];
  for (int g = 0; g < 4; ++g) {
    sum[g] = vdupq_n_s32(0);
    for (int i = 0; i < kGroup; i += 16) {
      sum[g] = dot_bytes(sum[g], vld1q_s8(w + kGroup * g + i), vld1q_s8(x + kGroup * g + i));
    }
  }
  return vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3]));
}

/// Adds super-block i of a row to its 16 partial sums.
template <class F>
CHIMERE_INLINE void add_super(const SuperBlock& w, const RoundedRow& x, int64_t i,
                              float32x4_t acc[4]) {
  constexpr int kFours = F::kGroups / 4;
  for (int g = 0; g < kFours; ++g) {
    float32x4_t& a = acc[kFours == 4 ? g : 2 * (i % 2) + g];
    const int first = 4 * g * F::kGroup;
    const float32x4_t dot =
        vcvtq_f32_s32(group_sums<F::kGroup>(w.q + first, x.q + kSuper * i + first));
    float32x4_t d;
    int32x4_t neg_sum;
    if constexpr (F::kGroup == 32) {
      d = vld1q_f32(x.d + 8 * i + 4 * g);
      neg_sum = vld1q_s32(x.neg_sum32 + 8 * i + 4 * g);
    } else {
      const float32x2_t two = vld1_f32(x.d + 8 * i + 2 * g);
      d = vcombine_f32(vdup_lane_f32(two, 0), vdup_lane_f32(two, 1));
      neg_sum = vld1q_s32(x.neg_sum16 + 16 * i + 4 * g);
    }
    a = vfmaq_f32(a, dot, vmulq_f32(vld1q_f32(w.s + 4 * g), d));
    if constexpr (F::kMinimum) {
      a = vfmaq_f32(a, vld1q_f32(w.m + 4 * g), vmulq_f32(d, vcvtq_f32_s32(neg_sum)));
    }
  }
}

CHIMERE_INLINE float tree_of_16(const float32x4_t acc[4]) {
  const float32x4_t b = vaddq_f32(vaddq_f32(acc[0], acc[2]), vaddq_f32(acc[1], acc[3]));
  const float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
  return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
}

CHIMERE_INLINE void store(float& y, float value, bool accumulate) {
  y = accumulate ? y + value : value;
}

/// Where a super-block begins; the rest of a row, less than 256 elements, is copied into a zeroed
/// one. Zeros change no partial sum (avx2/byte_products.h says why).
template <class F>
CHIMERE_INLINE const uint8_t* super_at(const uint8_t* row, int64_t i, int64_t n_in, uint8_t* copy) {
  const uint8_t* p = row + i * F::kBlocks * F::kBlockBytes;
  if (n_in - kSuper * i >= kSuper) return p;
  constexpr int64_t kElements = kSuper / F::kBlocks;
  std::memset(copy, 0, F::kBlocks * F::kBlockBytes);
  std::memcpy(copy, p, static_cast<size_t>((n_in - kSuper * i) / kElements * F::kBlockBytes));
  return copy;
}

CHIMERE_INLINE int64_t supers_of(int64_t n_in) { return (n_in + kSuper - 1) / kSuper; }

/// kRows activation rows from `row` on.
template <class F, int kRows>
CHIMERE_INLINE void multiply_rows(const IntegerProduct& p, int64_t o, int64_t row) {
  float32x4_t acc[kRows][4];
  for (auto& of_row : acc) {
    for (float32x4_t& a : of_row) a = vdupq_n_f32(0);
  }
  uint8_t copy[F::kBlocks * F::kBlockBytes];
  SuperBlock block;
  const int64_t end = supers_of(p.n_in);
  for (int64_t i = 0; i < end; ++i) {
    unpack_super<F>(super_at<F>(p.w + o * p.w_stride, i, p.n_in, copy), block);
    for (int r = 0; r < kRows; ++r) add_super<F>(block, p.x[row + r], i, acc[r]);
  }
  for (int r = 0; r < kRows; ++r) store(p.y[row + r][o], tree_of_16(acc[r]), p.accumulate);
}

/// One weight row and activation rows from `row` on, by an unpacked weight row in scratch.
template <class F>
CHIMERE_INLINE void multiply_unpacked(const IntegerProduct& p, int64_t o, int64_t row) {
  uint8_t copy[F::kBlocks * F::kBlockBytes];
  auto* blocks = reinterpret_cast<SuperBlock*>(p.scratch);
  const int64_t end = supers_of(p.n_in);
  for (int64_t i = 0; i < end; ++i) {
    unpack_super<F>(super_at<F>(p.w + o * p.w_stride, i, p.n_in, copy), blocks[i]);
  }
  for (int64_t r = row; r < p.n_rows; ++r) {
    float32x4_t acc[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    for (int64_t i = 0; i < end; ++i) add_super<F>(blocks[i], p.x[r], i, acc);
    store(p.y[r][o], tree_of_16(acc), p.accumulate);
  }
}

#ifdef __ARM_FEATURE_MATMUL_INT8
/// A super-block of two weight rows: 8 bytes of the one, 8 of the other. Scales for the four pairs
/// of rows.
struct PairBlock {
  int8_t q[2 * kSuper];
  float s[16][4];
  float m[16][4];
};
static_assert(sizeof(PairBlock) == 4 * kSuper, "scratch_bytes()");

template <class F>
CHIMERE_INLINE void unpack_pair(const uint8_t* a, const uint8_t* b, PairBlock& out) {
  int8x16_t va[16];
  int8x16_t vb[16];
  F::unpack(a, va);
  F::unpack(b, vb);
  for (int i = 0; i < 16; ++i) {
    const int64x2_t x = vreinterpretq_s64_s8(va[i]);
    const int64x2_t y = vreinterpretq_s64_s8(vb[i]);
    vst1q_s8(out.q + 32 * i, vreinterpretq_s8_s64(vzip1q_s64(x, y)));
    vst1q_s8(out.q + 32 * i + 16, vreinterpretq_s8_s64(vzip2q_s64(x, y)));
  }
  float s[2][16];
  float m[2][16];
  F::scales(a, s[0], m[0]);
  F::scales(b, s[1], m[1]);
  for (int g = 0; g < F::kGroups; ++g) {
    vst1q_f32(out.s[g], vcombine_f32(vdup_n_f32(s[0][g]), vdup_n_f32(s[1][g])));
    if constexpr (F::kMinimum) {
      vst1q_f32(out.m[g], vcombine_f32(vdup_n_f32(m[0][g]), vdup_n_f32(m[1][g])));
    }
  }
}

CHIMERE_INLINE float32x4_t twice(float a, float b) {
  const float32x2_t two = vset_lane_f32(b, vdup_n_f32(a), 1);
  return vcombine_f32(two, two);
}

/// Adds super-block i of two weight rows times two activation rows to 16 partial sums of each pair.
template <class F>
CHIMERE_INLINE void add_pair(const PairBlock& w, const RoundedRow& x, const RoundedRow& y,
                             int64_t i, float32x4_t acc[16]) {
  for (int g = 0; g < F::kGroups; ++g) {
    const int64_t group = F::kGroups * i + g;
    int32x4_t dot = vdupq_n_s32(0);
    for (int e = 0; e < F::kGroup; e += 16) {
      const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(x.q + F::kGroup * group + e));
      const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(y.q + F::kGroup * group + e));
      const int8_t* q = w.q + 2 * (F::kGroup * g + e);
      dot = vmmlaq_s32(dot, vld1q_s8(q), vreinterpretq_s8_s64(vzip1q_s64(a, b)));
      dot = vmmlaq_s32(dot, vld1q_s8(q + 16), vreinterpretq_s8_s64(vzip2q_s64(a, b)));
    }
    const int64_t block = group * F::kGroup / kActivationBlock;
    const float32x4_t d = twice(x.d[block], y.d[block]);
    float32x4_t& sum = acc[group % kPartials];
    sum = vfmaq_f32(sum, vcvtq_f32_s32(dot), vmulq_f32(vld1q_f32(w.s[g]), d));
    if constexpr (F::kMinimum) {
      const int32_t* neg_x = F::kGroup == 32 ? x.neg_sum32 : x.neg_sum16;
      const int32_t* neg_y = F::kGroup == 32 ? y.neg_sum32 : y.neg_sum16;
      const float32x4_t neg =
          twice(static_cast<float>(neg_x[group]), static_cast<float>(neg_y[group]));
      sum = vfmaq_f32(sum, vld1q_f32(w.m[g]), vmulq_f32(d, neg));
    }
  }
}

/// Weight rows o and o + 1, and activation rows in pairs; returns the first row that is left.
template <class F>
CHIMERE_INLINE int64_t multiply_pairs(const IntegerProduct& p, int64_t o) {
  uint8_t copy[2][F::kBlocks * F::kBlockBytes];
  auto* blocks = reinterpret_cast<PairBlock*>(p.scratch);
  const int64_t end = supers_of(p.n_in);
  const uint8_t* w = p.w + o * p.w_stride;
  for (int64_t i = 0; i < end; ++i) {
    unpack_pair<F>(super_at<F>(w, i, p.n_in, copy[0]),
                   super_at<F>(w + p.w_stride, i, p.n_in, copy[1]), blocks[i]);
  }
  int64_t r = 0;
  for (; r + 1 < p.n_rows; r += 2) {
    float32x4_t acc[kPartials];
    for (float32x4_t& a : acc) a = vdupq_n_f32(0);
    for (int64_t i = 0; i < end; ++i) add_pair<F>(blocks[i], p.x[r], p.x[r + 1], i, acc);
    for (int half = kPartials / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) acc[j] = vaddq_f32(acc[j], acc[j + half]);
    }
    float y[4];
    vst1q_f32(y, acc[0]);
    for (int i = 0; i < 4; ++i) store(p.y[r + i % 2][o + i / 2], y[i], p.accumulate);
  }
  return r;
}
#endif

template <class F>
CHIMERE_INLINE void multiply_from(const IntegerProduct& p, int64_t o, int64_t row) {
  switch (p.n_rows - row) {
    case 0:
      return;
    case 1:
      return multiply_rows<F, 1>(p, o, row);
    case 2:
      return multiply_rows<F, 2>(p, o, row);
    case 3:
      return multiply_rows<F, 3>(p, o, row);
    default:
      return multiply_unpacked<F>(p, o, row);
  }
}

template <class F>
CHIMERE_INLINE void integer_product(const IntegerProduct& p) {
  int64_t o = 0;
#ifdef __ARM_FEATURE_MATMUL_INT8
  constexpr int64_t kPairRows =
      4;  // from this number on, pairs are worth the second row's registers
  if (p.n_rows >= kPairRows) {
    for (; o + 1 < p.n_out; o += 2) {
      const int64_t row = multiply_pairs<F>(p, o);
      multiply_from<F>(p, o, row);
      multiply_from<F>(p, o + 1, row);
    }
  }
#endif
  for (; o < p.n_out; ++o) multiply_from<F>(p, o, 0);
}

}  // namespace
}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_NEON_INTEGER_PRODUCT_H_
