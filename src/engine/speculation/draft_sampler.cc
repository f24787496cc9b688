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
      scale_(sampling.temperature > 0 ? 1.0 / static_cast<double>(sampling.temperature) : 1.0) {}

SampledDraft DraftSampler::sample(std::span<const float> logits, size_t position) {
  const auto drawn = sampler_.sample(logits, {}, position);
  if (!drawn.ok()) return {};  // the model reports the error
  return {drawn->id, probability(logits, drawn->id, scale_)};
}

}  // namespace chimere::engine
