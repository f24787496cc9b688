#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <unordered_map>
#include <utility>

#include "kernels/philox.h"
#include "sampling/math.h"

namespace chimere::sampling {
namespace {

bool has_effect(SamplerType sampler, const SamplingParams& p) {
  switch (sampler) {
    case SamplerType::kPenalties:
      return p.penalty_window != 0 &&
             (p.repeat_penalty != 1 || p.frequency_penalty != 0 || p.presence_penalty != 0);
    case SamplerType::kDry:
      return p.dry.active();
    case SamplerType::kTopNSigma:
      return p.top_n_sigma > 0;
    case SamplerType::kTopK:
      return p.top_k > 0;
    case SamplerType::kTypical:
      return p.typical < 1;
    case SamplerType::kTopP:
      return p.top_p < 1;
    case SamplerType::kMinP:
      return p.min_p > 0;
    case SamplerType::kXtc:
      return p.xtc_probability > 0 && p.xtc_threshold <= 0.5F;
    case SamplerType::kTemperature:
      return p.temperature != 1 || p.dynatemp_range > 0;
  }
  return false;
}

/// Samplers that change the logits of few tokens and remove none.
bool is_adjustment(SamplerType sampler) {
  return sampler == SamplerType::kPenalties || sampler == SamplerType::kDry;
}

/// Samplers that never remove the most likely token nor change which one it is.
bool keeps_first(SamplerType sampler) {
  return sampler == SamplerType::kTopNSigma || sampler == SamplerType::kTopK ||
         sampler == SamplerType::kTopP || sampler == SamplerType::kMinP;
}

std::vector<LogitAdjustment> sum_biases(std::span<const LogitBias> biases) {
  std::unordered_map<int32_t, float> sums;  // biases of the same token add up
  for (const LogitBias& b : biases) sums[b.id] += b.bias;
  std::vector<LogitAdjustment> adjustments;
  adjustments.reserve(sums.size());
  for (const auto& [id, bias] : sums) adjustments.push_back({id, 1, -bias});
  return adjustments;
}

/// The sampler order without samplers that have no effect.
std::vector<SamplerType> effective_order(const SamplingParams& p) {
  std::vector<SamplerType> order;
  if (p.mirostat == 2) {
    order = {SamplerType::kPenalties, SamplerType::kDry, SamplerType::kTemperature};
  } else {
    order = p.order;
  }
  std::erase_if(order, [&](SamplerType s) { return !has_effect(s, p); });
  // Samplers that only remove unlikely tokens have no effect before a temperature of 0.
  const auto greedy = std::ranges::find(order, SamplerType::kTemperature);
  if (p.temperature == 0 && p.dynatemp_range == 0 && greedy != order.end()) {
    auto first = greedy;
    while (first != order.begin() && keeps_first(*std::prev(first))) --first;
    order.erase(first, greedy);
  }
  return order;
}

}  // namespace

Sampler::Sampler(SamplingParams params)
    : params_(std::move(params)),
      order_(effective_order(params_)),
      bias_(sum_biases(params_.logit_bias)),
      mu_(2.0 * static_cast<double>(params_.mirostat_tau)) {}

std::span<const LogitAdjustment> Sampler::penalty_adjustments(std::span<const int32_t> history) {
  const auto window = static_cast<size_t>(params_.penalty_window);
  if (params_.penalty_window > 0 && history.size() > window) history = history.last(window);
  penalties_.clear();
  for (const auto& [id, count] : counts_.count(history)) {
    penalties_.push_back(
        {id, params_.repeat_penalty,
         static_cast<float>(count) * params_.frequency_penalty + params_.presence_penalty});
  }
  return penalties_;
}

void Sampler::apply_temperature() {
  double temperature = params_.temperature;
  if (params_.dynatemp_range > 0 && candidates_.count() > 1) {
    const double low = std::max(0.0, temperature - params_.dynatemp_range);
    const double high = temperature + params_.dynatemp_range;
    const double most = log_positive(static_cast<double>(candidates_.count()));
    const double share = std::min(1.0, candidates_.distribution().entropy / most);
    // share^exponent without the C library's pow(), whose bits depend on the machine.
    const double power = share > 0
                             ? exp_nonpositive(params_.dynatemp_exponent * log_positive(share))
                             : static_cast<double>(params_.dynatemp_exponent == 0);
    temperature = low + (high - low) * power;
  }
  if (temperature > 0) {
    candidates_.scale(1.0 / temperature);
  } else {
    candidates_.keep_largest(1);
  }
}

void Sampler::apply_xtc(uint64_t position) {
  if (kernels::uniform(params_.seed, position, 0, kernels::RandomStream::kXtc) >
      params_.xtc_probability)
    return;
  // p >= threshold as a floor of the logit; a threshold of 0 accepts every token.
  const double floor = params_.xtc_threshold > 0
                           ? candidates_.distribution().log_sum +
                                 log_positive(static_cast<double>(params_.xtc_threshold))
                           : -std::numeric_limits<double>::max();
  candidates_.drop_before_last_at_least(floor);
}

Status Sampler::apply(SamplerType sampler, std::span<const int32_t> history, uint64_t position) {
  const double top = candidates_.largest().value * candidates_.scale();
  switch (sampler) {
    case SamplerType::kPenalties:
      return candidates_.adjust(penalty_adjustments(history));
    case SamplerType::kDry:
      return candidates_.adjust(dry_adjustments(history, params_.dry));
    case SamplerType::kTopNSigma:
      candidates_.keep_at_least(top - params_.top_n_sigma * candidates_.deviation() *
                                          candidates_.scale());
      break;
    case SamplerType::kTopK:
      candidates_.keep_largest(params_.top_k);
      break;
    case SamplerType::kTypical:
      candidates_.keep_typical(params_.typical);
      break;
    case SamplerType::kTopP:
      candidates_.keep_top_p(params_.top_p);
      break;
    case SamplerType::kMinP:
      candidates_.keep_at_least(top + log_positive(static_cast<double>(params_.min_p)));
      break;
    case SamplerType::kXtc:
      apply_xtc(position);
      break;
    case SamplerType::kTemperature:
      apply_temperature();
      break;
  }
  return {};
}

int32_t Sampler::draw_mirostat(uint64_t position) {
  constexpr double kLn2 = std::numbers::ln2;
  candidates_.keep_at_least(candidates_.distribution().log_sum - mu_ * kLn2);
  const Candidate chosen = candidates_.draw(params_.seed, position);
  const double negative_log_likelihood =
      (candidates_.distribution().log_sum - candidates_.scale() * chosen.value) / kLn2;
  mu_ -= params_.mirostat_eta * (negative_log_likelihood - params_.mirostat_tau);
  return chosen.id;
}

Result<Sampled> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history,
                                uint64_t position, kernels::TokenMask allowed) {
  if (params_.auxiliary || allowed.empty()) {
    CHIMERE_CHECK_OK(candidates_.assign(logits));
  } else {
    CHIMERE_CHECK_OK(candidates_.assign(logits, allowed));
  }
  if (params_.auxiliary) {
    CHIMERE_CHECK_OK(params_.auxiliary->mix({logits, candidates_.largest()}, history, mixture_));
    if (!mixture_.shares.empty()) {
      const Candidate largest = mix_logits(logits, candidates_.largest(), mixture_, mixed_);
      logits = mixed_;
      candidates_.replace(logits, largest);
    }
    if (!allowed.empty()) CHIMERE_CHECK_OK(candidates_.keep_set(allowed));
  }
  CHIMERE_CHECK_OK(candidates_.adjust(bias_));
  for (const SamplerType sampler : order_) CHIMERE_CHECK_OK(apply(sampler, history, position));

  Sampled out;
  out.id =
      params_.mirostat == 2 ? draw_mirostat(position) : candidates_.draw(params_.seed, position).id;
  if (params_.logprobs >= 0) {
    const Distribution d = distribution_of(log_sum_exp(logits));
    out.logprob = static_cast<float>(logits[static_cast<size_t>(out.id)] - d.log_sum);
    out.entropy = static_cast<float>(d.entropy);
    out.p_max = static_cast<float>(d.p_max);
    out.top = top_logprobs(logits, d, params_.logprobs);
  }
  return out;
}

