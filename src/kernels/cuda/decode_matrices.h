// Device code: the products of decode_tile.h for the types of most models and for rows of whole
// passes over the partial sums. ldmatrix loads the weights' nibbles and the rows of x in the order
// of the fragments, and scales are loaded for two blocks. multiply_by_matrices() is for the same
// warps as multiply_tile(), multiply_by_team() for four warps of a tile, warp w of which computes
// partial sums 4 w to 4 w + 3.
#ifndef CHIMERE_KERNELS_CUDA_DECODE_MATRICES_H_
#define CHIMERE_KERNELS_CUDA_DECODE_MATRICES_H_

#include "kernels/cuda/decode_tile.h"
#include "kernels/cuda/ptx/logic.h"
#include "kernels/cuda/ptx/matrix_load.h"

namespace chimere::kernels::cuda {

/// A lane's address for load_matrices() of 16 bytes of 16 weight rows. words[0] and [1] are of rows
/// 0 to 7 and 8 to 15, words[2] and [3] the same `apart` bytes further.
__device__ __forceinline__ const uint8_t* matrices_of_rows(const uint8_t* rows, int stride,
                                                           int apart) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  return rows + lane % 16 * stride + lane / 16 * apart;
}

/// Passes of multiply_by_matrices() per iteration of its loop: code that a launch runs for the
/// first time is fetched from L2, which costs more than the instructions that a longer loop saves.
inline constexpr int kPassesAtOnce = 1;

/// d and total, or d and sums, of this lane's columns 2 part and 2 part + 1.
__device__ __forceinline__ uint4 load_blocks(const RoundedBlock* blocks) {
  return *reinterpret_cast<const uint4*>(blocks);
}

/// Byte kIndex of `word`, less kExcess, as a float: an exact subtraction, because conversions have
/// a lower rate.
template <uint32_t kIndex>
__device__ __forceinline__ float byte_as_float(uint32_t word) {
  return __uint_as_float(__byte_perm(word, 0x4B000000U, 0x7540U | kIndex)) - 0x1p23F;
}

/// Adds fifth bits to nibbles. `bits` has those of the low nibbles in bit 4 of each byte, those of
/// the high nibbles in bit 0 of the next byte, of the last byte in the first.
__device__ __forceinline__ void put_fifth_bits(uint32_t nibbles, uint32_t bits, uint32_t& low,
                                               uint32_t& high) {
  low = select_bits(nibbles, bits, 0x0F0F0F0FU);
  high = rotate_left(select_bits(bits, nibbles, 0x0F0F0F0FU), 28);
}

/// Adds a group to acc. c: four times the product of integers, accumulated from kDotBiasBits.
__device__ __forceinline__ void add_quarters(const int32_t (&c)[4], const float (&scale)[2],
                                             const float (&d)[2], float (&acc)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float dot = fmaf(__int_as_float(c[i]), 0.25F, -0.25F * kDotBias);  // exact
    acc[i] = fmaf(dot, scale[i / 2] * d[i % 2], acc[i]);
  }
}

template <class Word>
__device__ __forceinline__ Word load_shared(const uint8_t* from) {
  return SharedRow::load<Word>(from);
}

