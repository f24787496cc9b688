// Byte layouts of the block formats in GGUF files; docs/formats.md explains every field. All
// structs have alignment 1 or 2 and no padding; f16 fields are raw bits (quant::f16_to_f32).
#ifndef CHIMERE_QUANT_BLOCKS_H_
#define CHIMERE_QUANT_BLOCKS_H_

#include <bit>
#include <cstdint>

namespace chimere::quant {

/// Elements of a block of the older formats, and of a super-block of the K- and i-quants.
inline constexpr int kBlock = 32;
inline constexpr int kSuperBlock = 256;

// The names are the formats' own: NOLINTBEGIN(readability-identifier-naming)

/// x = d (q - 8). In all 32-blocks, element j is the low nibble of byte j, element j + 16 the high
/// one.
struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};
/// x = d q + m.
struct BlockQ4_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
/// x = d (q - 16); bit j of the little-endian qh is the fifth bit of element j.
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
/// x = d q + m.
struct BlockQ5_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};
/// x = d q.
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};
/// x = 2^(e - 128) kMxfp4Values[q].
struct BlockMxfp4 {
  uint8_t e;
  uint8_t qs[16];
};
/// x = d kIq4NlValues[q].
struct BlockIq4Nl {
  uint16_t d;
  uint8_t qs[16];
};

/// x = d (scale & 15) q - dmin (scale >> 4); 16 sub-blocks of 16, q of 2 bits.
struct BlockQ2K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};
/// x = d (scale - 32) (q - 4 (high bit ? 0 : 1)); 16 sub-blocks of 16, scales of 6 bits.
struct BlockQ3K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
/// x = d scale q - dmin min; 8 sub-blocks of 32, scales and mins of 6 bits (scale_min() below).
struct BlockQ4K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
/// Like Q4_K, with a fifth bit: bit s of qh[l] belongs to element l of sub-block s.
struct BlockQ5K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
/// x = d scale (q - 32); 16 sub-blocks of 16, scales int8.
struct BlockQ6K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};

/// Per 32 elements 8 bytes: four grid indices, then four 7-bit signs and a 4-bit scale (a u32).
struct BlockIq2Xxs {
  uint16_t d;
  uint16_t qs[32];
};
/// Per 8 elements a u16: 9-bit grid index, 7-bit signs. Scales: a nibble for 16 elements.
struct BlockIq2Xs {
  uint16_t d;
  uint16_t qs[32];
  uint8_t scales[8];
};
/// Index low bytes, then sign bytes; qh holds the 2 high index bits of four groups.
struct BlockIq2S {
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};
/// Index bytes, then per 32 elements a u32: four 7-bit signs and a 4-bit scale.
struct BlockIq3Xxs {
  uint16_t d;
  uint8_t qs[64];
  uint8_t scales_and_signs[32];
};
/// x = d (1 + 2 scale) sign grid[index]; bit g of qh[b] is the ninth index bit of group g (4
/// elements) of 32-block b; the scale of 32-block b is nibble b of scales.
struct BlockIq3S {
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
/// qh[b]: four times 3 high index bits, 3 bits of scale, 1 bit of delta's sign.
struct BlockIq1S {
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];
};
/// The f16 scale is spread over the top nibbles of the four u16 of scales; the rest are 3-bit
/// scales.
struct BlockIq1M {
  uint8_t qs[32];
  uint8_t qh[16];
  uint8_t scales[8];
};
/// x = d (scale - 32) kIq4NlValues[q]; scales of 6 bits: low nibbles, then 2 high bits each in
/// scales_h.
struct BlockIq4Xs {
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};

/// x = d (t - 1). The digits t to base 3 of a byte are stored as ceil(256 n / 243), n < 243, the
/// first digit the most significant. Digit n of byte m holds element 32 n + m for the first 32
/// bytes, 160 + 16 n + m for the next 16, and 240 + 4 n + m for qh.
struct BlockTq10 {
  uint8_t qs[48];
  uint8_t qh[4];
  uint16_t d;
};
/// x = d (t - 1); t is two bits, placed as those of Q2_K.
struct BlockTq20 {
  uint8_t qs[64];
  uint16_t d;
};

