// The layout of a weight matrix in GPU memory. A file's blocks mix integers and scales and have odd
// sizes (34, 110, 210 bytes), so that threads could load only bytes. The upload (pack_weights.h)
// splits each row into planes, one after the other: a plane holds everything of one kind, one unit
// per 32 elements. A unit is aligned to its size, up to 16 bytes, and neighbouring lanes read
// neighbouring units. Rows remain separate, so a range of rows is a contiguous part of the packed
// matrix. Sizes equal the file's, except for Q4_K, Q5_K (4 bytes more), IQ4_XS (2) and Q3_K (4) per
// 256 elements, whose 6-bit scales become bytes, IQ4_K, IQ5_K (4), IQ3_K (6) and IQ2_K (8) for the
// same reason, TQ1_0 (12), for unpacked IQ3_S, and for the padding of a row to its largest unit.
//
//   type     planes (bytes per 32 elements), then bytes per 256 elements
//   Q8_0     16 elements 0-15 · 16 elements 16-31 · 2 d
//   Q4_0     16 nibbles · 2 d              Q4_1, Q5_1: d and m, 4 bytes
//   Q5_x     16 nibbles · 4 fifth bits · 2 or 4
//   MXFP4    16 nibbles · 1 exponent       IQ4_NL: 16 nibbles · 2 d
//   IQ4_XS   16 nibbles · 1 scale - 32 | 2 d
//   Q4_K     16 nibbles · 2 scale, minimum | 4 d, dmin
//   Q5_K     16 nibbles · 4 fifth bits · 2 scale, minimum | 4 d, dmin
//   Q6_K     16 (2 x 8 nibbles) · 8 (2 x 4 pairs of bits) · 2 (2 x 1 scale) | 2 d
//   Q2_K     8 (2 x 4 pairs of bits) · 2 (2 x 1 scale, minimum) | 4 d, dmin
//   Q3_K     8 (2 x 4 pairs of bits) · 4 third bits · 2 (2 x 1 scale - 32) | 2 d
//   IQ3_S    8 indices · 4 signs · 1 ninth bits | 4 scales, 2 d
//   IQ3_S unpacked (packed_type()): 16 nibbles, (integer + 15) / 2 · 1 scale | 2 d
//   IQ3_XXS  8 indices · 4 signs and scale | 2 d      IQ2_XXS: 8 indices, signs and scale | 2 d
//   IQ2_XS   8 (2 x 2 index and signs) | 8 scales, 2 d
//   IQ2_S    8 (2 x 2 indices, 2 signs) · 2 (2 x 1 high bits, scale) | 2 d
//   TQ1_0, TQ2_0   8 (2 x 4 pairs of bits) | 2 d
//   IQ2_K    8 (2 x 4 pairs of bits) · 2 (2 x 1 scale) | 4 d, extra
//   IQ3_K    8 (2 x 4 pairs of bits) · 4 third bits · 2 (2 x 1 scale) | 4 d, extra
//   IQ4_K    16 (2 x 8 nibbles) · 2 (2 x 1 scale) | 4 d, extra
//   IQ5_K    16 (2 x 8 nibbles) · 4 fifth bits · 2 (2 x 1 scale) | 4 d, extra
//   IQ1_S    4 indices · 2 as in the file | 2 d       IQ1_M: 4 (2 x 2 indices) · 2 | 8 scales
//
// Nibbles of 32 elements: byte i has element i in its low and i + 16 in its high nibble; of 16: i
// and i + 8. Pairs of bits of 16 elements: element 4 j + b in bits 8 b + 2 j. Fifth and third bits:
// element 4 j + b in bit 8 b + j. Signs of IQ3_S: element 4 j + b in bit 8 b + 7 - j. So one shift
// and one mask extract the bits of four elements, each into its byte. Float types are stored as in
// the file.
#ifndef CHIMERE_KERNELS_CUDA_PACKED_LAYOUT_H_
#define CHIMERE_KERNELS_CUDA_PACKED_LAYOUT_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace chimere::kernels::cuda {

