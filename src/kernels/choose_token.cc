#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "kernels/api.h"
#include "kernels/token_choice.h"

namespace chimere::kernels {
namespace {

/// Number of the most likely tokens whose probabilities sum to `share`.
size_t reaching(std::span<const TopLogit> left, double share, double scale) {
  std::vector<double> weights;
  double total = 0;
  for (const TopLogit& t : left) {
    weights.push_back(choice_weight(t.value, left.front().value, scale));
    total += weights.back();
  }
  double reached = 0;
  for (size_t i = 0; i + 1 < left.size(); ++i) {
    reached += weights[i];
    if (reached >= share * total) return i + 1;
  }
  return left.size();
}

}  // namespace

int32_t choose_token(std::span<const TopLogit> largest, const TokenChoice& choice) {
  const auto none = std::ranges::find_if(largest, [](const TopLogit& t) { return t.id < 0; });
  std::span<const TopLogit> left = {largest.begin(), none};
  if (left.empty()) return -1;
  double scale = 1;
  const auto scaled = [&](const TopLogit& t) { return static_cast<double>(t.value) * scale; };
  for (int32_t s = 0; s < choice.n_samplers; ++s) {
    const ChoiceSampler& sampler = choice.samplers[static_cast<size_t>(s)];
    switch (sampler.kind) {
      case ChoiceSampler::kTopK:
        left = left.first(std::min(left.size(), static_cast<size_t>(sampler.value)));
        break;
      case ChoiceSampler::kTopP:
        left = left.first(reaching(left, sampler.value, scale));
        break;
      case ChoiceSampler::kMinP: {
        const double floor = std::min(scaled(left.front()), scaled(left.front()) + sampler.value);
        const auto below =
            std::ranges::find_if(left, [&](const TopLogit& t) { return !(scaled(t) >= floor); });
        left = {left.begin(), below};
        break;
      }
      case ChoiceSampler::kScale:
        scale *= sampler.value;
        break;
    }
  }
  int32_t winner = -1;
  double best = -std::numeric_limits<double>::max();
  for (const TopLogit& t : left) {
    const double score = gumbel_score(scaled(t), choice.seed, choice.position, t.id);
    if (score > best || (score == best && t.id < winner)) {
      best = score;
      winner = t.id;
    }
  }
  return winner;
}

}  // namespace chimere::kernels