// IQ2_K to IQ5_K (ik_llama.cpp): x = d scale table[q], with a scale for each 16 elements. Bit s of
// `extra` adds a constant to the table of sub-block s
// (codebooks.h).

/// Scales: nibbles less 8. q is placed as that of Q2_K.
struct BlockIq2K {
  uint16_t d;
  uint16_t extra;
  uint8_t scales[8];
  uint8_t qs[64];
};
/// Scales: 1 + 2 nibble, negated if bit s of scales_h is set. Low bits of q as in Q2_K; bit i of
/// qh[l] is the third bit of element 32 i + l.
struct BlockIq3K {
  uint16_t d;
  uint16_t extra;
  uint16_t scales_h;
  uint8_t scales_l[8];
  uint8_t qs[64];
  uint8_t qh[32];
};
/// Scales of 6 bits less 32: nibbles, and bits 2 (s % 4) of scales_h[s / 4]. Of each 32 elements,
/// byte j has element j in its low nibble and j + 16 in its high one.
struct BlockIq4K {
  uint16_t d;
  uint16_t extra;
  uint8_t scales_h[4];
  uint8_t scales_l[8];
  uint8_t qs[128];
};
/// Scales as in IQ4_K. Nibbles and fifth bits are placed as in Q5_K.
struct BlockIq5K {
  uint16_t d;
  uint16_t extra;
  uint8_t scales_h[4];
  uint8_t scales_l[8];
  uint8_t qs[128];
  uint8_t qh[32];
};

// NOLINTEND(readability-identifier-naming)

static_assert(sizeof(BlockTq10) == 54 && sizeof(BlockTq20) == 66);
static_assert(sizeof(BlockIq2K) == 76 && sizeof(BlockIq3K) == 110);
static_assert(sizeof(BlockIq4K) == 144 && sizeof(BlockIq5K) == 176);
static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockMxfp4) == 17 && sizeof(BlockIq4Nl) == 18);
static_assert(sizeof(BlockQ2K) == 84 && sizeof(BlockQ3K) == 110 && sizeof(BlockQ4K) == 144);
static_assert(sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210);
static_assert(sizeof(BlockIq2Xxs) == 66 && sizeof(BlockIq2Xs) == 74 && sizeof(BlockIq2S) == 82);
static_assert(sizeof(BlockIq3Xxs) == 98 && sizeof(BlockIq3S) == 110);
static_assert(sizeof(BlockIq1S) == 50 && sizeof(BlockIq1M) == 56 && sizeof(BlockIq4Xs) == 136);

/// The 6-bit scale and min of sub-block j (0..7) of Q4_K and Q5_K, from the 12 bytes of `scales`.
struct ScaleMin {
  uint8_t scale;
  uint8_t min;
};
constexpr ScaleMin scale_min(const uint8_t* scales, int j) {
  if (j < 4) {
    return {static_cast<uint8_t>(scales[j] & 63), static_cast<uint8_t>(scales[j + 4] & 63)};
  }
  return {static_cast<uint8_t>((scales[j + 4] & 15) | ((scales[j - 4] >> 6) << 4)),
          static_cast<uint8_t>((scales[j + 4] >> 4) | ((scales[j] >> 6) << 4))};
}

/// Scale s (0..15) of Q3_K, -32..31, from the 12 bytes of `scales`: low nibbles in bytes 0..7
/// (first eight low, last eight high), bits 4..5 in bits 2 (s / 4) of byte 8 + s % 4, a bias of 32.
constexpr int q3_scale(const uint8_t* scales, int s) {
  const int low = (scales[s % 8] >> (4 * (s / 8))) & 15;
  const int high = (scales[8 + s % 4] >> (2 * (s / 4))) & 3;
  return (low | (high << 4)) - 32;
}

