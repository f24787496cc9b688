// Device code: decodes 32 weights of a packed row to a tensor-core fragment. Four lanes share the
// 32 weights: lane `part` gets elements 8 part .. 8 part + 7 in the fragment positions
// (ptx/integer_mma.h) of elements 4 part .. and 16 + 4 part ... A dot product does not depend on
// the order of its elements, as long as both operands use the same.
#ifndef CHIMERE_KERNELS_CUDA_FRAGMENT_CODEC_H_
#define CHIMERE_KERNELS_CUDA_FRAGMENT_CODEC_H_

#include "kernels/cuda/codec.h"

namespace chimere::kernels::cuda {

/// kHalves: scale groups in the 32 weights.
template <int kHalves>
struct WeightFragment {
  uint32_t q[2];
  float scale[kHalves];
  float minimum[kHalves];
};

/// Sets both scales of a block with two groups of 16; each half's lanes have decoded one of them.
__device__ __forceinline__ void put_halves(float scale, float minimum, bool has_minimum, int part,
                                           WeightFragment<2>& out) {
  const float other = __shfl_xor_sync(kFullWarp, scale, 2);
  out.scale[0] = part < 2 ? scale : other;
  out.scale[1] = part < 2 ? other : scale;
  out.minimum[0] = 0;
  out.minimum[1] = 0;
  if (!has_minimum) return;
  const float other_minimum = __shfl_xor_sync(kFullWarp, minimum, 2);
  out.minimum[0] = part < 2 ? minimum : other_minimum;
  out.minimum[1] = part < 2 ? other_minimum : minimum;
}

/// Generic version: decodes the whole group and takes this lane's part. All lanes of the warp.
template <DType kType>
struct FragmentCodec {
  static constexpr int kHalves = 32 / Codec<kType>::kGroup;

  template <class Row>
  static __device__ __forceinline__ void load(const Row& row, int block, int part,
                                              const uint32_t* codebook,
                                              WeightFragment<kHalves>& out) {
    using C = Codec<kType>;
    Group<C::kGroup> group;
    if constexpr (kHalves == 1) {
      expand_exact<kType>(C::load(row, block), codebook, group);
      out.scale[0] = group.scale;
      out.minimum[0] = group.minimum;
    } else {
      expand_exact<kType>(C::load(row, 2 * block + part / 2), codebook, group);
      put_halves(group.scale, group.minimum, has_minimum(kType), part, out);
    }
    const int own = kHalves == 1 ? part : part % 2;
    out.q[0] = group.q[0];
    out.q[1] = group.q[1];
#pragma unroll
    for (int j = 1; j < 4 / kHalves; ++j) {
      if (own == j) {
        out.q[0] = group.q[2 * j];
        out.q[1] = group.q[2 * j + 1];
      }
    }
  }
};

template <>
struct FragmentCodec<DType::kQ8_0> {
  static constexpr int kHalves = 1;

  template <class Row>
  static __device__ __forceinline__ void load(const Row& row, int block, int part,
                                              const uint32_t* /*codebook*/,
                                              WeightFragment<1>& out) {
    const int plane = part / 2 * row.blocks * 16;
    const auto words = Row::template load<uint2>(row.at + plane + block * 16 + part % 2 * 8);
    out.q[0] = words.x;
    out.q[1] = words.y;
    out.scale[0] = f16_bits_to_f32(load_unit<uint16_t, DType::kQ8_0, 2>(row, block));
    out.minimum[0] = 0;
  }
};

/// The part's eight elements of a block of 32 nibbles: words 2 (part % 2) and the next of its four;
/// parts 2 and 3 use the high nibbles.
template <class Row>
__device__ __forceinline__ uint2 nibbles_of_part(const Row& row, int block, int part) {
  const auto words = Row::template load<uint2>(row.at + block * 16 + part % 2 * 8);
  const int shift = part / 2 * 4;
  return {(words.x >> shift) & 0x0F0F0F0FU, (words.y >> shift) & 0x0F0F0F0FU};
}

/// Q4_0, Q4_1, Q5_0 and Q5_1.
template <DType kType>
struct PlainFragmentCodec {
  static constexpr int kHalves = 1;
  static constexpr bool kFifthBit = kType == DType::kQ5_0 || kType == DType::kQ5_1;
  static constexpr bool kPair = kType == DType::kQ4_1 || kType == DType::kQ5_1;

