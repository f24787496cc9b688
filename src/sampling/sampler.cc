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

bool does_something(Stage stage, const SamplingParams& p) {
  switch (stage) {
    case Stage::kPenalties:
      return p.penalty_window != 0 &&
             (p.repeat_penalty != 1 || p.frequency_penalty != 0 || p.presence_penalty != 0);
    case Stage::kDry:
      return p.dry.active();
    case Stage::kTopNSigma:
      return p.top_n_sigma > 0;
    case Stage::kTopK:
      return p.top_k > 0;
    case Stage::kTypical:
      return p.typical < 1;
    case Stage::kTopP:
      return p.top_p < 1;
    case Stage::kMinP:
      return p.min_p > 0;
    case Stage::kXtc:
      return p.xtc_probability > 0 && p.xtc_threshold <= 0.5F;
    case Stage::kTemperature:
      return p.temperature != 1 || p.dynatemp_range > 0;
  }
  return false;
}

/// Stages that change logits of few tokens and cut none.
bool edits(Stage stage) { return stage == Stage::kPenalties || stage == Stage::kDry; }

/// Stages that never cut the most likely token and leave it the most likely one.
bool keeps_first(Stage stage) {
  return stage == Stage::kTopNSigma || stage == Stage::kTopK || stage == Stage::kTopP ||
         stage == Stage::kMinP;
}

