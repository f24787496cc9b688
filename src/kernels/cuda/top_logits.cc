#include "kernels/cuda/top_logits.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/cuda/top_logits_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kTopLogits = {"top_logits", "top_logits"};
constexpr Kernel kTopFewLogits = {"top_logits", "top_few_logits"};
constexpr Kernel kGatherLogits = {"top_logits", "gather_logits"};

static_assert(sizeof(TopLogitArgs) == sizeof(TopLogit) && 2 * kMaxTopLogits <= kMaxTopTile);

int64_t row_tiles(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

bool are_few(int32_t count) { return count > 1 && count <= kMaxFew; }

/// Keys per row after the first launch, the most of all launches.
int64_t first_keys(int64_t n_vocab, int32_t count) {
  return row_tiles(n_vocab, kMaxTopTile) * (are_few(count) ? kMaxFew : count);
}

}  // namespace

int64_t top_logits_scratch_bytes(int64_t rows, int64_t n_vocab, int32_t count) {
  return 2 * rows * first_keys(n_vocab, count) * static_cast<int64_t>(sizeof(uint64_t));
}

void top_logits(Stream& stream, ConstMatrixView logits, const uint32_t* masks, TopLogits top,
                uint8_t* scratch) {
  if (top.rows == 0) return;
  const bool few = are_few(top.count);
  const int64_t left_of_tile = few ? kMaxFew : top.count;
  auto* to = reinterpret_cast<uint64_t*>(scratch);
  auto* from = to + top.rows * first_keys(logits.cols, top.count);
  TopLogitsArgs args = {};
  args.logits = logits.data;
  args.stride = logits.stride;
  args.masks = masks;
  args.mask_words = static_cast<int32_t>(mask_words(logits.cols));
  args.keep = top.count;
  args.n = static_cast<int32_t>(logits.cols);
  while (true) {
    // Merging sorted lists is cheaper than sorting.
    const int most = few && args.keys_in != nullptr ? kMaxMergedTile : kMaxTopTile;
    const int64_t tiles = row_tiles(args.n, most);
    const bool last = tiles == 1;
    const auto least = static_cast<uint32_t>(std::max(args.n, args.keep));
    args.tile = last && !few ? static_cast<int32_t>(std::bit_ceil(least)) : most;
    args.keys_out = last ? nullptr : to;
    args.top = last ? reinterpret_cast<TopLogitArgs*>(top.data) : nullptr;
    const auto keys = static_cast<uint32_t>(few ? 0 : args.tile);
    const Launch launch = {.grid = {static_cast<uint32_t>(tiles), static_cast<uint32_t>(top.rows)},
                           .block = {kTopThreads},
                           .shared_bytes = keys * static_cast<uint32_t>(sizeof(uint64_t)),
                           .overlaps_previous = true};
    stream.launch(few ? kTopFewLogits : kTopLogits, launch, args);
    if (last) return;
    args.n = static_cast<int32_t>(tiles * left_of_tile);
    args.keys_in = to;
    std::swap(to, from);
  }
}

void gather_logits(Stream& stream, MatrixView logits, const int32_t* ids, SelectedLogits selected) {
  if (selected.rows == 0 || selected.count == 0) return;
  const GatherLogitsArgs args = {logits.data, logits.stride, ids, selected.data, selected.count};
  stream.launch(kGatherLogits,
                {.grid = {static_cast<uint32_t>(selected.rows)},
                 .block = {kTopThreads},
                 .overlaps_previous = true},
                args);
}

}  // namespace chimere::kernels::cuda
