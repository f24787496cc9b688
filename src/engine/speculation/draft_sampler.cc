#include "engine/speculation/draft_sampler.h"

#include <algorithm>
#include <cmath>

namespace chimere::engine {
namespace {

sampling::SamplingParams draft_sampling(sampling::SamplingParams p) {
  p.logit_bias.clear();
  p.repeat_penalty = 1;
  p.frequency_penalty = p.presence_penalty = 0;
  p.dry = {};
  p.xtc_probability = 0;
  p.mirostat = 0;
  p.dynatemp_range = 0;
  p.logprobs = -1;
  p.auxiliary.reset();
  return p;
}

/// Largest logits from which a probability is computed at another temperature than that of the sums
/// of a row: the others have little weight.
constexpr int32_t kLeastLargest = 64;

/// softmax(scale * logits) of one token, approximately.
double probability(std::span<const float> logits, int32_t token, double scale) {
  const float largest = *std::ranges::max_element(logits);
  // Tokens less than e^-12 times as likely as the first are negligible.
  const auto floor = static_cast<float>(largest - 12 / scale);
  double sum = 0;
  for (const float l : logits) {
    if (l > floor) sum += std::exp(scale * static_cast<double>(l - largest));
  }
  return std::exp(scale * static_cast<double>(logits[static_cast<size_t>(token)] - largest)) / sum;
}

}  // namespace

DraftSampler::DraftSampler(const sampling::SamplingParams& sampling)
    : sampler_(draft_sampling(sampling)),
      scale_(sampling.temperature > 0 ? 1.0 / static_cast<double>(sampling.temperature) : 1.0) {
  const sampling::Needed needed = sampler_.needed(kernels::kMaxTopLogits);
  largest_ = needed.largest;
  draws_with_sums_ = needed.sums;
  // A GPU finds a row's sums faster than many of its largest logits.
  sums_ = largest_ > 0 && (needed.sums || scale_ == 1);
  if (largest_ > 0 && scale_ != 1) largest_ = std::max(largest_, kLeastLargest);
}

SampledDraft DraftSampler::sample(std::span<const float> logits, size_t position) {
  const auto drawn = sampler_.sample(logits, {}, position);
  if (!drawn.ok()) return {};  // the model reports the error
  return {drawn->id, probability(logits, drawn->id, scale_)};
}

SampledDraft DraftSampler::sample(std::span<const kernels::TopLogit> largest,
                                  const kernels::LogSumExp* sums, size_t position) {
  known_.clear();
  for (const kernels::TopLogit& t : largest.first(static_cast<size_t>(largest_))) {
    known_.push_back({t.value, t.id});
  }
  const auto drawn = sampler_.sample({known_, {}, draws_with_sums_ ? sums : nullptr}, {}, position);
  if (!drawn.ok() || !drawn->has_value()) return {};
  const auto weight = [&](float logit) {
    return std::exp(scale_ * static_cast<double>(logit - known_.front().value));
  };
  double sum = 0;
  double own = 0;
  for (const sampling::Candidate& c : known_) {
    if (c.id < 0) break;
    sum += weight(c.value);
    if (c.id == (*drawn)->id) own = weight(c.value);
  }
  return {(*drawn)->id, own / (scale_ == 1 ? sums->e : sum)};
}

}  // namespace chimere::engine
