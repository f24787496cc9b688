#include "kernels/cuda/cuda_graph_cache.h"

#include <algorithm>
#include <bit>

#include "kernels/attention_rules.h"
#include "kernels/cuda/step_arrays.h"

namespace chimere::kernels::cuda {
namespace {

/// A captured graph of a large model takes a few megabytes of GPU memory.
constexpr size_t kMaxGraphs = 32;

/// `positions` rounded up to a power of two of whole splits: launches are at most twice as large as
/// necessary, and a generation of any length needs few captures.
int32_t widened(int32_t positions) {
  const auto splits = static_cast<uint32_t>((positions + kAttentionSplit - 1) / kAttentionSplit);
  return static_cast<int32_t>(std::bit_ceil(splits)) * kAttentionSplit;
}

}  // namespace

GraphKey graph_key_of(const StepInputs& step, const StepOutputs& outputs,
                      const BatchExtent& extent) {
  GraphKey key;
  constexpr int32_t kMaxPositions = 1 << 29;
  const auto n_wanted = static_cast<int32_t>(step.wanted_rows.size());
  key.capturable = extent.prefill_rows == 0 && extent.n_rows <= kMaxGraphRows &&
                   n_wanted <= kMaxGraphRows && extent.positions <= kMaxPositions;
  key.pass = step.pass;
  key.n_rows = extent.n_rows;
  key.n_sequences = extent.n_sequences;
  key.n_slices = extent.n_slices;
  key.n_wanted = n_wanted;
  key.n_logits = outputs.logits.rows;
  key.n_top = outputs.top.rows;
  key.top_count = outputs.top.count;
  key.selected_count = outputs.selected.count;
  key.masked = !step.masks.empty();
  key.sums = outputs.sums != nullptr;
  key.chooses = outputs.chosen != nullptr;
  key.async_token = !step.async_from.empty();
  key.sequence_rows = extent.sequence_rows;
  key.runs = extent.runs;
  key.decode_rows = extent.decode_rows;
  key.folds = extent.folds;
  key.keeps = extent.keeps;
  key.positions = key.capturable ? widened(extent.positions) : extent.positions;
  return key;
}

CudaGraphCache::Entry* CudaGraphCache::find(const GraphKey& key) {
  if (!key.capturable) return nullptr;
  if (entries_.size() >= kMaxGraphs && !entries_.contains(key)) {
    entries_.erase(std::ranges::min_element(
        entries_, {}, [](const auto& entry) { return entry.second.last_use; }));
  }
  Entry& entry = entries_[key];
  entry.last_use = ++uses_;
  return &entry;
}

void CudaGraphCache::forget() {
  for (auto& [key, entry] : entries_) {
    entry.seen = false;
    entry.graph.reset();
  }
}

}  // namespace chimere::kernels::cuda
