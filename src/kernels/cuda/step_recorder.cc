#include "kernels/cuda/step_recorder.h"

#include <algorithm>
#include <bit>

#include "kernels/attention_rules.h"
#include "kernels/cuda/step_arrays.h"

namespace chimere::kernels::cuda {
namespace {

/// A recorded step of a large model takes a few megabytes of the card.
constexpr size_t kMostKinds = 32;

/// The power of two of whole splits that holds `positions`: launches are at most twice as wide as
/// they need be, and a reply of any length is recorded a few times.
int32_t widened(int32_t positions) {
  const auto splits = static_cast<uint32_t>((positions + kAttentionSplit - 1) / kAttentionSplit);
  return static_cast<int32_t>(std::bit_ceil(splits)) * kAttentionSplit;
}

}  // namespace

StepKind kind_of(const StepInputs& step, const StepOutputs& outputs, const BatchExtent& extent) {
  StepKind kind;
  constexpr int32_t kMostPositions = 1 << 29;
  const auto n_wanted = static_cast<int32_t>(step.wanted_rows.size());
  kind.recordable = extent.chunk_rows == 0 && extent.n_rows <= kMostRecordedRows &&
                    n_wanted <= kMostRecordedRows && extent.positions <= kMostPositions;
  kind.pass = step.pass;
  kind.n_rows = extent.n_rows;
  kind.n_sequences = extent.n_sequences;
  kind.n_slices = extent.n_slices;
  kind.n_wanted = n_wanted;
  kind.n_logits = outputs.logits.rows;
  kind.n_top = outputs.top.rows;
  kind.top_count = outputs.top.count;
  kind.listed_count = outputs.listed.count;
  kind.sums = outputs.sums != nullptr;
  kind.chooses = outputs.chosen != nullptr;
  kind.fed = !step.fed_by.empty();
  kind.sequence_rows = extent.sequence_rows;
  kind.runs = extent.runs;
  kind.step_rows = extent.step_rows;
  kind.positions = kind.recordable ? widened(extent.positions) : extent.positions;
  return kind;
}

StepRecorder::Entry* StepRecorder::find(const StepKind& kind) {
  if (!kind.recordable) return nullptr;
  if (entries_.size() >= kMostKinds && !entries_.contains(kind)) {
    entries_.erase(std::ranges::min_element(
        entries_, {}, [](const auto& entry) { return entry.second.last_use; }));
  }
  Entry& entry = entries_[kind];
  entry.last_use = ++uses_;
  return &entry;
}

void StepRecorder::forget() {
  for (auto& [kind, entry] : entries_) {
    entry.seen = false;
    entry.graph.reset();
  }
}

}  // namespace chimere::kernels::cuda
