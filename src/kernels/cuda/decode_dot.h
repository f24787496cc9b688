// Device code: dot products of decode rows, with the bits of docs/numerics.md, rules 2 and 4. A
// half warp computes one output. Lane p of 16 holds partial sum p and takes scale groups (for float
// weights, elements) p, p + 16, ...: no sum crosses lanes before the tree of 16, and neighbouring
// lanes read neighbouring units of a plane.
#ifndef CHIMERE_KERNELS_CUDA_DECODE_DOT_H_
#define CHIMERE_KERNELS_CUDA_DECODE_DOT_H_

#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/ptx/integer_dot.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// Copies a type's codebook to shared memory. All threads of the block.
__device__ __forceinline__ void load_codebook(DType type, const uint32_t* all, uint32_t* shared) {
  const CodebookPlace place = codebook_place(type);
  if (place.words == 0) return;
  for (int i = static_cast<int>(threadIdx.x); i < place.words; i += static_cast<int>(blockDim.x)) {
    shared[i] = __ldg(all + place.begin + i);
  }
  __syncthreads();
}

/// What rule 4 adds to a sum for one scale group: fma(dot, scale, acc), then fma(minimum, sum,
/// acc).
struct GroupTerms {
  float dot;
  float scale;
  float minimum;  ///< negated
  float sum;
};

/// The terms of a group whose dot product with x is `dot`; its integers are kExcess too large.
template <int kGroup, bool kMinimum, int kExcess>
__device__ __forceinline__ GroupTerms group_terms(int dot, const Group<kGroup>& group,
                                                  const RoundedBlock& block, int g) {
  const int sum = kGroup == 32 ? block.sums[0] + block.sums[1] : block.sums[g % 2];
  dot -= kExcess * sum;
  GroupTerms terms = {static_cast<float>(dot), group.scale * block.d, 0, 0};
  if constexpr (kMinimum) {
    terms.minimum = -group.minimum;
    terms.sum = block.d * static_cast<float>(sum);
  }
  return terms;
}

/// The integers of x for one group, in halves of 16; groups of 16 have a first half only.
struct GroupOfX {
  const int8_t* first;
  const int8_t* second;
};

/// Consecutive integers.
__device__ __forceinline__ GroupOfX group_of_x(const int8_t* q) { return {q, q + 16}; }

/// Dot product of a group's integers with those of x.
template <int kGroup>
__device__ __forceinline__ int group_dot(const Group<kGroup>& group, const GroupOfX& x) {
  int dot = 0;
#pragma unroll
  for (int j = 0; j < kGroup / 16; ++j) {
    const uint4 words = *reinterpret_cast<const uint4*>(j == 0 ? x.first : x.second);
    dot = __dp4a(static_cast<int>(group.q[4 * j]), static_cast<int>(words.x), dot);
    dot = __dp4a(static_cast<int>(group.q[4 * j + 1]), static_cast<int>(words.y), dot);
    dot = __dp4a(static_cast<int>(group.q[4 * j + 2]), static_cast<int>(words.z), dot);
    dot = __dp4a(static_cast<int>(group.q[4 * j + 3]), static_cast<int>(words.w), dot);
  }
  return dot;
}

/// Types whose integers, with their excess, are nibbles or (IQ3_S) twice nibbles.
constexpr bool has_plain_nibbles(DType t) {
  return t == DType::kQ4_0 || t == DType::kQ4_1 || t == DType::kQ4_K || t == DType::kIQ3_S_UNPACKED;
}

/// Dot product of 32 nibbles with x. High nibbles are not shifted, so their sum is 16 times too
/// large. kFactor: 1, or 2 for values of twice the nibble.
template <int kFactor>
__device__ __forceinline__ int nibble_dot(const uint4& nibbles, const GroupOfX& x) {
  const uint4 first = *reinterpret_cast<const uint4*>(x.first);
  const uint4 second = *reinterpret_cast<const uint4*>(x.second);
  int low = dot_unsigned(low_nibbles(nibbles.x), first.x, 0);
  int high = dot_unsigned(nibbles.x & 0xF0F0F0F0U, second.x, 0);
  low = dot_unsigned(low_nibbles(nibbles.y), first.y, low);
  high = dot_unsigned(nibbles.y & 0xF0F0F0F0U, second.y, high);
  low = dot_unsigned(low_nibbles(nibbles.z), first.z, low);
  high = dot_unsigned(nibbles.z & 0xF0F0F0F0U, second.z, high);
  low = dot_unsigned(low_nibbles(nibbles.w), first.w, low);
  high = dot_unsigned(nibbles.w & 0xF0F0F0F0U, second.w, high);
  return kFactor * low + (high >> (kFactor == 2 ? 3 : 4));
}

/// The terms of group g of a row, as loaded, with the integers and the block of a row of x.
template <DType kType>
__device__ __forceinline__ GroupTerms stored_terms(const typename Codec<kType>::Raw& raw,
                                                   const uint32_t* codebook, const GroupOfX& x,
                                                   const RoundedBlock& block, int g) {
  constexpr int kGroup = Codec<kType>::kGroup;
  Group<kGroup> group;
  Codec<kType>::expand(raw, codebook, group);
  int dot = 0;
  if constexpr (has_plain_nibbles(kType)) {
    dot = nibble_dot < kType == DType::kIQ3_S_UNPACKED ? 2 : 1 > (raw.nibbles, x);
  } else {
    dot = group_dot<kGroup>(group, x);
  }
  return group_terms<kGroup, has_minimum(kType), excess_of(kType)>(dot, group, block, g);
}