  template <class Row>
  static __device__ __forceinline__ void load(const Row& row, int block, int part,
                                              const uint32_t* /*codebook*/,
                                              WeightFragment<1>& out) {
    constexpr int kScalePlane = kFifthBit ? 2 : 1;
    const uint2 nibbles = nibbles_of_part(row, block, part);
    out.q[0] = nibbles.x;
    out.q[1] = nibbles.y;
    if constexpr (kFifthBit) {
      const uint32_t fifth = load_unit<uint32_t, kType, 1>(row, block) >> (2 * part);
      out.q[0] |= (fifth << 4U) & 0x10101010U;
      out.q[1] |= (fifth << 3U) & 0x10101010U;
    }
    if constexpr (excess_of(kType) != 0) {
      out.q[0] = less<excess_of(kType)>(out.q[0]);
      out.q[1] = less<excess_of(kType)>(out.q[1]);
    }
    out.minimum[0] = 0;
    if constexpr (kPair) {
      const uint32_t pair = load_unit<uint32_t, kType, kScalePlane>(row, block);
      out.scale[0] = f16_bits_to_f32(pair & 0xFFFFU);
      out.minimum[0] = -f16_bits_to_f32(pair >> 16U);
    } else {
      out.scale[0] = f16_bits_to_f32(load_unit<uint16_t, kType, kScalePlane>(row, block));
    }
  }
};
template <>
struct FragmentCodec<DType::kQ4_0> : PlainFragmentCodec<DType::kQ4_0> {};
template <>
struct FragmentCodec<DType::kQ4_1> : PlainFragmentCodec<DType::kQ4_1> {};
template <>
struct FragmentCodec<DType::kQ5_0> : PlainFragmentCodec<DType::kQ5_0> {};
template <>
struct FragmentCodec<DType::kQ5_1> : PlainFragmentCodec<DType::kQ5_1> {};

/// Q4_K and Q5_K.
template <DType kType>
struct SuperFragmentCodec {
  static constexpr int kHalves = 1;
  static constexpr bool kFifthBit = kType == DType::kQ5_K;

  template <class Row>
  static __device__ __forceinline__ void load(const Row& row, int block, int part,
                                              const uint32_t* /*codebook*/,
                                              WeightFragment<1>& out) {
    const uint2 nibbles = nibbles_of_part(row, block, part);
    out.q[0] = nibbles.x;
    out.q[1] = nibbles.y;
    if constexpr (kFifthBit) {
      const uint32_t fifth = load_unit<uint32_t, kType, 1>(row, block) >> (2 * part);
      out.q[0] |= (fifth << 4U) & 0x10101010U;
      out.q[1] |= (fifth << 3U) & 0x10101010U;
    }
    const uint32_t scale = load_unit < uint16_t, kType, kFifthBit ? 2 : 1 > (row, block);
    const auto super = Row::template load<uint32_t>(super_of<kType>(row, block / 8));
    out.scale[0] = f16_bits_to_f32(super & 0xFFFFU) * static_cast<float>(scale & 255U);
    out.minimum[0] = f16_bits_to_f32(super >> 16U) * static_cast<float>(scale >> 8U);
  }
};
template <>
struct FragmentCodec<DType::kQ4_K> : SuperFragmentCodec<DType::kQ4_K> {};
template <>
struct FragmentCodec<DType::kQ5_K> : SuperFragmentCodec<DType::kQ5_K> {};

template <>
struct FragmentCodec<DType::kQ6_K> {
  static constexpr int kHalves = 2;

