// Arguments of the kernel of top_logits.cu.
#ifndef CHIMERE_KERNELS_CUDA_TOP_LOGITS_ARGS_H_
#define CHIMERE_KERNELS_CUDA_TOP_LOGITS_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

inline constexpr int kTopThreads = 256;
/// Most keys that a block sorts.
inline constexpr int kMaxTopTile = 2048;

/// TopLogit of kernels/api.h, in the same bytes.
struct TopLogitArgs {
  float value;
  int32_t id;
};

/// Most keys of which a block merges lists of the largest few.
inline constexpr int kMaxMergedTile = 8192;
/// At most so many are the largest few.
inline constexpr int kMaxFew = 32;

/// The `keep` largest of every tile of a row. Grid: x tiles, y rows. Dynamic shared memory: [tile]
/// keys. (top_few_logits, for at most kMaxFew: none, and kMaxFew keys of each tile are left.) A
/// key is 64 bits: the logit, so that larger ones are larger numbers, above the id, so that lower
/// ones are; 0 for what is masked, all ones for what is no number or +infinity.
struct TopLogitsArgs {
  const float* logits;  ///< [rows, n_vocab]
  int64_t stride;
  const uint64_t* keys_in;  ///< [rows, n]; nullptr: the logits' own, n = n_vocab
  uint64_t* keys_out;       ///< [rows, tiles, keep]; nullptr: to `top`, and there is one tile
  TopLogitArgs* top;        ///< [rows, keep]
  int32_t n;
  int32_t tile;  ///< a power of two, at least keep and at most kMaxTopTile
  int32_t keep;
};

/// Moves listed logits out of rows. Grid: rows.
struct TakeLogitsArgs {
  float* logits;  ///< [rows, n_vocab]
  int64_t stride;
  const int32_t* ids;  ///< [rows, count]; -1: none
  float* selected;     ///< [rows, count]
  int32_t count;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_TOP_LOGITS_ARGS_H_
