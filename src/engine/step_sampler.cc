#include "engine/step_sampler.h"

namespace chimere::engine {

void StepSampler::choose(int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const Rows& r = sampling_[static_cast<size_t>(i)];
    r.generation->choose(r.rows, [this, first = r.first_top](int64_t row, std::span<float> out) {
      return model_.read_logits(first + row, out);
    });
  }
}

void StepSampler::sample(std::span<const PlannedRows> planned, const model::StepResult& result) {
  sampling_.clear();
  int64_t first = 0;      // index of the next whole row
  int64_t first_top = 0;  // index of the next row of partial logits
  for (const PlannedRows& p : planned) {
    if (!p.samples) continue;
    if (p.generation == nullptr) {  // of a launched step, whose rows have partial logits
      ++first_top;
      continue;
    }
    const int64_t rows = p.decodes() ? p.generation->decode_size() : p.generation->prompt_logits();
    Rows& r = sampling_.emplace_back(Rows{p.generation, {}, first_top});
    if (p.generation->from_partial_logits()) {
      r.rows.top = {result.top.row(first_top).data(), rows, result.top.count};
      if (result.selected.rows > 0) {
        r.rows.selected = {result.selected.row(first_top).data(), rows, result.selected.count};
      }
      if (result.sums != nullptr) r.rows.sums = result.sums + first_top;
      if (result.chosen != nullptr) r.rows.chosen = result.chosen + first_top;
      first_top += rows;
    } else {
      r.rows.logits = {result.logits.row(first), rows, result.logits.cols, result.logits.stride};
      first += rows;
    }
  }
  const auto n = static_cast<int64_t>(sampling_.size());
  if (pool_ == nullptr || n < 2) return choose(0, n);
  pool_->parallel_for(n, 1, [this](int64_t begin, int64_t end, int) { choose(begin, end); });
}

}  // namespace chimere::engine
