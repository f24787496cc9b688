#include <algorithm>
#include <vector>

#include "kernels/math.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::ref {
namespace {

/// softmax(x) over all elements.
std::vector<float> softmax(const float* x, int64_t n) {
  float most = x[0];
  for (int64_t e = 0; e < n; ++e) most = x[e] > most ? x[e] : most;
  std::vector<float> p(n);
  float sums[16] = {};
  for (int64_t e = 0; e < n; ++e) {
    p[e] = exp_f32(x[e] - most);
    sums[e % 16] += p[e];
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  for (float& v : p) v /= sums[0];
  return p;
}

std::vector<float> scores_of(const float* x, int64_t n, RouterScore score) {
  if (score == RouterScore::kSoftmax) return softmax(x, n);
  std::vector<float> scores(x, x + n);
  if (score == RouterScore::kSigmoid) std::ranges::transform(scores, scores.begin(), sigmoid);
  return scores;
}

/// The index of the largest value that is not taken, the first of them if there are several.
int32_t largest(const std::vector<float>& values, const std::vector<bool>& taken) {
  int32_t best = -1;
  for (int32_t i = 0; i < static_cast<int32_t>(values.size()); ++i) {
    if (!taken[i] && (best < 0 || values[i] > values[best])) best = i;
  }
  return best;
}

/// Whether each expert is in a group that is not used.
std::vector<bool> excluded(const std::vector<float>& choice, const RoutingSpec& spec) {
  std::vector<bool> out(choice.size());
  if (!spec.has_groups()) return out;
  const int64_t size = static_cast<int64_t>(choice.size()) / spec.n_groups;
  std::vector<float> of_group;
  for (int g = 0; g < spec.n_groups; ++g) {
    const std::vector<float> members(choice.begin() + g * size, choice.begin() + (g + 1) * size);
    std::vector<bool> taken(members.size());
    const int32_t first = largest(members, taken);
    taken[first] = true;
    const int32_t second = largest(members, taken);
    of_group.push_back(second < 0 ? members[first] : members[first] + members[second]);
  }
  std::vector<bool> used(of_group.size());
  for (int i = 0; i < spec.n_groups_used; ++i) used[largest(of_group, used)] = true;
  for (size_t e = 0; e < out.size(); ++e) out[e] = !used[e / size];
  return out;
}

/// The weights of the experts `ids` in rank order.
void weigh(const float* x, const std::vector<float>& scores, const RoutingSpec& spec,
           std::span<const int32_t> ids, float* weights) {
  float most = x[ids[0]];
  for (const int32_t id : ids) most = x[id] > most ? x[id] : most;
  const bool relative = spec.weighs_by_logits();
  float sum = 0;
  for (size_t rank = 0; rank < ids.size(); ++rank) {
    weights[rank] = relative ? exp_f32(x[ids[rank]] - most) : scores[ids[rank]];
    sum += weights[rank];
  }
  if (!relative) sum = spec.normalise ? std::max(sum, kMinWeightSum) : 1.0F;
  for (size_t rank = 0; rank < ids.size(); ++rank) weights[rank] = weights[rank] / sum * spec.scale;
}

}  // namespace

void route(ConstMatrixView logits, const RoutingSpec& spec, Routing routing) {
  const int64_t n = logits.cols;
  for (int64_t r = 0; r < logits.rows; ++r) {
    const float* x = logits.row(r);
    const std::vector<float> scores = scores_of(x, n, spec.score);
    std::vector<float> choice = scores;
    if (spec.selects_by_logits()) choice.assign(x, x + n);
    for (int64_t e = 0; e < n && spec.bias != nullptr; ++e) choice[e] += spec.bias[e];
    std::vector<bool> taken = excluded(choice, spec);
    int32_t* ids = routing.ids + r * routing.n_used;
    for (int rank = 0; rank < routing.n_used; ++rank) {
      ids[rank] = largest(choice, taken);
      taken[ids[rank]] = true;
    }
    weigh(x, scores, spec, {ids, static_cast<size_t>(routing.n_used)},
          routing.weights + r * routing.n_used);
  }
}

}  // namespace chimere::kernels::ref