/// Scale of sub-block s (0..7) of IQ4_XS, -32..31.
constexpr int iq4_xs_scale(const BlockIq4Xs& b, int s) {
  const int low = (b.scales_l[s / 2] >> (s % 2 * 4)) & 15;
  const int high = (b.scales_h >> (2 * s)) & 3;
  return (low | (high << 4)) - 32;
}

/// Scale of sub-block s (0..15) of IQ2_K to IQ5_K.
inline int iqk_scale(const BlockIq2K& b, int s) {
  return ((b.scales[s / 2] >> (s % 2 * 4)) & 15) - 8;
}
inline int iqk_scale(const BlockIq3K& b, int s) {
  const int odd = 2 * ((b.scales_l[s / 2] >> (s % 2 * 4)) & 15) + 1;
  return ((b.scales_h >> s) & 1) != 0 ? -odd : odd;
}
template <class Block>  // IQ4_K, IQ5_K
int iqk_scale(const Block& b, int s) {
  const int low = (b.scales_l[s / 2] >> (s % 2 * 4)) & 15;
  const int high = (b.scales_h[s / 4] >> (s % 4 * 2)) & 3;
  return (low | (high << 4)) - 32;
}

/// The index q of element i (0..255) of IQ2_K to IQ5_K.
inline unsigned iqk_index(const BlockIq2K& b, int i) {
  return (b.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3U;
}
inline unsigned iqk_index(const BlockIq3K& b, int i) {
  const unsigned low = (b.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3U;
  return low | ((b.qh[i % 32] >> (i / 32)) & 1U) << 2U;
}
inline unsigned iqk_index(const BlockIq4K& b, int i) {
  return (b.qs[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4)) & 15U;
}
inline unsigned iqk_index(const BlockIq5K& b, int i) {
  const unsigned low = (b.qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15U;
  return low | ((b.qh[i % 32] >> (i / 32)) & 1U) << 4U;
}

/// Digit n (0: the first) of a byte of TQ1_0, 0..2.
inline int tq1_digit(uint8_t byte, int n) {
  constexpr unsigned kPowers[] = {1, 3, 9, 27, 81};
  return static_cast<int>((((byte * kPowers[n]) & 255U) * 3U) >> 8U);
}
/// t - 1 of element i (0..255) of the ternary formats.
inline int ternary(const BlockTq10& b, int i) {
  if (i < 160) return tq1_digit(b.qs[i % 32], i / 32) - 1;
  if (i < 240) return tq1_digit(b.qs[32 + i % 16], (i - 160) / 16) - 1;
  return tq1_digit(b.qh[i % 4], (i - 240) / 4) - 1;
}
inline int ternary(const BlockTq20& b, int i) {
  return static_cast<int>((b.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3) - 1;
}

/// The scale of MXFP4: E8M0's 2^(e - 127), halved to 2^(e - 128), whose two smallest values are
/// subnormal.
inline float half_e8m0(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000U << e : static_cast<uint32_t>(e - 1) << 23);
}

/// The f16 scale of IQ1_M, a nibble from each word of `scales`.
inline uint16_t iq1_m_scale(const BlockIq1M& b) {
  unsigned d = 0;
  for (int w = 0; w < 4; ++w) d |= static_cast<unsigned>(b.scales[2 * w + 1] >> 4) << (4 * w);
  return static_cast<uint16_t>(d);
}

/// The 3-bit scale of elements 16 k .. 16 k + 15 of IQ1_M.
inline unsigned iq1_m_step(const BlockIq1M& b, int k) {
  const unsigned word = b.scales[k / 4 * 2] | static_cast<unsigned>(b.scales[k / 4 * 2 + 1] << 8);
  return (word >> (k % 4 * 3)) & 7U;
}

}  // namespace chimere::quant

#endif  // CHIMERE_QUANT_BLOCKS_H_
