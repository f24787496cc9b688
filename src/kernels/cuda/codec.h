// Device code: reads packed weights (packed_layout.h). Codec<T>::load() only loads one scale group
// of a row, so that many loads can be in flight. Codec<T>::expand() decodes it to the operands of
// rule 4 of docs/numerics.md: integers (each larger by excess_of(T)), four signed bytes per word in
// element order, the scale, and the minimum. `codebook` is the type's part of codebook_words(),
// best in shared memory.
#ifndef CHIMERE_KERNELS_CUDA_CODEC_H_
#define CHIMERE_KERNELS_CUDA_CODEC_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/cuda/ptx/byte_permute.h"
#include "kernels/cuda/ptx/half.h"
#include "kernels/cuda/ptx/stream_load.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {

/// A decoded scale group (rule 4).
template <int kGroup>
struct Group {
  uint32_t q[kGroup / 4];
  float scale;
  float minimum;
};

/// A packed row in device memory that a launch reads several times.
struct KeptRow {
  const uint8_t* at;
  int blocks;  ///< n_in / 32

  template <class Word>
  static __device__ __forceinline__ Word load(const uint8_t* p) {
    return __ldg(reinterpret_cast<const Word*>(p));
  }
};

/// A packed row in device memory that a launch reads once.
struct PackedRow {
  const uint8_t* at;
  int blocks;  ///< n_in / 32

  template <class Word>
  static __device__ __forceinline__ Word load(const uint8_t* p) {
    return load_stream(reinterpret_cast<const Word*>(p));
  }
};

/// A packed row in shared memory.
struct SharedRow {
  const uint8_t* at;
  int blocks;

  template <class Word>
  static __device__ __forceinline__ Word load(const uint8_t* p) {
    return *reinterpret_cast<const Word*>(p);
  }
};

/// Unit `index`, of sizeof(Word) bytes, of plane kPlane.
template <class Word, DType kType, int kPlane, class Row>
__device__ __forceinline__ Word load_unit(const Row& row, int index) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  constexpr int kBefore = (kPlane > 0 ? kLayout.plane[0] : 0) +
                          (kPlane > 1 ? kLayout.plane[1] : 0) + (kPlane > 2 ? kLayout.plane[2] : 0);
  return Row::template load<Word>(row.at + row.blocks * kBefore +
                                  index * static_cast<int>(sizeof(Word)));
}

/// The bytes of super-block `index`.
template <DType kType, class Row>
__device__ __forceinline__ const uint8_t* super_of(const Row& row, int index) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  return row.at + row.blocks * (kLayout.plane[0] + kLayout.plane[1] + kLayout.plane[2]) +
         index * kLayout.super;
}

/// How much the integers of Codec<t>::expand() exceed those of rule 4 (bits are used as stored).
/// Products with many rows subtract it from the integers (expand_exact()), products with one row
/// from the dot product.
constexpr uint32_t excess_of(DType t) {
  switch (t) {
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return 1;
    case DType::kQ3_K:
      return 4;
    case DType::kQ4_0:
      return 8;
    case DType::kIQ3_S_UNPACKED:
      return 15;
    case DType::kQ5_0:
      return 16;
    case DType::kQ6_K:
      return 32;
    default:
      return 0;
  }
}

/// Subtracts kOffset from each byte; all bytes are below 128.
template <uint32_t kOffset>
__device__ __forceinline__ uint32_t less(uint32_t bytes) {
  return (bytes + (128U - kOffset) * 0x01010101U) ^ 0x80808080U;
}

/// Negates the non-zero bytes of `magnitudes` whose bit 7 is set in `signs`.
__device__ __forceinline__ uint32_t with_signs(uint32_t magnitudes, uint32_t signs) {
  const uint32_t mask = repeat_sign_bits(signs);
  return (magnitudes ^ mask) + (mask & 0x01010101U);
}

/// Moves bits 0 to 3 of `signs` to bit 7 of bytes 0 to 3.
__device__ __forceinline__ uint32_t spread_signs(uint32_t signs) {
  return (signs & 15U) * 0x10204080U;
}

