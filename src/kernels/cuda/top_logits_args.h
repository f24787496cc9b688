// Arguments of the kernel of top_logits.cu.
#ifndef CHIMERE_KERNELS_CUDA_TOP_LOGITS_ARGS_H_
#define CHIMERE_KERNELS_CUDA_TOP_LOGITS_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

inline constexpr int kTopThreads = 256;
/// Most keys that a block sorts.
inline constexpr int kMaxTopTile = 2048;

/// TopLogit of kernels/api.h, with the same layout.
struct TopLogitArgs {
  float value;
  int32_t id;
};

/// Most keys of a block that merges short lists.
inline constexpr int kMaxMergedTile = 8192;
/// Largest `keep` of top_few_logits.
inline constexpr int kMaxFew = 32;

/// The `keep` largest of each tile of a row. Grid: x tiles, y rows. Dynamic shared memory: [tile]
/// keys (top_few_logits, for keep <= kMaxFew: none, and it leaves kMaxFew keys per tile). A key is
/// 64 bits: the logit in the upper half, mapped so that larger logits give larger keys, and the id
/// in the lower half, mapped so that lower ids do. Masked logits, and those of tokens outside the
/// row's set, give 0, NaN and +infinity all ones.
struct TopLogitsArgs {
  const float* logits;  ///< [rows, n_vocab]
  int64_t stride;
  const uint64_t* keys_in;  ///< [rows, n]; nullptr: made from the logits, n = n_vocab
  uint64_t* keys_out;       ///< [rows, tiles, keep]; nullptr: write `top`, there is one tile
  TopLogitArgs* top;        ///< [rows, keep]
  const uint32_t* masks;    ///< [rows, mask_words] sets of tokens; nullptr: all tokens
  int32_t mask_words;
  int32_t n;
  int32_t tile;  ///< a power of two, at least keep and at most kMaxTopTile
  int32_t keep;
};

/// Gathers selected logits of rows. Grid: rows.
struct GatherLogitsArgs {
  float* logits;  ///< [rows, n_vocab]
  int64_t stride;
  const int32_t* ids;  ///< [rows, count]; -1: none
  float* selected;     ///< [rows, count]
  int32_t count;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_TOP_LOGITS_ARGS_H_