/// multiply_by_matrices() for groups of 32: Q4_K, Q5_K and Q8_0. A pass adds two blocks: one of
/// each partial sum, or with sixteen warps both to the same. Of the 55 instructions of Q5_K for a
/// product of 16 x 8 x 32, 10 unpack, 14 decode scales, 16 add, 5 load and 1 multiplies; the rest
/// moves addresses. A further row tile repeats only those that add and multiply, and two loads.
template <DType kType, int kWarps, int kRowTiles>
__device__ __forceinline__ void multiply_groups_of_32(const uint8_t* weights, int stride,
                                                      const StagedColumns& x,
                                                      TileSums<kRowTiles>& sums) {
  constexpr bool kWide = kWarps == kWideTileWarps;
  constexpr bool kSuper = kType != DType::kQ8_0;
  constexpr bool kFifthBit = kType == DType::kQ5_K;
  constexpr PackedLayout kLayout = packed_layout(kType);
  constexpr int kScalePlane = kLayout.plane[0] + (kLayout.plane[2] != 0 ? kLayout.plane[1] : 0);
  constexpr int kApart = kWide ? kPartials : 1;  // blocks between the two of a pass
  constexpr int kStep = kWide ? 2 * kPartials : kPartials;
  const auto warp = static_cast<int>(threadIdx.x / kWarp);
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int part = lane % 4;
  const int first = kWide ? warp : 2 * warp;
  const uint8_t* units =
      matrices_of_rows(weights + first * 16, stride, kSuper ? kApart * 16 : x.blocks * 16);
  // words[2 v + h] are of half h of block v of the pass.
  const int8_t* columns = x.q + first * kRoundedTile * 32 + lane % 8 * 32 + lane / 8 % 2 * 16 +
                          lane / 16 * (kApart * kRoundedTile * 32);
  const RoundedBlock* of_columns = x.of_blocks + first * kRoundedTile + 2 * part;
  const int row_tile = x.blocks * kRoundedTile;  // blocks
  const uint8_t* const row = weights + lane / 4 * stride;
  const uint8_t* fifths = row + x.blocks * 16 + first * 4;
  const uint8_t* scales = row + x.blocks * kScalePlane + first * 2;
  const uint8_t* supers = row + x.blocks * (kScalePlane + 2) + first / 8 * 4;
  const int other = 8 * stride;  // from a row of the lane to its second row
  [[maybe_unused]] const uint32_t fifth_mask = 0x11111111U << part;
#pragma unroll kPassesAtOnce
  for (int passes = x.blocks / kStep; passes > 0; --passes) {
    uint32_t b[kRowTiles][4];
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) load_matrices(columns + n * row_tile * 32, b[n]);
    uint32_t words[kSuper ? 1 : 2][4];
#pragma unroll
    for (int u = 0; u < (kSuper ? 1 : 2); ++u) load_matrices(units + u * kApart * 16, words[u]);
    uint32_t fifth[2][2];  // of block u, row r
    uint32_t scale[2][2];
    uint32_t super[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kWide) {
#pragma unroll
        for (int u = 0; u < 2; ++u) {
          if constexpr (kFifthBit) {
            fifth[u][r] = load_shared<uint32_t>(fifths + u * kApart * 4 + r * other);
          }
          scale[u][r] = load_shared<uint16_t>(scales + u * kApart * 2 + r * other);
          if constexpr (kSuper) {
            super[u][r] = load_shared<uint32_t>(supers + u * kApart / 8 * 4 + r * other);
          }
        }
      } else {
        if constexpr (kFifthBit) {
          const auto both = load_shared<uint2>(fifths + r * other);
          fifth[0][r] = both.x;
          fifth[1][r] = both.y;
        }
        scale[0][r] = load_shared<uint32_t>(scales + r * other);
        scale[1][r] = scale[0][r];  // in its higher half
        if constexpr (kSuper) {
          super[0][r] = load_shared<uint32_t>(supers + r * other);
          super[1][r] = super[0][r];
        }
      }
    }
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const bool high = !kWide && u == 1;  // half of `scale`
      uint32_t a[4];
      float s[2];
      float m[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if constexpr (kSuper) {
          const uint32_t nibbles = words[0][2 * u + r];
          if constexpr (kFifthBit) {
            const uint32_t bits = rotate_left(fifth[u][r] & fifth_mask, 4 - part);
            put_fifth_bits(nibbles, bits, a[r], a[2 + r]);
          } else {
            a[r] = nibbles & 0x0F0F0F0FU;
            a[2 + r] = (nibbles >> 4U) & 0x0F0F0F0FU;
          }
          const uint32_t word = scale[u][r];
          s[r] = f16_bits_to_f32(super[u][r] & 0xFFFFU) *
                 (high ? byte_as_float<2>(word) : byte_as_float<0>(word));
          m[r] = f16_bits_to_f32(super[u][r] >> 16U) *
                 (high ? byte_as_float<3>(word) : byte_as_float<1>(word));
        } else {
          a[r] = words[u][r];
          a[2 + r] = words[u][2 + r];
          s[r] = f16_bits_to_f32(high ? scale[u][r] >> 16U : scale[u][r] & 0xFFFFU);
          m[r] = 0;
        }
      }