/// Appends the eighth sign, which makes the parity even, to seven signs.
__device__ __forceinline__ uint32_t even_signs(uint32_t seven) {
  seven &= 127U;
  return seven | ((static_cast<uint32_t>(__popc(seven)) & 1U) << 7U);
}

__device__ __forceinline__ uint32_t low_nibbles(uint32_t w) { return w & 0x0F0F0F0FU; }
__device__ __forceinline__ uint32_t high_nibbles(uint32_t w) { return (w >> 4U) & 0x0F0F0F0FU; }

/// Looks up four values in a type's table (quant::kIq4NlValues, quant::kMxfp4Values), four bytes to
/// a word.
template <DType kType>
__device__ __forceinline__ uint32_t table_values(uint32_t nibbles) {
  constexpr bool kMxfp4 = kType == DType::kMXFP4;
  constexpr uint32_t kFirst[2] = {kMxfp4 ? 0x03020100U : 0xBFAD9881U,
                                  kMxfp4 ? 0x0C080604U : 0xF6EADDCFU};
  constexpr uint32_t kSecond[2] = {kMxfp4 ? 0xFDFEFF00U : 0x26190D01U,
                                   kMxfp4 ? 0xF4F8FAFCU : 0x71594535U};
  const uint32_t low = __byte_perm(kFirst[0], kFirst[1], nibbles & 0x7777U);
  const uint32_t high = __byte_perm(kSecond[0], kSecond[1], nibbles & 0x7777U);
  return __byte_perm(low, high, 0x3210U | ((nibbles & 0x8888U) >> 1U));
}

/// Looks up the low and the high nibbles of w.
template <DType kType>
__device__ __forceinline__ void look_up(uint32_t w, uint32_t& low, uint32_t& high) {
  const uint32_t first = table_values<kType>(w);  // elements 0, 16, 1, 17 of the word's eight
  const uint32_t second = table_values<kType>(w >> 16U);  // 2, 18, 3, 19
  low = __byte_perm(first, second, 0x6420);
  high = __byte_perm(first, second, 0x7531);
}

/// 2^(e - 128).
__device__ __forceinline__ float half_e8m0(uint32_t e) {
  return __uint_as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23U);
}

/// d * (1 + 2 * scale) * unit.
__device__ __forceinline__ float odd_scale(uint32_t d, uint32_t scale, float unit) {
  return f16_bits_to_f32(d) * static_cast<float>(1 + 2 * scale) * unit;
}

/// Codec of all types with groups of 32 and one 16-byte unit of nibbles: optionally a fifth bit, a
/// value table, and scales of several kinds. kType selects the parts at compile time.
template <DType kType>
struct NibbleCodec {
  static constexpr int kGroup = 32;
  static constexpr bool kFifthBit =
      kType == DType::kQ5_0 || kType == DType::kQ5_1 || kType == DType::kQ5_K;
  static constexpr bool kPair = kType == DType::kQ4_1 || kType == DType::kQ5_1;
  static constexpr bool kSuper = kType == DType::kQ4_K || kType == DType::kQ5_K;
  static constexpr bool kScaleByte = kType == DType::kIQ4_XS || kType == DType::kIQ3_S_UNPACKED;
  static constexpr int kScalePlane = kFifthBit ? 2 : 1;