template <bool kMinimum>
__device__ __forceinline__ float add_terms(const GroupTerms& terms, float acc) {
  acc = fmaf(terms.dot, terms.scale, acc);
  if constexpr (kMinimum) acc = fmaf(terms.minimum, terms.sum, acc);
  return acc;
}

/// A quantised activation row.
struct RoundedRow {
  const int8_t* q;
  const RoundedBlock* blocks;
};

/// Row `row` of `rows`, each of 32 * blocks activations.
__device__ __forceinline__ RoundedRow rounded_row(const RoundedRows& rows, int64_t row,
                                                  int blocks) {
  return {rows.q + row * blocks * 32, rows.blocks + row * blocks};
}

/// Partial sums of kPairs dot products, of packed row w[i] and quantised row x[i], all of one
/// length. Waits for the previous kernel after issuing the first weight loads.
template <DType kType, int kPairs>
__device__ __forceinline__ void integer_partials(const PackedRow (&w)[kPairs], int lane,
                                                 const RoundedRow (&x)[kPairs],
                                                 const uint32_t* codebook, float (&acc)[kPairs]) {
  using C = Codec<kType>;
  // Groups whose loads are in flight together: as many as fit in 64 registers.
  constexpr int kFit = sizeof(typename C::Raw) <= 24 ? 4 : 2;
  constexpr int kAtOnce = kPairs >= kFit ? 1 : kFit / kPairs;
  const int groups = w[0].blocks * (32 / C::kGroup);
#pragma unroll
  for (int i = 0; i < kPairs; ++i) acc[i] = 0;
  for (int first = lane; first < groups; first += 16 * kAtOnce) {
    typename C::Raw raw[kAtOnce][kPairs];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        if (first + 16 * u < groups) raw[u][i] = C::load(w[i], first + 16 * u);
      }
    }
    if (first == lane) wait_for_previous_kernel();
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int g = first + 16 * u;
      if (g < groups) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          acc[i] = add_terms<has_minimum(kType)>(
              stored_terms<kType>(raw[u][i], codebook, group_of_x(x[i].q + g * C::kGroup),
                                  x[i].blocks[g * C::kGroup / 32], g),
              acc[i]);
        }
      }
    }
  }
}

/// Partial sums of one dot product by a whole warp, for matrices with too few outputs to fill a GPU
/// by half warps. Lanes p and p + 16 alternate in taking the groups of partial sum p, and lane p
/// adds the terms of both in order. The sums end in lanes 0 to 15. Waits like integer_partials().
template <DType kType>
__device__ __forceinline__ float integer_partial_of_warp(const PackedRow& w, int lane,
                                                         const RoundedRow& x,
                                                         const uint32_t* codebook) {
  using C = Codec<kType>;
  constexpr bool kMinimum = has_minimum(kType);
  constexpr int kAtOnce = sizeof(typename C::Raw) <= 24 ? 4 : 2;
  const int groups = w.blocks * (32 / C::kGroup);
  float acc = 0;
  for (int begin = 0; begin < groups; begin += kWarp * kAtOnce) {
    typename C::Raw raw[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int g = begin + kWarp * u + lane;
      if (g < groups) raw[u] = C::load(w, g);
    }
    if (begin == 0) wait_for_previous_kernel();
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int g = begin + kWarp * u + lane;
      GroupTerms terms = {0, 0, 0, 0};
      if (g < groups) {
        terms = stored_terms<kType>(raw[u], codebook, group_of_x(x.q + g * C::kGroup),
                                    x.blocks[g * C::kGroup / 32], g);
        acc = add_terms<kMinimum>(terms, acc);
      }
      GroupTerms next = {0, 0, 0, 0};
      next.dot = __shfl_down_sync(kFullWarp, terms.dot, 16);
      next.scale = __shfl_down_sync(kFullWarp, terms.scale, 16);
      if constexpr (kMinimum) {
        next.minimum = __shfl_down_sync(kFullWarp, terms.minimum, 16);
        next.sum = __shfl_down_sync(kFullWarp, terms.sum, 16);
      }
      if (g + 16 < groups) acc = add_terms<kMinimum>(next, acc);
    }
  }
  return acc;
}

/// Element i of a row of a float type.
template <DType kType>
__device__ __forceinline__ float float_weight(const uint8_t* row, int i) {
  if constexpr (kType == DType::kF32) return __ldg(reinterpret_cast<const float*>(row) + i);
  const uint32_t bits = __ldg(reinterpret_cast<const uint16_t*>(row) + i);
  return kType == DType::kF16 ? f16_bits_to_f32(bits) : __uint_as_float(bits << 16U);
}

/// Partial sums of a float weight row with kRows unquantised rows of n elements.
template <DType kType, int kRows>
__device__ __forceinline__ void float_partials(const uint8_t* w, int n, int lane,
                                               const float* const (&x)[kRows],
                                               float (&acc)[kRows]) {
  wait_for_previous_kernel();
#pragma unroll 4
  for (int i = lane; i < n; i += 16) {
    const float weight = float_weight<kType>(w, i);
#pragma unroll
    for (int r = 0; r < kRows; ++r) acc[r] = fmaf(weight, x[r][i], acc[r]);
  }
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DECODE_DOT_H_