#pragma unroll
      for (int n = 0; n < kRowTiles; ++n) {
        const uint4 blocks = load_blocks(of_columns + n * row_tile + u * kApart * kRoundedTile);
        const float d[2] = {__uint_as_float(blocks.x), __uint_as_float(blocks.z)};
        const float totals[2] = {__uint_as_float(blocks.y), __uint_as_float(blocks.w)};
        int32_t c[4] = {kDotBiasBits, kDotBiasBits, kDotBiasBits, kDotBiasBits};
        const uint32_t b_of_block[2] = {b[n][2 * u], b[n][2 * u + 1]};
        mma_k32(a, b_of_block, c);
        add_dots<kSuper>(c, s, m, d, totals, sums.p[kWide ? 0 : u][n]);
      }
    }
    units += kStep * 16;
    columns += kStep * kRoundedTile * 32;
    of_columns += kStep * kRoundedTile;
    if constexpr (kFifthBit) fifths += kStep * 4;
    scales += kStep * 2;
    if constexpr (kSuper) supers += kStep / 8 * 4;
  }
}

/// multiply_by_matrices() for Q6_K. A pass adds four groups of 16: both of two blocks, or with
/// sixteen warps one of four blocks. The tensor core multiplies by four times the integer: with its
/// six bits as the highest of a byte, inverting the sign bit subtracts 32.
template <int kWarps, int kRowTiles>
__device__ __forceinline__ void multiply_q6_k(const uint8_t* weights, int stride,
                                              const StagedColumns& x, TileSums<kRowTiles>& sums) {
  constexpr bool kWide = kWarps == kWideTileWarps;
  constexpr int kStep = kWide ? 2 * kPartials : kPartials;
  constexpr int kBetween = kWide ? 1 : 2;  // groups of a block that the warp multiplies
  const auto warp = static_cast<int>(threadIdx.x / kWarp);
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int part = lane % 4;
  const int first = kWide ? warp / 2 : warp;
  const int half = kWide ? warp % 2 : 0;
  // words[v] are of the half of block v of the pass, or words[2 v + h] of half h of block v.
  const int8_t* columns = x.q + first * kRoundedTile * 32 + lane % 8 * 32 +
                          (kWide ? half * 16 + lane / 8 * (8 * kRoundedTile * 32)
                                 : lane / 8 % 2 * 16 + lane / 16 * (8 * kRoundedTile * 32));
  const RoundedBlock* of_columns = x.of_blocks + first * kRoundedTile + 2 * part;
  const int row_tile = x.blocks * kRoundedTile;  // blocks
  const uint8_t* const row = weights + lane / 4 * stride;
  const uint8_t* nibbles = row + first * 16 + half * 8 + part % 2 * 4;
  const uint8_t* pairs = row + x.blocks * 16 + first * 8 + half * 4;
  const uint8_t* scales = row + x.blocks * 24 + first * 2 + half;
  const uint8_t* supers = row + x.blocks * 26;
  const int other = 8 * stride;
  // Rotations move the nibbles to bits 2 to 5, and a shift the pair to bits 6 and 7.
  const int left = part < 2 ? 2 : 30;
  const int pair_left = 6 - 2 * part;
#pragma unroll kPassesAtOnce
  for (int passes = x.blocks / kStep; passes > 0; --passes) {
    uint32_t b[kRowTiles][4];
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) load_matrices(columns + n * row_tile * 32, b[n]);
    uint32_t super[2][2];  // of row r: two blocks in a word
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kWide) {
        const auto four = load_shared<uint2>(supers + r * other);
        super[r][0] = four.x;
        super[r][1] = four.y;
      } else {
        super[r][0] = load_shared<uint32_t>(supers + r * other);
      }
    }
