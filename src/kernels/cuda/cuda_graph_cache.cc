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
  GraphKey kind;
  constexpr int32_t kMaxPositions = 1 << 29;
  const auto n_wanted = static_cast<int32_t>(step.wanted_rows.size());
  kind.capturable = extent.prefill_rows == 0 && extent.n_rows <= kMaxGraphRows &&
                    n_wanted <= kMaxGraphRows && extent.positions <= kMaxPositions;
  kind.pass = step.pass;
  kind.n_rows = extent.n_rows;
  kind.n_sequences = extent.n_sequences;
  kind.n_slices = extent.n_slices;
  kind.n_wanted = n_wanted;
  kind.n_logits = outputs.logits.rows;
  kind.n_top = outputs.top.rows;
  kind.top_count = outputs.top.count;
  kind.selected_count = outputs.selected.count;
  kind.sums = outputs.sums != nullptr;
  kind.chooses = outputs.chosen != nullptr;
  kind.async_token = !step.async_from.empty();
  kind.sequence_rows = extent.sequence_rows;
  kind.runs = extent.runs;
  kind.decode_rows = extent.decode_rows;
  kind.positions = kind.capturable ? widened(extent.positions) : extent.positions;
  return kind;
}

CudaGraphCache::Entry* CudaGraphCache::find(const GraphKey& kind) {
  if (!kind.capturable) return nullptr;
  if (entries_.size() >= kMaxGraphs && !entries_.contains(kind)) {
    entries_.erase(std::ranges::min_element(
        entries_, {}, [](const auto& entry) { return entry.second.last_use; }));
  }
  Entry& entry = entries_[kind];
  entry.last_use = ++uses_;
  return &entry;
}

void CudaGraphCache::forget() {
  for (auto& [kind, entry] : entries_) {
    entry.seen = false;
    entry.graph.reset();
  }
}

}  // namespace chimere::kernels::cuda