/// The order without what has no effect.
std::vector<Stage> effective_order(const SamplingParams& p) {
  std::vector<Stage> order;
  if (p.mirostat == 2) {
    order = {Stage::kPenalties, Stage::kDry, Stage::kTemperature};
  } else {
    order = p.order;
  }
  std::erase_if(order, [&](Stage s) { return !does_something(s, p); });
  // What only cuts tails says nothing before a temperature of 0.
  const auto greedy = std::ranges::find(order, Stage::kTemperature);
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
      mu_(2.0 * static_cast<double>(params_.mirostat_tau)) {}

Status Sampler::apply_bias() {
  std::unordered_map<int32_t, float> sums;  // several for one token add up
  for (const LogitBias& b : params_.logit_bias) sums[b.id] += b.bias;
  std::vector<Edit> edits;
  edits.reserve(sums.size());
  for (const auto& [id, bias] : sums) edits.push_back({id, 1, -bias});
  return candidates_.edit(edits);
}

std::vector<Edit> Sampler::penalty_edits(std::span<const int32_t> history) const {
  const auto window = static_cast<size_t>(params_.penalty_window);
  if (params_.penalty_window > 0 && history.size() > window) history = history.last(window);
  std::unordered_map<int32_t, int32_t> counts;
  for (const int32_t id : history) ++counts[id];
  std::vector<Edit> edits;
  edits.reserve(counts.size());
  for (const auto& [id, count] : counts) {
    edits.push_back(
        {id, params_.repeat_penalty,
         static_cast<float>(count) * params_.frequency_penalty + params_.presence_penalty});
  }
  return edits;
}

void Sampler::apply_temperature() {
  double temperature = params_.temperature;
  if (params_.dynatemp_range > 0 && candidates_.count() > 1) {
    const double low = std::max(0.0, temperature - params_.dynatemp_range);
    const double high = temperature + params_.dynatemp_range;
    const double most = log_positive(static_cast<double>(candidates_.count()));
    const double share = std::min(1.0, candidates_.distribution().entropy / most);
    // share^exponent, without the C library's pow(), whose bits depend on the machine.
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
  // p >= threshold in terms of the logit; with a threshold of 0 every token is likely enough.
  const double floor = params_.xtc_threshold > 0
                           ? candidates_.distribution().log_sum +
                                 log_positive(static_cast<double>(params_.xtc_threshold))
                           : -std::numeric_limits<double>::max();
  candidates_.drop_before_last_at_least(floor);
}

Status Sampler::apply(Stage stage, std::span<const int32_t> history, uint64_t position) {
  const double top = candidates_.largest().value * candidates_.scale();
  switch (stage) {
    case Stage::kPenalties:
      return candidates_.edit(penalty_edits(history));
    case Stage::kDry:
      return candidates_.edit(dry_edits(history, params_.dry));
    case Stage::kTopNSigma:
      candidates_.keep_at_least(top - params_.top_n_sigma * candidates_.deviation() *
                                          candidates_.scale());
      break;
    case Stage::kTopK:
      candidates_.keep_largest(params_.top_k);
      break;
    case Stage::kTypical:
      candidates_.keep_typical(params_.typical);
      break;
    case Stage::kTopP:
      candidates_.keep_top_p(params_.top_p);
      break;
    case Stage::kMinP:
      candidates_.keep_at_least(top + log_positive(static_cast<double>(params_.min_p)));
      break;
    case Stage::kXtc:
      apply_xtc(position);
      break;
    case Stage::kTemperature:
      apply_temperature();
      break;
  }
  return {};
}

int32_t Sampler::draw_mirostat(uint64_t position) {
  constexpr double kLn2 = std::numbers::ln2;
  candidates_.keep_at_least(candidates_.distribution().log_sum - mu_ * kLn2);
  const Candidate chosen = candidates_.draw(params_.seed, position);
  const double surprise =
      (candidates_.distribution().log_sum - candidates_.scale() * chosen.value) / kLn2;
  mu_ -= params_.mirostat_eta * (surprise - params_.mirostat_tau);
  return chosen.id;
}

Result<Sampled> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history,
                                uint64_t position) {
  CHIMERE_CHECK_OK(candidates_.assign(logits));
  if (params_.prior) {
    CHIMERE_CHECK_OK(params_.prior->mix({logits, candidates_.largest()}, history, mixture_));
    if (!mixture_.shares.empty()) {
      const Candidate largest = mix_logits(logits, candidates_.largest(), mixture_, mixed_);
      logits = mixed_;
      candidates_.replace(logits, largest);
    }
  }
  if (!params_.logit_bias.empty()) CHIMERE_CHECK_OK(apply_bias());
  for (const Stage stage : order_) CHIMERE_CHECK_OK(apply(stage, history, position));

  Sampled out;
  out.id =
      params_.mirostat == 2 ? draw_mirostat(position) : candidates_.draw(params_.seed, position).id;
  if (params_.logprobs >= 0) {
    const Distribution d = distribution_of(exp_sums(logits));
    out.logprob = static_cast<float>(logits[static_cast<size_t>(out.id)] - d.log_sum);
    out.entropy = static_cast<float>(d.entropy);
    out.p_max = static_cast<float>(d.p_max);
    out.top = top_logprobs(logits, d, params_.logprobs);
  }
  return out;
}

Needed Sampler::needed(int32_t most) const {
  const SamplingParams& p = params_;
  if (p.mirostat == 2 || p.logprobs > most || (p.prior && p.logprobs >= 0)) return {};
  const auto enough = [&](int32_t n) -> Needed {
    return n <= most ? Needed{std::max(n, p.logprobs), p.logprobs >= 0 || p.prior} : Needed{};
  };
  const auto few = static_cast<int32_t>(std::min<int64_t>(most, Candidates::kFew));
  bool changed = p.prior || !p.logit_bias.empty();  // what the sums are of
  for (const Stage stage : order_) {
    changed = changed || edits(stage) || stage == Stage::kTemperature;
    if (edits(stage)) continue;
    if (stage == Stage::kTopK) return enough(p.top_k);
    if (stage == Stage::kMinP) return enough(few);
    if (stage == Stage::kTopP && !changed) {
      return {few, true};
    }
    if (stage != Stage::kTemperature || p.dynatemp_range > 0) return {};
    if (p.temperature == 0) return enough(1);
  }
  return {};
}

std::optional<kernels::TokenChoice> Sampler::choice_on_card(uint64_t position) const {
  using kernels::ChoiceStage;
  if (params_.mirostat == 2 || params_.prior || !params_.logit_bias.empty()) return {};
  kernels::TokenChoice choice;
  choice.seed = params_.seed;
  choice.position = position;
  bool cut = false;
  const auto add = [&](ChoiceStage::Kind kind, double value) {
    if (choice.n_stages == kernels::TokenChoice::kMostStages) return false;
    choice.stages[static_cast<size_t>(choice.n_stages++)] = {kind, 0, value};
    cut |= kind == ChoiceStage::kTopK;
    return cut || kind == ChoiceStage::kScale;
  };
  for (const Stage stage : order_) {
    bool known = false;
    if (stage == Stage::kTopK) {
      known = add(ChoiceStage::kTopK, params_.top_k);
    } else if (stage == Stage::kTopP) {
      known = add(ChoiceStage::kTopP, static_cast<double>(params_.top_p));
    } else if (stage == Stage::kMinP) {
      known = add(ChoiceStage::kMinP, log_positive(static_cast<double>(params_.min_p)));
    } else if (stage == Stage::kTemperature && params_.dynatemp_range <= 0) {
      known = params_.temperature > 0
                  ? add(ChoiceStage::kScale, 1.0 / static_cast<double>(params_.temperature))
                  : add(ChoiceStage::kTopK, 1);
    }
    if (!known) return {};
  }
  if (!cut) return {};
  return choice;
}

Status Sampler::list(std::span<const int32_t> history, int64_t vocabulary,
                     std::vector<int32_t>& out) const {
  out.clear();
  if (params_.prior) CHIMERE_CHECK_OK(params_.prior->tokens(history, out));
  for (const LogitBias& b : params_.logit_bias) out.push_back(b.id);
  const auto add = [&](const std::vector<Edit>& edited) {
    for (const Edit& e : edited) out.push_back(e.id);
  };
  for (const Stage stage : order_) {
    if (stage == Stage::kPenalties) add(penalty_edits(history));
    if (stage == Stage::kDry) add(dry_edits(history, params_.dry));
    if (!edits(stage) && (stage != Stage::kTemperature || params_.temperature == 0)) break;
  }
  std::erase_if(out, [&](int32_t id) { return id >= vocabulary; });
  std::ranges::sort(out);
  const auto again = std::ranges::unique(out);
  out.erase(again.begin(), again.end());
  return {};
}

Status Sampler::mix_known(const Excerpt& excerpt, std::span<const int32_t> history) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  CHIMERE_TRY(const Candidate largest, find_largest({&known_.front().value, 1}));
  // By id, as the source sees it: masked again where it is not in use.
  for (const Candidate& c : excerpt.listed) {
    const auto place = static_cast<size_t>(c.id);
    if (place >= by_id_.size()) by_id_.resize(place + 1, kMasked);
    by_id_[place] = c.value;
  }
  const Status status = params_.prior->mix(
      {by_id_, {largest.value, known_.front().id}, excerpt.sums}, history, mixture_);
  for (const Candidate& c : excerpt.listed) by_id_[static_cast<size_t>(c.id)] = kMasked;
  CHIMERE_CHECK_OK(status);
  if (!mixture_.shares.empty()) mix_logits(known_, mixture_);
  return {};
}

Result<std::optional<Sampled>> Sampler::sample(const Excerpt& excerpt,
                                               std::span<const int32_t> history,
                                               uint64_t position) {
  merge(excerpt, known_);
  if (params_.prior) CHIMERE_CHECK_OK(mix_known(excerpt, history));
  Candidates::Rest rest;
  if (!excerpt.largest.empty()) rest.largest = excerpt.largest.back().value;
  rest.sums = excerpt.sums;
  CHIMERE_CHECK_OK(candidates_.assign_known(known_, rest));
  if (!params_.logit_bias.empty()) CHIMERE_CHECK_OK(apply_bias());
  for (const Stage stage : order_) {
    CHIMERE_CHECK_OK(apply(stage, history, position));
    if (candidates_.undecided()) return std::optional<Sampled>();
  }
  Sampled out;
  out.id = candidates_.draw(params_.seed, position).id;
  if (params_.logprobs < 0) return std::optional(std::move(out));
  const Distribution d = distribution_of(*excerpt.sums);
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