#pragma unroll
    for (int v = 0; v < 4 / kBetween; ++v) {
      float d[kRowTiles][2];
#pragma unroll
      for (int n = 0; n < kRowTiles; ++n) {
        const uint4 blocks = load_blocks(of_columns + n * row_tile + v * 8 * kRoundedTile);
        d[n][0] = __uint_as_float(blocks.x);
        d[n][1] = __uint_as_float(blocks.z);
      }
      uint32_t pair[2][2];  // of row r, group h
      int scale[2][2];
      float of_super[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if constexpr (kWide) {
          pair[r][0] = load_shared<uint32_t>(pairs + v * 64 + r * other);
        } else {
          const auto both = load_shared<uint2>(pairs + v * 64 + r * other);
          pair[r][0] = both.x;
          pair[r][1] = both.y;
        }
#pragma unroll
        for (int h = 0; h < kBetween; ++h) {
          scale[r][h] = load_shared<int8_t>(scales + v * 16 + h + r * other);
        }
        of_super[r] = f16_bits_to_f32(super[r][v / 2] >> (v % 2 * 16) & 0xFFFFU);
      }
#pragma unroll
      for (int h = 0; h < kBetween; ++h) {
        uint32_t a[2];
        float s[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const auto word = load_shared<uint32_t>(nibbles + v * 128 + h * 8 + r * other);
          const uint32_t low = and_or(rotate_left(word, left), 0x3C3C3C3CU, 0x80808080U);
          a[r] = low ^ ((pair[r][h] << pair_left) & 0xC0C0C0C0U);
          s[r] = of_super[r] * static_cast<float>(scale[r][h]);
        }
#pragma unroll
        for (int n = 0; n < kRowTiles; ++n) {
          int32_t c[4] = {kDotBiasBits, kDotBiasBits, kDotBiasBits, kDotBiasBits};
          mma_k16(a[0], a[1], b[n][v * kBetween + h], c);
          add_quarters(c, s, d[n], sums.p[h][n]);
        }
      }
    }
    nibbles += kStep * 16;
    columns += kStep * kRoundedTile * 32;
    of_columns += kStep * kRoundedTile;
    pairs += kStep * 8;
    scales += kStep * 2;
    supers += kStep / 8 * 2;
  }
}

/// multiply_tile() for the types of takes_matrices(), with x.blocks a multiple of matrix_blocks(),
/// and for types with a minimum with BlockTotals in x.
template <DType kType, int kWarps, int kRowTiles>
__device__ __forceinline__ void multiply_by_matrices(const uint8_t* weights, int stride,
                                                     const StagedColumns& x,
                                                     TileSums<kRowTiles>& sums) {
  static_assert(kWarps == kTileWarps || kWarps == kWideTileWarps);
  static_assert(takes_matrices(kType));
  if constexpr (kType == DType::kQ6_K) {
    multiply_q6_k<kWarps>(weights, stride, x, sums);
  } else {
    multiply_groups_of_32<kType, kWarps>(weights, stride, x, sums);
  }
}

// A team of four warps for a tile: warp w computes partial sums 4 w .. 4 w + 3, so that loads of
// scales and whatever a warp does once for a tile serve twice as many weights as with eight warps.
inline constexpr int kTeamWarps = 4;

/// A warp's sums: of partial sum 4 w + p, elements of the fragment.
using TeamSums = float[4][4];