Needed Sampler::needed(int32_t most, bool restricted) const {
  const SamplingParams& p = params_;
  if (p.mirostat == 2 || p.logprobs > most || (p.auxiliary && p.logprobs >= 0)) return {};
  // The most likely tokens of the whole row may lie outside the restriction.
  if (restricted && (p.auxiliary || p.logprobs > 0)) return {};
  const auto enough = [&](int32_t n) -> Needed {
    return n <= most ? Needed{std::max(n, p.logprobs), p.logprobs >= 0 || p.auxiliary} : Needed{};
  };
  const auto few = static_cast<int32_t>(std::min<int64_t>(most, Candidates::kFew));
  bool scaled = false;  // the sums describe logits of scale 1
  for (const SamplerType sampler : order_) {
    scaled |= sampler == SamplerType::kTemperature;
    if (is_adjustment(sampler)) continue;
    if (sampler == SamplerType::kTopK) return enough(p.top_k);
    if (sampler == SamplerType::kMinP) return enough(few);
    if (sampler == SamplerType::kTopP && !scaled) return {few, true};
    if (sampler != SamplerType::kTemperature || p.dynatemp_range > 0) return {};
    if (p.temperature == 0) return enough(1);
  }
  return {};
}

std::optional<kernels::TokenChoice> Sampler::choice_on_gpu(uint64_t position) const {
  using kernels::ChoiceSampler;
  if (params_.mirostat == 2 || params_.auxiliary || !params_.logit_bias.empty()) return {};
  kernels::TokenChoice choice;
  choice.seed = params_.seed;
  choice.position = position;
  bool cut = false;
  const auto add = [&](ChoiceSampler::Kind kind, double value) {
    if (choice.n_samplers == kernels::TokenChoice::kMaxSamplers) return false;
    choice.samplers[static_cast<size_t>(choice.n_samplers++)] = {kind, 0, value};
    cut |= kind == ChoiceSampler::kTopK;
    return cut || kind == ChoiceSampler::kScale;
  };
  for (const SamplerType sampler : order_) {
    bool known = false;
    if (sampler == SamplerType::kTopK) {
      known = add(ChoiceSampler::kTopK, params_.top_k);
    } else if (sampler == SamplerType::kTopP) {
      known = add(ChoiceSampler::kTopP, static_cast<double>(params_.top_p));
    } else if (sampler == SamplerType::kMinP) {
      known = add(ChoiceSampler::kMinP, log_positive(static_cast<double>(params_.min_p)));
    } else if (sampler == SamplerType::kTemperature && params_.dynatemp_range <= 0) {
      known = params_.temperature > 0
                  ? add(ChoiceSampler::kScale, 1.0 / static_cast<double>(params_.temperature))
                  : add(ChoiceSampler::kTopK, 1);
    }
    if (!known) return {};
  }
  if (!cut) return {};
  return choice;
}

