// Dispatch by type, and the formats whose block is not split further.
#include <cstring>

#include "quant/codebooks.h"
#include "quant/decoders.h"
#include "quant/quant.h"

namespace chimere::quant {
namespace {

constexpr int kHalf = kBlock / 2;

// Integers are exact in f32 here, so `d * value` rounds once.
template <typename Block, typename Value>
void decode_nibbles(const Block& b, float d, float* y, Value value) {
  for (int j = 0; j < kHalf; ++j) {
    y[j] = d * static_cast<float>(value(b.qs[j] & 15, j));
    y[j + kHalf] = d * static_cast<float>(value(b.qs[j] >> 4, j + kHalf));
  }
}

// The fifth bit of element j, in its place.
int fifth_bit(const uint8_t* qh, int j) { return ((qh[j / 8] >> (j % 8)) & 1) << 4; }

template <typename Block, int kElements>
void decode_blocks(const void* src, float* dst, int64_t n) {
  const auto* blocks = static_cast<const Block*>(src);
  for (int64_t i = 0; i < n / kElements; ++i) decode_block(blocks[i], dst + i * kElements);
}

template <typename T, typename Convert>
void decode_elements(const void* src, float* dst, int64_t n, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, static_cast<const char*>(src) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    dst[i] = convert(v);
  }
}

template <typename T>
void decode_numbers(const void* src, float* dst, int64_t n) {
  decode_elements<T>(src, dst, n, [](T v) { return static_cast<float>(v); });
}

}  // namespace

void decode_block(const BlockQ4_0& b, float* y) {
  decode_nibbles(b, f16_to_f32(b.d), y, [](int q, int) { return q - 8; });
}

void decode_block(const BlockQ4_1& b, float* y) {
  const float m = f16_to_f32(b.m);
  decode_nibbles(b, f16_to_f32(b.d), y, [](int q, int) { return q; });
  for (int j = 0; j < kBlock; ++j) y[j] += m;
}

void decode_block(const BlockQ5_0& b, float* y) {
  decode_nibbles(b, f16_to_f32(b.d), y,
                 [&](int q, int j) { return (q | fifth_bit(b.qh, j)) - 16; });
}

void decode_block(const BlockQ5_1& b, float* y) {
  const float m = f16_to_f32(b.m);
  decode_nibbles(b, f16_to_f32(b.d), y, [&](int q, int j) { return q | fifth_bit(b.qh, j); });
  for (int j = 0; j < kBlock; ++j) y[j] += m;
}

void decode_block(const BlockQ8_0& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int j = 0; j < kBlock; ++j) y[j] = d * static_cast<float>(b.qs[j]);
}

void decode_block(const BlockMxfp4& b, float* y) {
  decode_nibbles(b, half_e8m0(b.e), y,
                 [](int q, int) { return kMxfp4Values[static_cast<size_t>(q)]; });
}

void decode_block(const BlockIq4Nl& b, float* y) {
  decode_nibbles(b, f16_to_f32(b.d), y,
                 [](int q, int) { return kIq4NlValues[static_cast<size_t>(q)]; });
}

void decode(DType type, const void* src, float* dst, int64_t n) {
  switch (type) {
    case DType::kF32:
      std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      return decode_elements<uint16_t>(src, dst, n, f16_to_f32);
    case DType::kBF16:
      return decode_elements<uint16_t>(src, dst, n, bf16_to_f32);
    case DType::kF64:
      return decode_numbers<double>(src, dst, n);
    case DType::kI8:
      return decode_numbers<int8_t>(src, dst, n);
    case DType::kI16:
      return decode_numbers<int16_t>(src, dst, n);
    case DType::kI32:
      return decode_numbers<int32_t>(src, dst, n);
    case DType::kI64:
      return decode_numbers<int64_t>(src, dst, n);
    case DType::kQ4_0:
      return decode_blocks<BlockQ4_0, kBlock>(src, dst, n);
    case DType::kQ4_1:
      return decode_blocks<BlockQ4_1, kBlock>(src, dst, n);
    case DType::kQ5_0:
      return decode_blocks<BlockQ5_0, kBlock>(src, dst, n);
    case DType::kQ5_1:
      return decode_blocks<BlockQ5_1, kBlock>(src, dst, n);
    case DType::kQ8_0:
      return decode_blocks<BlockQ8_0, kBlock>(src, dst, n);
    case DType::kMXFP4:
      return decode_blocks<BlockMxfp4, kBlock>(src, dst, n);
    case DType::kIQ4_NL:
      return decode_blocks<BlockIq4Nl, kBlock>(src, dst, n);
    case DType::kQ2_K:
      return decode_blocks<BlockQ2K, kSuperBlock>(src, dst, n);
    case DType::kQ3_K:
      return decode_blocks<BlockQ3K, kSuperBlock>(src, dst, n);
    case DType::kQ4_K:
      return decode_blocks<BlockQ4K, kSuperBlock>(src, dst, n);
    case DType::kQ5_K:
      return decode_blocks<BlockQ5K, kSuperBlock>(src, dst, n);
    case DType::kQ6_K:
      return decode_blocks<BlockQ6K, kSuperBlock>(src, dst, n);
    case DType::kIQ2_XXS:
      return decode_blocks<BlockIq2Xxs, kSuperBlock>(src, dst, n);
    case DType::kIQ2_XS:
      return decode_blocks<BlockIq2Xs, kSuperBlock>(src, dst, n);
    case DType::kIQ2_S:
      return decode_blocks<BlockIq2S, kSuperBlock>(src, dst, n);
    case DType::kIQ3_XXS:
      return decode_blocks<BlockIq3Xxs, kSuperBlock>(src, dst, n);
    case DType::kIQ3_S:
      return decode_blocks<BlockIq3S, kSuperBlock>(src, dst, n);
    case DType::kIQ1_S:
      return decode_blocks<BlockIq1S, kSuperBlock>(src, dst, n);
    case DType::kIQ1_M:
      return decode_blocks<BlockIq1M, kSuperBlock>(src, dst, n);
    case DType::kIQ4_XS:
      return decode_blocks<BlockIq4Xs, kSuperBlock>(src, dst, n);
    case DType::kTQ1_0:
      return decode_blocks<BlockTq10, kSuperBlock>(src, dst, n);
    case DType::kTQ2_0:
      return decode_blocks<BlockTq20, kSuperBlock>(src, dst, n);
    case DType::kIQ2_K:
      return decode_blocks<BlockIq2K, kSuperBlock>(src, dst, n);
    case DType::kIQ3_K:
      return decode_blocks<BlockIq3K, kSuperBlock>(src, dst, n);
    case DType::kIQ4_K:
      return decode_blocks<BlockIq4K, kSuperBlock>(src, dst, n);
    case DType::kIQ5_K:
      return decode_blocks<BlockIq5K, kSuperBlock>(src, dst, n);
    case DType::kIQ3_S_UNPACKED:
      return;  // exists on GPUs only
  }
}

}  // namespace chimere::quant