/// The sums of warp `warp` of a team for groups of 32: Q4_K, Q5_K and Q8_0. A pass adds four blocks
/// with neighbouring scales. x is as multiply_by_matrices() requires.
template <DType kType>
__device__ __forceinline__ void multiply_by_team(const uint8_t* weights, int stride,
                                                 const StagedColumns& x, int warp, TeamSums& sums) {
  constexpr bool kSuper = kType != DType::kQ8_0;
  constexpr bool kFifthBit = kType == DType::kQ5_K;
  constexpr PackedLayout kLayout = packed_layout(kType);
  constexpr int kScalePlane = kLayout.plane[0] + (kLayout.plane[2] != 0 ? kLayout.plane[1] : 0);
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int part = lane % 4;
  const int first = 4 * warp;
  const int high_half = x.blocks * 16;  // of Q8_0's integers
  const uint8_t* units = matrices_of_rows(weights + first * 16, stride, kSuper ? 16 : high_half);
  // words[2 v + h] are of half h of block v of two.
  const int8_t* columns = x.q + first * kRoundedTile * 32 + lane % 8 * 32 + lane / 8 % 2 * 16 +
                          lane / 16 * (kRoundedTile * 32);
  const RoundedBlock* of_columns = x.of_blocks + first * kRoundedTile + 2 * part;
  const uint8_t* const row = weights + lane / 4 * stride;
  const uint8_t* fifths = row + x.blocks * 16 + first * 4;
  const uint8_t* scales = row + x.blocks * kScalePlane + first * 2;
  const uint8_t* supers = row + x.blocks * (kScalePlane + 2) + first / 8 * 4;
  const int other = 8 * stride;  // from a row of the lane to its second row
  [[maybe_unused]] const uint32_t fifth_mask = 0x11111111U << part;
#pragma unroll 1
  for (int passes = x.blocks / kPartials; passes > 0; --passes) {
    uint32_t fifth[2][4];  // of row r, block u
    uint32_t scale[2][2];  // of row r, two blocks in a word
    float d_super[2];
    float m_super[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kFifthBit) {
        const auto four = load_shared<uint4>(fifths + r * other);
        fifth[r][0] = four.x;
        fifth[r][1] = four.y;
        fifth[r][2] = four.z;
        fifth[r][3] = four.w;
      }
      const auto both = load_shared<uint2>(scales + r * other);
      scale[r][0] = both.x;
      scale[r][1] = both.y;
      if constexpr (kSuper) {
        const auto super = load_shared<uint32_t>(supers + r * other);
        d_super[r] = f16_bits_to_f32(super & 0xFFFFU);
        m_super[r] = f16_bits_to_f32(super >> 16U);
      }
    }
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      uint32_t b[4];
      load_matrices(columns + v * (2 * kRoundedTile * 32), b);
      uint32_t words[kSuper ? 1 : 2][4];
#pragma unroll
      for (int u = 0; u < (kSuper ? 1 : 2); ++u) {
        load_matrices(units + (2 * v + u) * 16, words[u]);
      }
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const uint4 blocks = load_blocks(of_columns + (2 * v + u) * kRoundedTile);
        const float d[2] = {__uint_as_float(blocks.x), __uint_as_float(blocks.z)};
        const float totals[2] = {__uint_as_float(blocks.y), __uint_as_float(blocks.w)};
        uint32_t a[4];
        float s[2];
        float m[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const uint32_t word = scale[r][v];
          if constexpr (kSuper) {
            const uint32_t nibbles = words[0][2 * u + r];
            if constexpr (kFifthBit) {
              const uint32_t bits = rotate_left(fifth[r][2 * v + u] & fifth_mask, 4 - part);
              put_fifth_bits(nibbles, bits, a[r], a[2 + r]);
            } else {
              a[r] = nibbles & 0x0F0F0F0FU;
              a[2 + r] = (nibbles >> 4U) & 0x0F0F0F0FU;
            }
            s[r] = d_super[r] * (u == 0 ? byte_as_float<0>(word) : byte_as_float<2>(word));
            m[r] = m_super[r] * (u == 0 ? byte_as_float<1>(word) : byte_as_float<3>(word));
          } else {
            a[r] = words[u][r];
            a[2 + r] = words[u][2 + r];
            s[r] = f16_bits_to_f32(u == 0 ? word & 0xFFFFU : word >> 16U);
            m[r] = 0;
          }
        }
        int32_t c[4] = {kDotBiasBits, kDotBiasBits, kDotBiasBits, kDotBiasBits};
        const uint32_t b_of_block[2] = {b[2 * u], b[2 * u + 1]};
        mma_k32(a, b_of_block, c);
        add_dots<kSuper>(c, s, m, d, totals, sums[2 * v + u]);
      }
    }
    units += kPartials * 16;
    columns += kPartials * kRoundedTile * 32;
    of_columns += kPartials * kRoundedTile;
    if constexpr (kFifthBit) fifths += kPartials * 4;
    scales += kPartials * 2;
    if constexpr (kSuper) supers += kPartials / 8 * 4;
  }
}

