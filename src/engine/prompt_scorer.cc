#include "engine/prompt_scorer.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "kernels/api.h"

namespace chimere::engine {
namespace {

/// Samples the one token that is allowed; its log-probability is that without the restriction.
sampling::SamplingParams scoring_params(const sampling::SamplingParams& sampling) {
  sampling::SamplingParams out;
  out.temperature = 0;
  out.logprobs = std::max(0, sampling.logprobs);
  out.auxiliary = sampling.auxiliary;
  return out;
}

}  // namespace

PromptScorer::PromptScorer(const sampling::SamplingParams& sampling,
                           std::span<const int32_t> prompt, int64_t vocabulary,
                           int32_t most_partial)
    : sampler_(scoring_params(sampling)),
      prompt_(prompt),
      partial_(std::max(1, sampling.logprobs) <= most_partial && sampling.auxiliary == nullptr),
      only_(static_cast<size_t>(kernels::mask_words(vocabulary))) {
  scored_.reserve(prompt.size());
}

void PromptScorer::plan(int64_t position, model::SequenceRows& rows) {
  position_ = position;
  planned_ = static_cast<int64_t>(rows.tokens.size());
  rows.row_class = model::RowClass::kDecode;
  rows.chunks.clear();
  rows.logits_of.resize(rows.tokens.size());
  std::iota(rows.logits_of.begin(), rows.logits_of.end(), 0);
  if (!partial_) return;
  rows.top = std::max(1, sampler_.params().logprobs);
  rows.sums = true;
  for (size_t at = static_cast<size_t>(position) + 1; rows.selected.size() < rows.tokens.size();
       ++at) {
    rows.selected.emplace_back();
    if (at < prompt_.size()) rows.selected.back().push_back(prompt_[at]);
  }
}

Status PromptScorer::score(const model::StepResult& result) {
  const int64_t rows = std::exchange(planned_, 0);
  for (int64_t row = 0; row < rows; ++row) {
    const auto position = static_cast<size_t>(position_ + row + 1);
    if (position == prompt_.size()) break;
    CHIMERE_TRY(sampling::Sampled scored, score(result, row, position));
    scored_.push_back(std::move(scored));
  }
  return {};
}

Result<sampling::Sampled> PromptScorer::score(const model::StepResult& result, int64_t row,
                                              size_t position) {
  const std::span<const int32_t> before = prompt_.first(position);
  const int32_t token = prompt_[position];
  std::ranges::fill(only_, 0U);
  only_[static_cast<size_t>(token / 32)] = 1U << (token % 32);
  if (!partial_) {
    const std::span<const float> logits(result.logits.row(row),
                                        static_cast<size_t>(result.logits.cols));
    return sampler_.sample(logits, before, position, only_);
  }
  largest_.clear();
  const auto wanted = static_cast<size_t>(std::max(1, sampler_.params().logprobs));
  for (const kernels::TopLogit& t : result.top.row(row).first(wanted)) {
    largest_.push_back({t.value, t.id});
  }
  const sampling::Candidate known = {result.selected.row(row)[0], token};
  const sampling::PartialLogits partial = {largest_, {&known, 1}, result.sums + row};
  CHIMERE_TRY(std::optional<sampling::Sampled> scored,
              sampler_.sample(partial, before, position, only_));
  if (scored) return *std::move(scored);
  return invalid_data("The partial logits of a prompt's row lack its next token.");
}

}  // namespace chimere::engine
