// Reading and addressing KV pages (attention_args.h).
#ifndef CHIMERE_KERNELS_CUDA_KV_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_KV_DEVICE_H_

#include "kernels/cuda/attention_args.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/float16.h"

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

/// Elements of a unit of 16 bytes as floats; quantised ones without their scale.
template <KvType kType>
struct KvUnit;

template <>
struct KvUnit<KvType::kF32> {
  static constexpr int kElements = 4;
  __device__ static void decode(const uint4& raw, float (&x)[kElements]) {
    x[0] = __uint_as_float(raw.x);
    x[1] = __uint_as_float(raw.y);
    x[2] = __uint_as_float(raw.z);
    x[3] = __uint_as_float(raw.w);
  }
};

template <>
struct KvUnit<KvType::kF16> {
  static constexpr int kElements = 8;
  __device__ static void decode(const uint4& raw, float (&x)[kElements]) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = widen_f16(static_cast<uint16_t>(words[i]));
      x[2 * i + 1] = widen_f16(static_cast<uint16_t>(words[i] >> 16U));
    }
  }
};

template <>
struct KvUnit<KvType::kBF16> {
  static constexpr int kElements = 8;
  __device__ static void decode(const uint4& raw, float (&x)[kElements]) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = __uint_as_float(words[i] << 16U);
      x[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000U);
    }
  }
};

// 2^23 + n for an integer n below 2^23 has n in its low bits: no conversion is needed.

template <>
struct KvUnit<KvType::kQ8_0> {
  static constexpr int kElements = 16;
  __device__ static void decode(const uint4& raw, float (&x)[kElements]) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const uint32_t biased = words[i / 4] ^ 0x80808080U;
      const uint32_t bits = __byte_perm(biased, 0x4B000000U, 0x7540U + i % 4);
      x[i] = __uint_as_float(bits) - 8388736.0F;
    }
  }
};

template <>
struct KvUnit<KvType::kQ4_0> {
  static constexpr int kElements = 32;
  __device__ static void decode(const uint4& raw, float (&x)[kElements]) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const uint32_t bits = ((words[i / 8] >> (4 * (i % 8))) & 0xFU) | 0x4B000000U;
      x[i] = __uint_as_float(bits) - 8388616.0F;
    }
  }
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_KV_DEVICE_H_
