// Device code: addressing and decoding of KV pages (attention_args.h).
#ifndef CHIMERE_KERNELS_CUDA_KV_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_KV_DEVICE_H_

#include "kernels/cuda/attention_args.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/float16.h"
#include "kernels/cuda/ptx/logic.h"

namespace chimere::kernels::cuda {

__device__ __forceinline__ bool has_scales(KvType t) {
  return t == KvType::kQ8_0 || t == KvType::kQ4_0;
}

__device__ __forceinline__ int element_bits(KvType t) {
  return t == KvType::kF32 ? 32 : t == KvType::kQ8_0 ? 8 : t == KvType::kQ4_0 ? 4 : 16;
}

/// Bytes of one head's elements in a page.
__device__ __forceinline__ int element_bytes(KvType t, int n) {
  return kPage * n * element_bits(t) / 8;
}

/// Bytes of one head's elements and scales in a page.
__device__ __forceinline__ int head_bytes(KvType t, int n) {
  return element_bytes(t, n) + (has_scales(t) ? kPage * (n / 32) * 2 : 0);
}

/// One head's keys or values in a page.
struct KvHead {
  uint8_t* units;
  uint16_t* scales;
};

__device__ __forceinline__ uint8_t* page_of(const BatchArgs& batch, const KvArgs& kv, int sequence,
                                            int position) {
  const int page = batch.page_table[batch.page_begin[sequence] + position / kPage];
  return kv.base + page * kv.page_bytes;
}

__device__ __forceinline__ KvHead keys_of(const KvArgs& kv, uint8_t* page, int kv_head, int n) {
  uint8_t* head = page + kv_head * head_bytes(kv.k_type, n);
  return {head, reinterpret_cast<uint16_t*>(head + element_bytes(kv.k_type, n))};
}

__device__ __forceinline__ KvHead values_of(const KvArgs& kv, uint8_t* page, int n_kv_heads,
                                            int kv_head, int n) {
  uint8_t* head = page + n_kv_heads * head_bytes(kv.k_type, n) + kv_head * head_bytes(kv.v_type, n);
  return {head, reinterpret_cast<uint16_t*>(head + element_bytes(kv.v_type, n))};
}

/// Word i of a unit.
__device__ __forceinline__ uint32_t word_of(const uint4& raw, int i) {
  return i == 0 ? raw.x : i == 1 ? raw.y : i == 2 ? raw.z : raw.w;
}

/// A unit of 16 bytes. decode() gives its elements 4 i .. 4 i + 3; quantised ones use scale d0 for
/// the first two and d1 for the others.
template <KvType kType>
struct KvUnit;

template <>
struct KvUnit<KvType::kF32> {
  static constexpr int kElements = 4;
  __device__ static void decode(const uint4& raw, int /*i*/, float /*d0*/, float /*d1*/,
                                float (&x)[4]) {
    x[0] = __uint_as_float(raw.x);
    x[1] = __uint_as_float(raw.y);
    x[2] = __uint_as_float(raw.z);
    x[3] = __uint_as_float(raw.w);
  }
};

template <>
struct KvUnit<KvType::kF16> {
  static constexpr int kElements = 8;
  __device__ static void decode(const uint4& raw, int i, float /*d0*/, float /*d1*/,
                                float (&x)[4]) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint32_t word = word_of(raw, 2 * i + j);
      x[2 * j] = widen_f16(static_cast<uint16_t>(word));
      x[2 * j + 1] = widen_f16(static_cast<uint16_t>(word >> 16U));
    }
  }
};

template <>
struct KvUnit<KvType::kBF16> {
  static constexpr int kElements = 8;
  __device__ static void decode(const uint4& raw, int i, float /*d0*/, float /*d1*/,
                                float (&x)[4]) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint32_t word = word_of(raw, 2 * i + j);
      x[2 * j] = __uint_as_float(word << 16U);
      x[2 * j + 1] = __uint_as_float(word & 0xFFFF0000U);
    }
  }
};

/// A byte b in bits 8 to 15 of a float with the right exponent reads as 2^15 + b, with b = element
/// + 128. (2^15 + 128) d has 20 bits, so the fused multiply-add is exact.
template <>
struct KvUnit<KvType::kQ8_0> {
  static constexpr int kElements = 16;
  __device__ static void decode(const uint4& raw, int i, float d0, float d1, float (&x)[4]) {
    const uint32_t biased = word_of(raw, i) ^ 0x80808080U;
    const float less[2] = {-32896.0F * d0, -32896.0F * d1};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t bits = __byte_perm(biased, 0x47000000U, 0x7404U + 16 * j);
      x[j] = fmaf(__uint_as_float(bits), j < 2 ? d0 : d1, less[j / 2]);
    }
  }
};

/// A nibble n in bits 4 j to 4 j + 3 of a float reads as 2^(23 - 4 j) + n, with n = element + 8.
template <>
struct KvUnit<KvType::kQ4_0> {
  static constexpr int kElements = 32;
  __device__ static void decode(const uint4& raw, int i, float d0, float d1, float (&x)[4]) {
    const uint32_t word = word_of(raw, i / 2) >> (i % 2 * 16);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t magic = (150U - 4 * j) << 23U;
      const uint32_t bits = and_or(word, 0xFU << (4 * j), magic);
      const float less = __uint_as_float(magic) + 8.0F;
      x[j] = (j < 2 ? d0 : d1) * (__uint_as_float(bits) - less);
    }
  }
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_KV_DEVICE_H_
