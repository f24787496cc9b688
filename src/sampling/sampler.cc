#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>

#include "sampling/math.h"
#include "sampling/philox.h"

namespace chimere::sampling {
namespace {

bool has_penalties(const SamplingParams& p) {
  return p.penalty_window != 0 &&
         (p.repeat_penalty != 1 || p.frequency_penalty != 0 || p.presence_penalty != 0);
}

void apply_penalties(std::span<float> logits, std::span<const int32_t> history,
                     const SamplingParams& p) {
  if (p.penalty_window > 0 && history.size() > static_cast<size_t>(p.penalty_window)) {
    history = history.last(static_cast<size_t>(p.penalty_window));
  }
  std::unordered_map<int32_t, int32_t> counts;
  for (const int32_t id : history) {
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) ++counts[id];
  }
  for (const auto& [id, count] : counts) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / p.repeat_penalty : logit * p.repeat_penalty;
    logit -= static_cast<float>(count) * p.frequency_penalty + p.presence_penalty;
  }
}

/// Number of leading candidates (sorted) that top-p and min-p keep, or 0 if more candidates are
/// needed to know. `total`: sum over all tokens that top-p counts, of e^((logit - largest) /
/// temperature).
size_t count_kept(std::span<const Candidate> sorted, double total, bool complete,
                  const SamplingParams& p) {
  const double inverse = 1.0 / p.temperature;
  const double largest = sorted.front().value;
  double reached = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double weight = exp_nonpositive((sorted[i].value - largest) * inverse);
    if (weight < p.min_p) return i;  // never the first: its weight is 1
    reached += weight;
    if (p.top_p < 1 && reached >= p.top_p * total) return i + 1;
  }
  return complete ? sorted.size() : 0;
}

double sum_weights(std::span<const Candidate> sorted, double temperature) {
  const double inverse = 1.0 / temperature;
  const double largest = sorted.front().value;
  double total = 0;
  for (const Candidate& c : sorted) total += exp_nonpositive((c.value - largest) * inverse);
  return total;
}

/// The tokens that top-k, top-p and min-p keep, at least one.
std::vector<Candidate> truncate(std::span<const float> logits, float largest,
                                const SamplingParams& p) {
  if (p.top_k > 0) {
    std::vector<Candidate> sorted = select_largest(logits, p.top_k);
    sorted.resize(count_kept(sorted, sum_weights(sorted, p.temperature), true, p));
    return sorted;
  }
  const double total = p.top_p < 1 ? 1.0 / summarise(logits, largest, p.temperature).p_max : 0;
  // The kept tokens are usually few: select some, and more only while they do not suffice.
  const auto n = static_cast<int64_t>(logits.size());
  for (int64_t k = 128;; k *= 8) {
    std::vector<Candidate> sorted = select_largest(logits, k);
    const size_t kept = count_kept(sorted, total, k >= n, p);
    if (kept > 0) {
      sorted.resize(kept);
      return sorted;
    }
  }
}

/// Gumbel-max over candidates offered in any order.
class Race {
 public:
  Race(const SamplingParams& params, uint64_t position)
      : seed_(params.seed), position_(position), inverse_(1.0 / params.temperature) {}

  void offer(float logit, int32_t id) {
    const double base = logit * inverse_;
    // u has 52 bits: -ln(-ln u) is at most 53 ln 2 < 37, so nobody further behind can win.
    if (base + 37.0 < best_) return;
    const double u = uniform(seed_, position_, static_cast<uint32_t>(id));
    const double score = base - log_positive(-log_positive(u));
    if (score > best_ || (score == best_ && id < winner_)) {
      best_ = score;
      winner_ = id;
    }
  }
  int32_t winner() const { return winner_; }

 private:
  uint64_t seed_;
  uint64_t position_;
  double inverse_;
  double best_ = -std::numeric_limits<double>::infinity();
  int32_t winner_ = -1;
};

int32_t draw(std::span<const float> logits, const Candidate& largest, uint64_t position,
             const SamplingParams& p) {
  Race race(p, position);
  if (p.top_k > 0 || p.top_p < 1 || p.min_p > 0) {
    for (const Candidate& c : truncate(logits, largest.value, p)) race.offer(c.value, c.id);
    return race.winner();
  }
  race.offer(largest.value, largest.id);  // first, so that most of the others are passed over
  for (size_t i = 0; i < logits.size(); ++i) race.offer(logits[i], static_cast<int32_t>(i));
  return race.winner();
}

Error out_of_range(const char* name, const char* range) {
  return invalid_argument(std::string("The sampling value ") + name + " must be " + range + ".");
}

}  // namespace

Status validate(const SamplingParams& p) {
  // False for NaN, which is in no range.
  const auto within = [](float v, float min, float max) { return min <= v && v <= max; };
  if (!within(p.repeat_penalty, 0.01F, 10)) {
    return out_of_range("repeat-penalty", "from 0.01 to 10");
  }
  if (!within(p.frequency_penalty, -10, 10)) {
    return out_of_range("frequency-penalty", "from -10 to 10");
  }
  if (!within(p.presence_penalty, -10, 10)) {
    return out_of_range("presence-penalty", "from -10 to 10");
  }
  if (p.penalty_window < -1) return out_of_range("penalty-window", "-1 (everything), 0 or more");
  // Below 0.001 a division by the temperature only amplifies rounding: that is greedy, so say so.
  if (p.temperature != 0 && !within(p.temperature, 0.001F, 100)) {
    return out_of_range("temp", "0 (greedy) or from 0.001 to 100");
  }
  if (p.top_k < 0) return out_of_range("top-k", "0 (all) or more");
  if (!within(p.top_p, 1e-6F, 1)) return out_of_range("top-p", "from 0.000001 to 1");
  if (!within(p.min_p, 0, 1)) return out_of_range("min-p", "from 0 to 1");
  if (p.logprobs < -1 || p.logprobs > 1000) {
    return out_of_range("logprobs", "-1 (none) or from 0 to 1000");
  }
  return {};
}

Result<Sampled> sample(std::span<const float> logits, std::span<const int32_t> history,
                       uint64_t position, const SamplingParams& params) {
  CHIMERE_TRY(const Candidate raw, find_largest(logits));
  std::span<const float> scores = logits;
  Candidate largest = raw;
  std::vector<float> penalised;
  if (has_penalties(params)) {
    penalised.assign(logits.begin(), logits.end());
    apply_penalties(penalised, history, params);
    scores = penalised;
    CHIMERE_TRY(largest, find_largest(scores));
  }

  Sampled out;
  out.id = params.temperature == 0 ? largest.id : draw(scores, largest, position, params);
  if (params.logprobs >= 0) {
    const Distribution d = summarise(logits, raw.value);
    out.logprob = static_cast<float>(logits[static_cast<size_t>(out.id)] - d.log_sum);
    out.entropy = static_cast<float>(d.entropy);
    out.p_max = static_cast<float>(d.p_max);
    out.top = top_logprobs(logits, d, params.logprobs);
  }
  return out;
}

}  // namespace chimere::sampling