  struct Raw {
    uint4 nibbles;
    uint32_t fifth;
    uint32_t scale;
    uint32_t super;
  };

  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    Raw r = {};
    r.nibbles = load_unit<uint4, kType, 0>(row, g);
    if constexpr (kFifthBit) r.fifth = load_unit<uint32_t, kType, 1>(row, g);
    if constexpr (kPair) {
      r.scale = load_unit<uint32_t, kType, kScalePlane>(row, g);
    } else if constexpr (kType == DType::kMXFP4 || kScaleByte) {
      r.scale = load_unit<uint8_t, kType, kScalePlane>(row, g);
    } else {
      r.scale = load_unit<uint16_t, kType, kScalePlane>(row, g);
    }
    if constexpr (kSuper) r.super = Row::template load<uint32_t>(super_of<kType>(row, g / 8));
    if constexpr (kScaleByte) {
      r.super = Row::template load<uint16_t>(super_of<kType>(row, g / 8));
    }
    return r;
  }

  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* /*codebook*/,
                                                Group<32>& out) {
    const uint32_t words[4] = {r.nibbles.x, r.nibbles.y, r.nibbles.z, r.nibbles.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t low;
      uint32_t high;
      if constexpr (kType == DType::kMXFP4 || kType == DType::kIQ4_NL || kType == DType::kIQ4_XS) {
        look_up<kType>(words[j], low, high);
      } else if constexpr (kType == DType::kIQ3_S_UNPACKED) {
        low = (words[j] << 1U) & 0x1E1E1E1EU;
        high = (words[j] >> 3U) & 0x1E1E1E1EU;
      } else {
        low = low_nibbles(words[j]);
        high = high_nibbles(words[j]);
      }
      if constexpr (kFifthBit) {
        low |= (r.fifth << (4 - j)) & 0x10101010U;
        high |= (r.fifth >> j) & 0x10101010U;
      }
      out.q[j] = low;
      out.q[4 + j] = high;
    }
    out.minimum = 0;
    if constexpr (kType == DType::kMXFP4) {
      out.scale = half_e8m0(r.scale);
    } else if constexpr (kScaleByte) {
      out.scale = f16_bits_to_f32(r.super) * static_cast<float>(static_cast<int8_t>(r.scale));
    } else if constexpr (kSuper) {
      out.scale = f16_bits_to_f32(r.super & 0xFFFFU) * static_cast<float>(r.scale & 255U);
      out.minimum = f16_bits_to_f32(r.super >> 16U) * static_cast<float>(r.scale >> 8U);
    } else {
      out.scale = f16_bits_to_f32(r.scale & 0xFFFFU);
      if constexpr (kPair) out.minimum = -f16_bits_to_f32(r.scale >> 16U);
    }
  }
};

template <DType kType>
struct Codec : NibbleCodec<kType> {};

template <>
struct Codec<DType::kQ8_0> {
  static constexpr int kGroup = 32;
  struct Raw {
    uint4 first;
    uint4 second;
    uint32_t scale;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    return {load_unit<uint4, DType::kQ8_0, 0>(row, g), load_unit<uint4, DType::kQ8_0, 1>(row, g),
            load_unit<uint16_t, DType::kQ8_0, 2>(row, g)};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* /*codebook*/,
                                                Group<32>& out) {
    out.q[0] = r.first.x;
    out.q[1] = r.first.y;
    out.q[2] = r.first.z;
    out.q[3] = r.first.w;
    out.q[4] = r.second.x;
    out.q[5] = r.second.y;
    out.q[6] = r.second.z;
    out.q[7] = r.second.w;
    out.scale = f16_bits_to_f32(r.scale);
    out.minimum = 0;
  }
};

template <>
struct Codec<DType::kQ6_K> {
  static constexpr int kGroup = 16;
  struct Raw {
    uint2 nibbles;
    uint32_t pairs;
    uint32_t scale;
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    return {load_unit<uint2, DType::kQ6_K, 0>(row, g), load_unit<uint32_t, DType::kQ6_K, 1>(row, g),
            load_unit<uint8_t, DType::kQ6_K, 2>(row, g),
            Row::template load<uint16_t>(super_of<DType::kQ6_K>(row, g / 16))};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* /*codebook*/,
                                                Group<16>& out) {
    constexpr uint32_t kTop = 0x30303030U;
    out.q[0] = low_nibbles(r.nibbles.x) | ((r.pairs << 4U) & kTop);
    out.q[1] = low_nibbles(r.nibbles.y) | ((r.pairs << 2U) & kTop);
    out.q[2] = high_nibbles(r.nibbles.x) | (r.pairs & kTop);
    out.q[3] = high_nibbles(r.nibbles.y) | ((r.pairs >> 2U) & kTop);
    out.scale = f16_bits_to_f32(r.super) * static_cast<float>(static_cast<int8_t>(r.scale));
    out.minimum = 0;
  }
};