  template <class Row>
  static __device__ __forceinline__ void load(const Row& row, int block, int part,
                                              const uint32_t* /*codebook*/,
                                              WeightFragment<2>& out) {
    const int g = 2 * block + part / 2;
    const auto nibbles = load_unit<uint2, DType::kQ6_K, 0>(row, g);
    const int shift = part % 2 * 4;
    const uint32_t pairs = load_unit<uint32_t, DType::kQ6_K, 1>(row, g) >> shift;
    constexpr uint32_t kTop = 0x30303030U;
    out.q[0] = less<32>(((nibbles.x >> shift) & 0x0F0F0F0FU) | ((pairs << 4U) & kTop));
    out.q[1] = less<32>(((nibbles.y >> shift) & 0x0F0F0F0FU) | ((pairs << 2U) & kTop));
    const uint32_t scale = load_unit<uint8_t, DType::kQ6_K, 2>(row, g);
    const uint32_t super = Row::template load<uint16_t>(super_of<DType::kQ6_K>(row, g / 16));
    put_halves(f16_bits_to_f32(super) * static_cast<float>(static_cast<int8_t>(scale)), 0, false,
               part, out);
  }
};

/// 16 weights as a fragment of K = 16: lane `part` of four has elements 4 part .. 4 part + 3.
struct HalfFragment {
  uint32_t q;
  float scale;
};

/// For types with groups of 16 and without a minimum: one group, without decoding the other half of
/// its 32 weights.
template <DType kType>
struct HalfFragmentCodec {
  static constexpr bool kExists = false;
};

template <>
struct HalfFragmentCodec<DType::kQ6_K> {
  static constexpr bool kExists = true;

  template <class Row>
  static __device__ __forceinline__ HalfFragment load(const Row& row, int g, int part) {
    const auto nibbles = load_unit<uint32_t, DType::kQ6_K, 0>(row, 2 * g + part % 2);
    const auto pairs = load_unit<uint32_t, DType::kQ6_K, 1>(row, g);
    const uint32_t low = (nibbles >> (part / 2 * 4)) & 0x0F0F0F0FU;
    const uint32_t high = (pairs >> (2 * part)) & 0x03030303U;
    const uint32_t scale = load_unit<uint8_t, DType::kQ6_K, 2>(row, g);
    const uint32_t super = Row::template load<uint16_t>(super_of<DType::kQ6_K>(row, g / 16));
    return {less<32>(low + (high << 4U)),
            f16_bits_to_f32(super) * static_cast<float>(static_cast<int8_t>(scale))};
  }
};

template <>
struct FragmentCodec<DType::kIQ3_S_UNPACKED> {
  static constexpr int kHalves = 1;

  template <class Row>
  static __device__ __forceinline__ void load(const Row& row, int block, int part,
                                              const uint32_t* /*codebook*/,
                                              WeightFragment<1>& out) {
    constexpr DType kType = DType::kIQ3_S_UNPACKED;
    const uint2 nibbles = nibbles_of_part(row, block, part);
    out.q[0] = less<excess_of(kType)>(nibbles.x << 1U);
    out.q[1] = less<excess_of(kType)>(nibbles.y << 1U);
    const uint32_t scale = load_unit<uint8_t, kType, 1>(row, block);
    const uint32_t super = Row::template load<uint16_t>(super_of<kType>(row, block / 8));
    out.scale[0] = f16_bits_to_f32(super) * static_cast<float>(static_cast<int8_t>(scale));
    out.minimum[0] = 0;
  }
};

template <>
struct FragmentCodec<DType::kIQ3_S> {
  static constexpr int kHalves = 1;

  template <class Row>
  static __device__ __forceinline__ void load(const Row& row, int block, int part,
                                              const uint32_t* codebook, WeightFragment<1>& out) {
    const uint32_t indices = Row::template load<uint16_t>(row.at + block * 8 + 2 * part);
    const uint32_t signs = load_unit<uint32_t, DType::kIQ3_S, 1>(row, block) << (2 * part);
    const uint32_t ninth =
        static_cast<uint32_t>(load_unit<uint8_t, DType::kIQ3_S, 2>(row, block)) >> (2 * part);
    const uint8_t* super = super_of<DType::kIQ3_S>(row, block / 8);
    out.q[0] = with_signs(codebook[(indices & 255U) | ((ninth << 8U) & 256U)], signs);
    out.q[1] = with_signs(codebook[(indices >> 8U) | ((ninth << 7U) & 256U)], signs << 1U);
    const uint32_t scales = Row::template load<uint8_t>(super + block % 8 / 2);
    out.scale[0] =
        odd_scale(Row::template load<uint16_t>(super + 4), (scales >> (block % 2 * 4)) & 15U, 1.0F);
    out.minimum[0] = 0;
  }
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_FRAGMENT_CODEC_H_
