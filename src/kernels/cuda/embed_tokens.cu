// Rows of an embedding table in the file's own formats, decoded element by element with the
// operations of quant::decode(). A block first copies its part of a row to shared memory, so that
// each byte crosses the bus (if the table is in host memory) once.
#include "kernels/cuda/codec.h"
#include "kernels/cuda/embed_tokens_args.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/ptx/float16.h"
#include "quant/blocks.h"

namespace chimere::kernels::cuda {

namespace {

/// Loads two bytes from any address.
__device__ __forceinline__ uint16_t half_at(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | static_cast<uint32_t>(p[1]) << 8U);
}
__device__ __forceinline__ float f16_at(const uint8_t* p) { return widen_f16(half_at(p)); }

/// Element j of a block of 32 whose first half is stored in low nibbles.
__device__ __forceinline__ int nibble_of(const uint8_t* qs, int j) {
  return (qs[j & 15] >> (j < 16 ? 0 : 4)) & 15;
}
__device__ __forceinline__ int fifth_bit(const uint8_t* qh, int j) {
  return ((qh[j / 8] >> (j % 8)) & 1) << 4;
}

/// Entry q of a type's value table.
template <DType kType>
__device__ __forceinline__ float table_value(int q) {
  const uint32_t value = table_values<kType>(static_cast<uint32_t>(q)) & 0xFFU;
  return static_cast<float>(static_cast<int8_t>(value));
}

/// Scale and minimum of sub-block s of Q4_K and Q5_K.
__device__ __forceinline__ void scale_min(const uint8_t* scales, int s, int& scale, int& minimum) {
  const quant::ScaleMin both = quant::scale_min(scales, s);
  scale = both.scale;
  minimum = both.min;
}

__device__ __forceinline__ float decode_32(DType type, const uint8_t* piece, int i) {
  const int block = i / quant::kBlock;
  const int j = i % quant::kBlock;
  if (type == DType::kQ8_0) {
    const uint8_t* b = piece + block * static_cast<int>(sizeof(quant::BlockQ8_0));
    return f16_at(b) * static_cast<float>(static_cast<int8_t>(b[2 + j]));
  }
  if (type == DType::kQ4_0) {
    const uint8_t* b = piece + block * static_cast<int>(sizeof(quant::BlockQ4_0));
    return f16_at(b) * static_cast<float>(nibble_of(b + 2, j) - 8);
  }
  if (type == DType::kQ4_1) {
    const uint8_t* b = piece + block * static_cast<int>(sizeof(quant::BlockQ4_1));
    return f16_at(b) * static_cast<float>(nibble_of(b + 4, j)) + f16_at(b + 2);
  }
  if (type == DType::kQ5_0) {
    const uint8_t* b = piece + block * static_cast<int>(sizeof(quant::BlockQ5_0));
    const int q = nibble_of(b + 6, j) | fifth_bit(b + 2, j);
    return f16_at(b) * static_cast<float>(q - 16);
  }
  if (type == DType::kQ5_1) {
    const uint8_t* b = piece + block * static_cast<int>(sizeof(quant::BlockQ5_1));
    const int q = nibble_of(b + 8, j) | fifth_bit(b + 4, j);
    return f16_at(b) * static_cast<float>(q) + f16_at(b + 2);
  }
  if (type == DType::kIQ4_NL) {
    const uint8_t* b = piece + block * static_cast<int>(sizeof(quant::BlockIq4Nl));
    return f16_at(b) * table_value<DType::kIQ4_NL>(nibble_of(b + 2, j));
  }
  const uint8_t* b = piece + block * static_cast<int>(sizeof(quant::BlockMxfp4));
  return half_e8m0(b[0]) * table_value<DType::kMXFP4>(nibble_of(b + 1, j));
}

__device__ __forceinline__ float decode_256(DType type, const uint8_t* piece, int i) {
  const int block = i / quant::kSuperBlock;
  const int e = i % quant::kSuperBlock;
  if (type == DType::kQ2_K || type == DType::kQ3_K) {
    const int s = e / 16;
    const int l = e % 16;
    const int at = s / 8 * 32 + s % 2 * 16 + l;
    const int shift = s % 8 / 2 * 2;
    if (type == DType::kQ2_K) {
      const auto* b = reinterpret_cast<const quant::BlockQ2K*>(piece) + block;
      const float scale = widen_f16(b->d) * static_cast<float>(b->scales[s] & 15);
      const float minimum = widen_f16(b->dmin) * static_cast<float>(b->scales[s] >> 4);
      return scale * static_cast<float>((b->qs[at] >> shift) & 3) - minimum;
    }
    const auto* b = reinterpret_cast<const quant::BlockQ3K*>(piece) + block;
    const float scale = widen_f16(b->d) * static_cast<float>(quant::q3_scale(b->scales, s));
    const int high = (b->hmask[s % 2 * 16 + l] >> (s / 2)) & 1;
    return scale * static_cast<float>(((b->qs[at] >> shift) & 3) - (high != 0 ? 0 : 4));
  }
  if (type == DType::kQ6_K) {
    const auto* b = reinterpret_cast<const quant::BlockQ6K*>(piece) + block;
    const int s = e / 16;
    const int half = s / 8;
    const int quarter = s % 8 / 2;
    const int at = s % 2 * 16 + e % 16;
    const int low = (b->ql[half * 64 + quarter % 2 * 32 + at] >> (quarter / 2 * 4)) & 15;
    const int high = (b->qh[half * 32 + at] >> (quarter * 2)) & 3;
    const float scale = widen_f16(b->d) * static_cast<float>(b->scales[s]);
    return scale * static_cast<float>((low | (high << 4)) - 32);
  }
  const int s = e / 32;
  const int l = e % 32;
  if (type == DType::kIQ4_XS) {
    const auto* b = reinterpret_cast<const quant::BlockIq4Xs*>(piece) + block;
    const float scale = widen_f16(b->d) * static_cast<float>(quant::iq4_xs_scale(*b, s));
    return scale * table_value<DType::kIQ4_XS>(nibble_of(b->qs + s * 16, l));
  }
  int scale = 0;
  int minimum = 0;
  const int shift = s % 2 * 4;
  if (type == DType::kQ4_K) {
    const auto* b = reinterpret_cast<const quant::BlockQ4K*>(piece) + block;
    scale_min(b->scales, s, scale, minimum);
    const int q = (b->qs[s / 2 * 32 + l] >> shift) & 15;
    return widen_f16(b->d) * static_cast<float>(scale) * static_cast<float>(q) -
           widen_f16(b->dmin) * static_cast<float>(minimum);
  }
  const auto* b = reinterpret_cast<const quant::BlockQ5K*>(piece) + block;
  scale_min(b->scales, s, scale, minimum);
  const int q = ((b->qs[s / 2 * 32 + l] >> shift) & 15) | (((b->qh[l] >> s) & 1) << 4);
  return widen_f16(b->d) * static_cast<float>(scale) * static_cast<float>(q) -
         widen_f16(b->dmin) * static_cast<float>(minimum);
}

__device__ __forceinline__ float decode_element(DType type, const uint8_t* piece, int i) {
  switch (type) {
    case DType::kF32:
      return reinterpret_cast<const float*>(piece)[i];
    case DType::kF16:
      return f16_at(piece + 2 * i);
    case DType::kBF16:
      return __uint_as_float(static_cast<uint32_t>(half_at(piece + 2 * i)) << 16U);
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kIQ4_XS:
      return decode_256(type, piece, i);
    default:
      return decode_32(type, piece, i);
  }
}

}  // namespace