template <>
struct Codec<DType::kQ2_K> {
  static constexpr int kGroup = 16;
  struct Raw {
    uint32_t pairs;
    uint32_t scale;
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    return {load_unit<uint32_t, DType::kQ2_K, 0>(row, g),
            load_unit<uint8_t, DType::kQ2_K, 1>(row, g),
            Row::template load<uint32_t>(super_of<DType::kQ2_K>(row, g / 16))};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* /*codebook*/,
                                                Group<16>& out) {
#pragma unroll
    for (int j = 0; j < 4; ++j) out.q[j] = (r.pairs >> (2 * j)) & 0x03030303U;
    out.scale = f16_bits_to_f32(r.super & 0xFFFFU) * static_cast<float>(r.scale & 15U);
    out.minimum = f16_bits_to_f32(r.super >> 16U) * static_cast<float>(r.scale >> 4U);
  }
};

template <>
struct Codec<DType::kQ3_K> {
  static constexpr int kGroup = 16;
  struct Raw {
    uint32_t pairs;
    uint32_t third;  ///< third bits of the 16 elements
    uint32_t scale;
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    return {load_unit<uint32_t, DType::kQ3_K, 0>(row, g),
            load_unit<uint32_t, DType::kQ3_K, 1>(row, g / 2) >> (g % 2 * 4),
            load_unit<uint8_t, DType::kQ3_K, 2>(row, g),
            Row::template load<uint16_t>(super_of<DType::kQ3_K>(row, g / 16))};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* /*codebook*/,
                                                Group<16>& out) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      out.q[j] = ((r.pairs >> (2 * j)) & 0x03030303U) | (((r.third >> j) & 0x01010101U) << 2U);
    }
    out.scale = f16_bits_to_f32(r.super) * static_cast<float>(static_cast<int8_t>(r.scale));
    out.minimum = 0;
  }
};

template <>
struct Codec<DType::kIQ3_S> {
  static constexpr int kGroup = 32;
  struct Raw {
    uint2 indices;
    uint32_t signs;
    uint32_t ninth;
    uint32_t scale;
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    const uint8_t* super = super_of<DType::kIQ3_S>(row, g / 8);
    return {load_unit<uint2, DType::kIQ3_S, 0>(row, g),
            load_unit<uint32_t, DType::kIQ3_S, 1>(row, g),
            load_unit<uint8_t, DType::kIQ3_S, 2>(row, g),
            static_cast<uint32_t>(Row::template load<uint8_t>(super + g % 8 / 2)) >> (g % 2 * 4),
            Row::template load<uint16_t>(super + 4)};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* codebook,
                                                Group<32>& out) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const uint32_t word = j < 4 ? r.indices.x : r.indices.y;
      const uint32_t index = ((word >> (j % 4 * 8)) & 255U) | ((r.ninth << (8 - j)) & 256U);
      out.q[j] = with_signs(codebook[index], r.signs << j);
    }
    out.scale = odd_scale(r.super, r.scale & 15U, 1.0F);
    out.minimum = 0;
  }
};

template <>
struct Codec<DType::kIQ3_XXS> {
  static constexpr int kGroup = 32;
  struct Raw {
    uint2 indices;
    uint32_t rest;
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    return {load_unit<uint2, DType::kIQ3_XXS, 0>(row, g),
            load_unit<uint32_t, DType::kIQ3_XXS, 1>(row, g),
            Row::template load<uint16_t>(super_of<DType::kIQ3_XXS>(row, g / 8))};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* codebook,
                                                Group<32>& out) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const uint32_t word = j < 4 ? r.indices.x : r.indices.y;
      const uint32_t signs = even_signs(r.rest >> (j / 2 * 7)) >> (j % 2 * 4);
      out.q[j] = with_signs(codebook[(word >> (j % 4 * 8)) & 255U], spread_signs(signs));
    }
    out.scale = odd_scale(r.super, r.rest >> 28U, 0.25F);
    out.minimum = 0;
  }
};

/// Decodes eight elements of an IQ2 format.
__device__ __forceinline__ void put_iq2_entry(const uint32_t* codebook, uint32_t index,
                                              uint32_t signs, uint32_t* q) {
  const uint2 entry = *reinterpret_cast<const uint2*>(codebook + 2 * index);
  q[0] = with_signs(entry.x, spread_signs(signs));
  q[1] = with_signs(entry.y, spread_signs(signs >> 4U));
}