Status Sampler::selected_ids(std::span<const int32_t> history, int64_t vocabulary,
                             std::vector<int32_t>& out) {
  out.clear();
  if (params_.auxiliary) CHIMERE_CHECK_OK(params_.auxiliary->tokens(history, out));
  for (const LogitBias& b : params_.logit_bias) out.push_back(b.id);
  const auto add = [&](std::span<const LogitAdjustment> adjusted) {
    for (const LogitAdjustment& e : adjusted) out.push_back(e.id);
  };
  for (const SamplerType sampler : order_) {
    if (sampler == SamplerType::kPenalties) add(penalty_adjustments(history));
    if (sampler == SamplerType::kDry) add(dry_adjustments(history, params_.dry));
    if (!is_adjustment(sampler) &&
        (sampler != SamplerType::kTemperature || params_.temperature == 0))
      break;
  }
  std::erase_if(out, [&](int32_t id) { return id >= vocabulary; });
  std::ranges::sort(out);
  const auto again = std::ranges::unique(out);
  out.erase(again.begin(), again.end());
  return {};
}

Status Sampler::mix_known(const PartialLogits& partial_logits, std::span<const int32_t> history,
                          Candidates::Rest& rest) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  CHIMERE_TRY(const Candidate largest, find_largest({&known_.front().value, 1}));
  // Logits by id, as the auxiliary model expects them; entries are masked again after use.
  for (const Candidate& c : partial_logits.selected) {
    const auto place = static_cast<size_t>(c.id);
    if (place >= by_id_.size()) by_id_.resize(place + 1, kMasked);
    by_id_[place] = c.value;
  }
  const Status status = params_.auxiliary->mix(
      {by_id_, {largest.value, known_.front().id}, partial_logits.sums}, history, mixture_);
  for (const Candidate& c : partial_logits.selected) by_id_[static_cast<size_t>(c.id)] = kMasked;
  CHIMERE_CHECK_OK(status);
  if (mixture_.shares.empty()) return {};
  mix_logits(known_, mixture_);
  for (const TokenMass& s : mixture_.shares) {
    const auto before = std::ranges::find(partial_logits.selected, s.id, &Candidate::id);
    const auto after = std::ranges::find(known_, s.id, &Candidate::id);
    if (before != partial_logits.selected.end() && after != known_.end()) {
      rest.change(before->value, after->value);
    }
  }
  return {};
}

Result<std::optional<Sampled>> Sampler::sample(const PartialLogits& partial_logits,
                                               std::span<const int32_t> history, uint64_t position,
                                               kernels::TokenMask allowed) {
  merge(partial_logits, known_);
  Candidates::Rest rest;
  if (!partial_logits.largest.empty()) rest.largest = partial_logits.largest.back().value;
  if (allowed.empty()) rest.sums = partial_logits.sums;  // those of all tokens
  if (params_.auxiliary) CHIMERE_CHECK_OK(mix_known(partial_logits, history, rest));
  CHIMERE_CHECK_OK(candidates_.assign_known(known_, rest));
  if (!allowed.empty()) CHIMERE_CHECK_OK(candidates_.keep_set(allowed));
  CHIMERE_CHECK_OK(candidates_.adjust(bias_));
  for (const SamplerType sampler : order_) {
    CHIMERE_CHECK_OK(apply(sampler, history, position));
    if (candidates_.undecided()) return std::optional<Sampled>();
  }
  Sampled out;
  out.id = candidates_.draw(params_.seed, position).id;
  if (params_.logprobs < 0) return std::optional(std::move(out));
  const Distribution d = distribution_of(*partial_logits.sums);
  const auto raw = std::ranges::find(known_, out.id, &Candidate::id);
  out.logprob = static_cast<float>(raw->value - d.log_sum);
  out.entropy = static_cast<float>(d.entropy);
  out.p_max = static_cast<float>(d.p_max);
  const auto n = std::min(known_.size(), static_cast<size_t>(params_.logprobs));
  out.top.assign(known_.begin(), known_.begin() + static_cast<std::ptrdiff_t>(n));
  to_logprobs(out.top, d);
  return std::optional(std::move(out));
}

}  // namespace chimere::sampling
