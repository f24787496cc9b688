// Device code: codecs selected at run time.
#ifndef CHIMERE_KERNELS_CUDA_ANY_CODEC_H_
#define CHIMERE_KERNELS_CUDA_ANY_CODEC_H_

#include "kernels/cuda/codec.h"
#include "kernels/cuda/ptx/opaque.h"

/// Behind a lambda's parameters: forces inlining, so that captures stay in registers.
#define CHIMERE_INLINED __attribute__((always_inline))

namespace chimere::kernels::cuda {

__device__ __forceinline__ bool is_float(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
}

/// Calls f.operator()<type>() for a float type.
template <class F>
__device__ __forceinline__ void with_float_type(DType type, F f) {
  if (type == DType::kF32) return f.template operator()<DType::kF32>();
  if (type == DType::kF16) return f.template operator()<DType::kF16>();
  f.template operator()<DType::kBF16>();
}

/// Calls f.operator()<type>() for a type with integer dot products (rule 4 of docs/numerics.md).
template <class F>
__device__ __forceinline__ void with_integer_type(DType type, F f) {
  switch (type) {
    case DType::kQ4_0:
      return f.template operator()<DType::kQ4_0>();
    case DType::kQ4_1:
      return f.template operator()<DType::kQ4_1>();
    case DType::kQ5_0:
      return f.template operator()<DType::kQ5_0>();
    case DType::kQ5_1:
      return f.template operator()<DType::kQ5_1>();
    case DType::kQ8_0:
      return f.template operator()<DType::kQ8_0>();
    case DType::kMXFP4:
      return f.template operator()<DType::kMXFP4>();
    case DType::kQ2_K:
      return f.template operator()<DType::kQ2_K>();
    case DType::kQ3_K:
      return f.template operator()<DType::kQ3_K>();
    case DType::kQ4_K:
      return f.template operator()<DType::kQ4_K>();
    case DType::kQ5_K:
      return f.template operator()<DType::kQ5_K>();
    case DType::kQ6_K:
      return f.template operator()<DType::kQ6_K>();
    case DType::kIQ1_S:
      return f.template operator()<DType::kIQ1_S>();
    case DType::kIQ1_M:
      return f.template operator()<DType::kIQ1_M>();
    case DType::kIQ2_XXS:
      return f.template operator()<DType::kIQ2_XXS>();
    case DType::kIQ2_XS:
      return f.template operator()<DType::kIQ2_XS>();
    case DType::kIQ2_S:
      return f.template operator()<DType::kIQ2_S>();
    case DType::kIQ3_XXS:
      return f.template operator()<DType::kIQ3_XXS>();
    case DType::kIQ3_S:
      return f.template operator()<DType::kIQ3_S>();
    case DType::kIQ3_S_UNPACKED:
      return f.template operator()<DType::kIQ3_S_UNPACKED>();
    case DType::kIQ4_NL:
      return f.template operator()<DType::kIQ4_NL>();
    case DType::kIQ4_XS:
      return f.template operator()<DType::kIQ4_XS>();
    case DType::kTQ1_0:
      return f.template operator()<DType::kTQ1_0>();
    case DType::kTQ2_0:
      return f.template operator()<DType::kTQ2_0>();
    case DType::kIQ2_K:
      return f.template operator()<DType::kIQ2_K>();
    case DType::kIQ3_K:
      return f.template operator()<DType::kIQ3_K>();
    case DType::kIQ4_K:
      return f.template operator()<DType::kIQ4_K>();
    case DType::kIQ5_K:
      return f.template operator()<DType::kIQ5_K>();
    default:
      return;
  }
}

/// Holds the result of any Codec's load().
struct AnyRaw {
  uint32_t words[12];
};

__device__ __forceinline__ AnyRaw load_any(DType type, const PackedRow& row, int g) {
  AnyRaw any = {};
  const PackedRow here = {row.at, opaque(row.blocks)};
  with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
    const auto raw = Codec<kType>::load(here, g);
    static_assert(sizeof raw <= sizeof any);
    __builtin_memcpy(&any, &raw, sizeof raw);
  });
  return any;
}

/// Decodes a group loaded by load_any(). A group of 16 leaves the upper half of out.q unchanged.
__device__ __forceinline__ void expand_any(DType type, const AnyRaw& any, const uint32_t* codebook,
                                           Group<32>& out) {
  with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
    using C = Codec<kType>;
    typename C::Raw raw;
    __builtin_memcpy(&raw, &any, sizeof raw);
    Group<C::kGroup> group;
    expand_exact<kType>(raw, codebook, group);
#pragma unroll
    for (int j = 0; j < C::kGroup / 4; ++j) out.q[j] = group.q[j];
    out.scale = group.scale;
    out.minimum = group.minimum;
  });
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ANY_CODEC_H_