template <>
struct Codec<DType::kIQ2_XXS> {
  static constexpr int kGroup = 32;
  struct Raw {
    uint2 words;  ///< four indices; then signs and scale
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    return {load_unit<uint2, DType::kIQ2_XXS, 0>(row, g),
            Row::template load<uint16_t>(super_of<DType::kIQ2_XXS>(row, g / 8))};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* codebook,
                                                Group<32>& out) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      put_iq2_entry(codebook, (r.words.x >> (8 * e)) & 255U, even_signs(r.words.y >> (7 * e)),
                    out.q + 2 * e);
    }
    out.scale = odd_scale(r.super, r.words.y >> 28U, 0.125F);
    out.minimum = 0;
  }
};

template <>
struct Codec<DType::kIQ2_XS> {
  static constexpr int kGroup = 16;
  struct Raw {
    uint32_t entries;  ///< two, each 9 bits of index and 7 of signs
    uint32_t scale;
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    const uint8_t* super = super_of<DType::kIQ2_XS>(row, g / 16);
    return {load_unit<uint32_t, DType::kIQ2_XS, 0>(row, g),
            static_cast<uint32_t>(Row::template load<uint8_t>(super + g % 16 / 2)) >> (g % 2 * 4),
            Row::template load<uint16_t>(super + 8)};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* codebook,
                                                Group<16>& out) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint32_t entry = r.entries >> (16 * e);
      put_iq2_entry(codebook, entry & 511U, even_signs(entry >> 9U), out.q + 2 * e);
    }
    out.scale = odd_scale(r.super, r.scale & 15U, 0.125F);
    out.minimum = 0;
  }
};

template <>
struct Codec<DType::kIQ2_S> {
  static constexpr int kGroup = 16;
  struct Raw {
    uint32_t entries;  ///< two low bytes of indices, then two bytes of signs
    uint32_t rest;     ///< two pairs of high index bits, then the scale
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    return {load_unit<uint32_t, DType::kIQ2_S, 0>(row, g),
            load_unit<uint8_t, DType::kIQ2_S, 1>(row, g),
            Row::template load<uint16_t>(super_of<DType::kIQ2_S>(row, g / 16))};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* codebook,
                                                Group<16>& out) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint32_t high = (r.rest >> (2 * e)) & 3U;
      put_iq2_entry(codebook, ((r.entries >> (8 * e)) & 255U) | (high << 8U),
                    r.entries >> (16 + 8 * e), out.q + 2 * e);
    }
    out.scale = odd_scale(r.super, r.rest >> 4U, 0.125F);
    out.minimum = 0;
  }
};

/// Decodes eight elements of an IQ1 format: each is 8 element + 1, or 2 less; the table is biased
/// by 128.
__device__ __forceinline__ void put_iq1_entry(const uint32_t* codebook, uint32_t index,
                                              bool negative_delta, uint32_t* q) {
  const uint2 entry = *reinterpret_cast<const uint2*>(codebook + 2 * index);
  const uint32_t delta = negative_delta ? 0x02020202U : 0U;
  q[0] = (entry.x - delta) ^ 0x80808080U;
  q[1] = (entry.y - delta) ^ 0x80808080U;
}

template <>
struct Codec<DType::kIQ1_S> {
  static constexpr int kGroup = 32;
  struct Raw {
    uint32_t indices;
    uint32_t rest;
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    return {load_unit<uint32_t, DType::kIQ1_S, 0>(row, g),
            load_unit<uint16_t, DType::kIQ1_S, 1>(row, g),
            Row::template load<uint16_t>(super_of<DType::kIQ1_S>(row, g / 8))};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* codebook,
                                                Group<32>& out) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const uint32_t high = (r.rest >> (3 * e)) & 7U;
      put_iq1_entry(codebook, ((r.indices >> (8 * e)) & 255U) | (high << 8U),
                    (r.rest & 0x8000U) != 0, out.q + 2 * e);
    }
    out.scale = odd_scale(r.super, (r.rest >> 12U) & 7U, 0.125F);
    out.minimum = 0;
  }
};