struct PackedLayout {
  int plane[3];  ///< bytes of each plane per 32 elements; 0: no such plane
  int super;     ///< bytes per 256 elements, in a last plane; 0: none
};

constexpr PackedLayout packed_layout(DType t) {
  switch (t) {
    case DType::kQ8_0:
      return {{16, 16, 2}, 0};
    case DType::kQ4_0:
    case DType::kIQ4_NL:
      return {{16, 2, 0}, 0};
    case DType::kQ4_1:
      return {{16, 4, 0}, 0};
    case DType::kQ5_0:
      return {{16, 4, 2}, 0};
    case DType::kQ5_1:
      return {{16, 4, 4}, 0};
    case DType::kMXFP4:
      return {{16, 1, 0}, 0};
    case DType::kIQ4_XS:
    case DType::kIQ3_S_UNPACKED:
      return {{16, 1, 0}, 2};
    case DType::kQ4_K:
      return {{16, 2, 0}, 4};
    case DType::kQ5_K:
      return {{16, 4, 2}, 4};
    case DType::kQ6_K:
      return {{16, 8, 2}, 2};
    case DType::kQ2_K:
      return {{8, 2, 0}, 4};
    case DType::kQ3_K:
      return {{8, 4, 2}, 2};
    case DType::kIQ3_S:
      return {{8, 4, 1}, 6};
    case DType::kIQ3_XXS:
      return {{8, 4, 0}, 2};
    case DType::kIQ2_XXS:
      return {{8, 0, 0}, 2};
    case DType::kIQ2_XS:
      return {{8, 0, 0}, 10};
    case DType::kIQ2_S:
      return {{8, 2, 0}, 2};
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return {{8, 0, 0}, 2};
    case DType::kIQ2_K:
      return {{8, 2, 0}, 4};
    case DType::kIQ3_K:
      return {{8, 4, 2}, 4};
    case DType::kIQ4_K:
      return {{16, 2, 0}, 4};
    case DType::kIQ5_K:
      return {{16, 4, 2}, 4};
    case DType::kIQ1_S:
      return {{4, 2, 0}, 2};
    case DType::kIQ1_M:
      return {{4, 2, 0}, 8};
    default:
      return {{0, 0, 0}, 0};
  }
}

/// The type that a matrix of a file is packed to. Unpacked IQ3_S takes a quarter more memory and
/// needs no codebook: its integers are the odd numbers from -15 to 15.
constexpr DType packed_type(DType of_file, bool unpacked) {
  return unpacked && of_file == DType::kIQ3_S ? DType::kIQ3_S_UNPACKED : of_file;
}

/// Bytes between rows of a packed matrix of a quantised type.
constexpr int64_t packed_integer_row_bytes(DType t, int64_t n_in) {
  const PackedLayout l = packed_layout(t);
  const int64_t bytes = n_in / 32 * (l.plane[0] + l.plane[1] + l.plane[2]) + n_in / 256 * l.super;
  return (bytes + l.plane[0] - 1) / l.plane[0] * l.plane[0];
}

/// Offset and length of a type's codebook within codebook_words() (pack_weights.h), in words.
struct CodebookPlace {
  int begin;
  int words;
};
constexpr CodebookPlace codebook_place(DType t) {
  switch (t) {
    case DType::kIQ2_XXS:
      return {0, 512};
    case DType::kIQ2_XS:
      return {512, 1024};
    case DType::kIQ2_S:
      return {1536, 2048};
    case DType::kIQ3_XXS:
      return {3584, 256};
    case DType::kIQ3_S:
      return {3840, 512};
    case DType::kIQ1_S:
    case DType::kIQ1_M:
      return {4352, 4096};
    default:
      return {0, 0};
  }
}
inline constexpr int kCodebookWords = 4352 + 4096;

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PACKED_LAYOUT_H_