CHIMERE_KERNEL(embed_tokens, kEmbedThreads, EmbedTokensArgs, args) {
  __shared__ uint32_t piece[kEmbedPieceBytes / 4];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  const int first = static_cast<int>(blockIdx.x) * kEmbedPiece;
  const int32_t place = args.places[row];
  const int32_t token = place < 0 ? ~place : args.tokens[place];
  const int64_t skipped = static_cast<int64_t>(blockIdx.x) * args.piece_bytes;
  const uint8_t* from = args.table + (token < 0 ? 0 : token) * args.row_bytes + skipped;
  const int64_t left = args.row_bytes - skipped;
  const int bytes = left < args.piece_bytes ? static_cast<int>(left) : args.piece_bytes;
  if (((reinterpret_cast<uint64_t>(from) | static_cast<uint64_t>(bytes)) & 3U) == 0) {
    const auto* words = reinterpret_cast<const uint32_t*>(from);
    for (int i = thread; i < bytes / 4; i += kEmbedThreads) piece[i] = words[i];
  } else {
    auto* to = reinterpret_cast<uint8_t*>(piece);
    for (int i = thread; i < bytes; i += kEmbedThreads) to[i] = from[i];
  }
  __syncthreads();
  float* y = args.y + row * args.y_stride;
  const int n = args.n - first < kEmbedPiece ? args.n - first : kEmbedPiece;
  for (int i = thread; i < n; i += kEmbedThreads) {
    y[first + i] = decode_element(args.type, reinterpret_cast<const uint8_t*>(piece), i);
  }
}

}  // namespace chimere::kernels::cuda