template <>
struct Codec<DType::kIQ1_M> {
  static constexpr int kGroup = 16;
  struct Raw {
    uint32_t indices;
    uint32_t rest;  ///< two of 3 high bits of an index and the sign of its delta
    uint32_t scales[2];
    uint32_t place;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    const uint8_t* super = super_of<DType::kIQ1_M>(row, g / 16);
    return {load_unit<uint16_t, DType::kIQ1_M, 0>(row, g),
            load_unit<uint8_t, DType::kIQ1_M, 1>(row, g),
            {Row::template load<uint32_t>(super), Row::template load<uint32_t>(super + 4)},
            static_cast<uint32_t>(g % 16)};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* codebook,
                                                Group<16>& out) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint32_t high = (r.rest >> (4 * e)) & 15U;
      put_iq1_entry(codebook, ((r.indices >> (8 * e)) & 255U) | ((high & 7U) << 8U),
                    (high & 8U) != 0, out.q + 2 * e);
    }
    // Four 16-bit words: the top nibbles form the f16 scale, the other bits four 3-bit scales.
    const uint32_t d = ((r.scales[0] >> 12U) & 15U) | ((r.scales[0] >> 24U) & 0xF0U) |
                       ((r.scales[1] >> 4U) & 0xF00U) | ((r.scales[1] >> 16U) & 0xF000U);
    const uint32_t word = (r.place < 8 ? r.scales[0] : r.scales[1]) >> (r.place / 4 % 2 * 16);
    out.scale = odd_scale(d, (word >> (r.place % 4 * 3)) & 7U, 0.125F);
    out.minimum = 0;
  }
};

/// TQ1_0 and TQ2_0, which are packed alike.
template <DType kType>
struct TernaryCodec {
  static constexpr int kGroup = 32;
  struct Raw {
    uint2 pairs;
    uint32_t super;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    return {load_unit<uint2, kType, 0>(row, g),
            Row::template load<uint16_t>(super_of<kType>(row, g / 8))};
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* /*codebook*/,
                                                Group<32>& out) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      out.q[j] = (r.pairs.x >> (2 * j)) & 0x03030303U;
      out.q[4 + j] = (r.pairs.y >> (2 * j)) & 0x03030303U;
    }
    out.scale = f16_bits_to_f32(r.super);
    out.minimum = 0;
  }
};
template <>
struct Codec<DType::kTQ1_0> : TernaryCodec<DType::kTQ1_0> {};
template <>
struct Codec<DType::kTQ2_0> : TernaryCodec<DType::kTQ2_0> {};

/// Entries 0 to 15 of a table of 16 bytes in four words, at four nibbles.
__device__ __forceinline__ uint32_t sixteen_values(const uint32_t (&table)[4], uint32_t nibbles) {
  const uint32_t low = __byte_perm(table[0], table[1], nibbles & 0x7777U);
  const uint32_t high = __byte_perm(table[2], table[3], nibbles & 0x7777U);
  return __byte_perm(low, high, 0x3210U | ((nibbles & 0x8888U) >> 1U));
}

/// The values of IQ2_K to IQ5_K at four indices, one a byte.
template <DType kType>
__device__ __forceinline__ uint32_t iqk_values(uint32_t indices) {
  const uint32_t nibbles = __byte_perm((indices | (indices >> 4U)), 0, 0x4420U);
  if constexpr (kType == DType::kIQ2_K) {
    return __byte_perm(0x1101F3E1U, 0, nibbles);
  } else if constexpr (kType == DType::kIQ3_K) {
    return __byte_perm(0xF6E9D8C1U, 0x2F1C0D01U, nibbles);
  } else if constexpr (kType == DType::kIQ4_K) {
    return table_values<DType::kIQ4_NL>(nibbles);
  } else {
    constexpr uint32_t kFirst[4] = {0xA4998E82U, 0xC7BFB6ADU, 0xE2DCD5CEU, 0xFAF4EEE8U};
    constexpr uint32_t kSecond[4] = {0x110B05FFU, 0x2B241D17U, 0x4D443B33U, 0x796D6157U};
    const uint32_t low = indices & 0x0F0F0F0FU;
    const uint32_t low_nibbles_of = __byte_perm((low | (low >> 4U)), 0, 0x4420U);
    const uint32_t first = sixteen_values(kFirst, low_nibbles_of);
    const uint32_t second = sixteen_values(kSecond, low_nibbles_of);
    return first ^ ((first ^ second) & repeat_sign_bits(indices << 3U));
  }
}