/// The same for Q6_K. A pass adds both groups of 16 of two neighbouring blocks.
template <>
__device__ __forceinline__ void multiply_by_team<DType::kQ6_K>(const uint8_t* weights, int stride,
                                                               const StagedColumns& x, int warp,
                                                               TeamSums& sums) {
  constexpr int kStep = kPartials / 2;
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int part = lane % 4;
  const int first = 2 * warp;
  // words[2 v + h] are of half h of block v of the pass.
  const int8_t* columns = x.q + first * kRoundedTile * 32 + lane % 8 * 32 + lane / 8 % 2 * 16 +
                          lane / 16 * (kRoundedTile * 32);
  const RoundedBlock* of_columns = x.of_blocks + first * kRoundedTile + 2 * part;
  const uint8_t* const row = weights + lane / 4 * stride;
  const uint8_t* nibbles = row + first * 16 + part % 2 * 4;
  const uint8_t* pairs = row + x.blocks * 16 + first * 8;
  const uint8_t* scales = row + x.blocks * 24 + first * 2;
  const uint8_t* supers = row + x.blocks * 26;
  const int other = 8 * stride;
  const int left = part < 2 ? 2 : 30;
  const int pair_left = 6 - 2 * part;
#pragma unroll 1
  for (int passes = x.blocks / kStep; passes > 0; --passes) {
    uint32_t b[4];
    load_matrices(columns, b);
    float of_super[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      of_super[r] = f16_bits_to_f32(load_shared<uint16_t>(supers + r * other));
    }
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const uint4 blocks = load_blocks(of_columns + v * kRoundedTile);
      const float d[2] = {__uint_as_float(blocks.x), __uint_as_float(blocks.z)};
      uint2 pair[2];  // of row r
#pragma unroll
      for (int r = 0; r < 2; ++r) pair[r] = load_shared<uint2>(pairs + v * 8 + r * other);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        uint32_t a[2];
        float s[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const auto word = load_shared<uint32_t>(nibbles + v * 16 + h * 8 + r * other);
          const uint32_t low = and_or(rotate_left(word, left), 0x3C3C3C3CU, 0x80808080U);
          const uint32_t bits = h == 0 ? pair[r].x : pair[r].y;
          a[r] = low ^ ((bits << pair_left) & 0xC0C0C0C0U);
          const int scale = load_shared<int8_t>(scales + v * 2 + h + r * other);
          s[r] = of_super[r] * static_cast<float>(scale);
        }
        int32_t c[4] = {kDotBiasBits, kDotBiasBits, kDotBiasBits, kDotBiasBits};
        mma_k16(a[0], a[1], b[2 * v + h], c);
        add_quarters(c, s, d, sums[2 * v + h]);
      }
    }
    nibbles += kStep * 16;
    columns += kStep * kRoundedTile * 32;
    of_columns += kStep * kRoundedTile;
    pairs += kStep * 8;
    scales += kStep * 2;
    supers += kStep / 8 * 2;
  }
}

/// Writes the partial sums of warp `warp` of a team to shared `memory` of the team, kPartials * 128
/// floats, aligned to 16 bytes.
__device__ __forceinline__ void put_team_sums(const TeamSums& sums, int warp, float* memory) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    reinterpret_cast<float4*>(memory)[(i * kTeamWarps + warp) * kWarp + lane] =
        make_float4(sums[0][i], sums[1][i], sums[2][i], sums[3][i]);
  }
}

/// The tree of 16 for element i of this lane's fragment, from memory written by put_team_sums().
__device__ __forceinline__ float team_sum_of_element(const float* memory, int i) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  float4 s[kTeamWarps];
#pragma unroll
  for (int w = 0; w < kTeamWarps; ++w) {
    s[w] = reinterpret_cast<const float4*>(memory)[(i * kTeamWarps + w) * kWarp + lane];
  }
  const float t[4] = {(s[0].x + s[2].x) + (s[1].x + s[3].x), (s[0].y + s[2].y) + (s[1].y + s[3].y),
                      (s[0].z + s[2].z) + (s[1].z + s[3].z), (s[0].w + s[2].w) + (s[1].w + s[3].w)};
  return (t[0] + t[2]) + (t[1] + t[3]);
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DECODE_MATRICES_H_
