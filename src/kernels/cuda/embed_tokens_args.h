// Arguments of the kernel of embed_tokens.cu.
#ifndef CHIMERE_KERNELS_CUDA_EMBED_TOKENS_ARGS_H_
#define CHIMERE_KERNELS_CUDA_EMBED_TOKENS_ARGS_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace chimere::kernels::cuda {

inline constexpr int kEmbedThreads = 256;
/// Elements that a block decodes: whole blocks of every format.
inline constexpr int kEmbedPiece = 1024;
/// Largest size of these elements in the file.
inline constexpr int kEmbedPieceBytes = kEmbedPiece * 4;

/// Grid: x pieces of a row, y rows.
struct EmbedTokensArgs {
  const uint8_t* table;  ///< rows one after the other, as in the file
  int64_t row_bytes;
  const int32_t* tokens;
  /// [rows]: the row's token is tokens[places[row]], or ~places[row] if that is negative; token -1
  /// reads row 0.
  const int32_t* places;
  float* y;
  int64_t y_stride;
  int32_t n;            ///< elements of a row
  int32_t piece_bytes;  ///< bytes of kEmbedPiece elements
  DType type;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_EMBED_TOKENS_ARGS_H_