/// IQ2_K to IQ5_K: indices of 2 to 5 bits, a table, and for each group a scale and one of two
/// constants that are added to the table.
template <DType kType>
struct TableCodec {
  static constexpr int kGroup = 16;
  static constexpr bool kNibbles = kType == DType::kIQ4_K || kType == DType::kIQ5_K;
  static constexpr bool kHighBit = kType == DType::kIQ3_K || kType == DType::kIQ5_K;
  static constexpr int kHighPlace = kNibbles ? 4 : 2;
  static constexpr uint32_t kShift = kType == DType::kIQ2_K ? 5 : kType == DType::kIQ5_K ? 2 : 4;

  struct Raw {
    uint2 low;  ///< 16 nibbles, or 16 pairs of bits in x
    uint32_t high;
    uint32_t scale;
    uint32_t super;
    uint32_t place;
  };
  template <class Row>
  static __device__ __forceinline__ Raw load(const Row& row, int g) {
    Raw r = {};
    if constexpr (kNibbles) {
      r.low = load_unit<uint2, kType, 0>(row, g);
    } else {
      r.low.x = load_unit<uint32_t, kType, 0>(row, g);
    }
    if constexpr (kHighBit) {
      r.high = load_unit<uint32_t, kType, 1>(row, g / 2) >> (g % 2 * 4);
    }
    r.scale = load_unit < uint8_t, kType, kHighBit ? 2 : 1 > (row, g);
    r.super = Row::template load<uint32_t>(super_of<kType>(row, g / 16));
    r.place = static_cast<uint32_t>(g % 16);
    return r;
  }
  static __device__ __forceinline__ void expand(const Raw& r, const uint32_t* /*codebook*/,
                                                Group<16>& out) {
    const uint32_t shift = ((r.super >> (16U + r.place)) & 1U) * kShift * 0x01010101U;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t indices;
      if constexpr (kNibbles) {
        const uint32_t word = j % 2 == 0 ? r.low.x : r.low.y;
        indices = j < 2 ? low_nibbles(word) : high_nibbles(word);
      } else {
        indices = (r.low.x >> (2 * j)) & 0x03030303U;
      }
      if constexpr (kHighBit) indices |= ((r.high >> j) & 0x01010101U) << kHighPlace;
      // As unsigned bytes, so that no sum carries into the next byte.
      out.q[j] = ((iqk_values<kType>(indices) ^ 0x80808080U) + shift) ^ 0x80808080U;
    }
    out.scale =
        f16_bits_to_f32(r.super & 0xFFFFU) * static_cast<float>(static_cast<int8_t>(r.scale));
    out.minimum = 0;
  }
};
template <>
struct Codec<DType::kIQ2_K> : TableCodec<DType::kIQ2_K> {};
template <>
struct Codec<DType::kIQ3_K> : TableCodec<DType::kIQ3_K> {};
template <>
struct Codec<DType::kIQ4_K> : TableCodec<DType::kIQ4_K> {};
template <>
struct Codec<DType::kIQ5_K> : TableCodec<DType::kIQ5_K> {};

/// Decodes to rule 4's integers, without the excess.
template <DType kType>
__device__ __forceinline__ void expand_exact(const typename Codec<kType>::Raw& raw,
                                             const uint32_t* codebook,
                                             Group<Codec<kType>::kGroup>& out) {
  Codec<kType>::expand(raw, codebook, out);
  if constexpr (excess_of(kType) != 0) {
#pragma unroll
    for (int j = 0; j < Codec<kType>::kGroup / 4; ++j) out.q[j] = less<excess_of(kType)>(out.q[j]);
  }
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_CODEC_H_
