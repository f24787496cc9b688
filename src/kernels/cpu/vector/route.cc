#include "kernels/cpu/vector/functions.h"
#include "kernels/routing.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// scores [n] = softmax of x over all experts.
void softmax(const float* x, int n, float* scores) {
  float most = x[0];
  for (int e = 0; e < n; ++e) most = x[e] > most ? x[e] : most;
  F32x16 sums = F32x16::set(0);
  int e = 0;
  for (; e + kLanes <= n; e += kLanes) {
    const F32x16 p = exp_lanes(F32x16::load(x + e) - F32x16::set(most));
    sums = sums + p;
    p.store(scores + e);
  }
  float tail[kLanes] = {};
  for (int i = e; i < n; ++i) tail[i - e] = scores[i] = exp_f32(x[i] - most);
  const F32x16 sum = F32x16::set(tree_sum(sums + F32x16::load(tail)));
  for (e = 0; e + kLanes <= n; e += kLanes) (F32x16::load(scores + e) / sum).store(scores + e);
  float divisor[kLanes];
  sum.store(divisor);
  for (; e < n; ++e) scores[e] = scores[e] / divisor[0];
}

void score(const RouteUnit& u, float* scores) {
  if (u.softmax) return softmax(u.logits, u.n_experts, scores);
  for (int e = 0; e < u.n_experts; ++e) {
    scores[e] = u.sigmoid ? sigmoid(u.logits[e]) : u.logits[e];
  }
}

/// Inserts candidate `id` into the sorted list of the best `limit` so far, of which there are
/// `count`; returns the new count. Most candidates fail the first comparison. Equal values are
/// inserted after, so that ties go to the lower id.
CHIMERE_INLINE int insert(const float* values, int32_t id, int limit, int count, int32_t* ids) {
  const float x = values[id];
  if (count == limit && !(x > values[ids[count - 1]])) return count;
  int rank = count < limit ? count++ : count - 1;
  for (; rank > 0 && x > values[ids[rank - 1]]; --rank) ids[rank] = ids[rank - 1];
  ids[rank] = id;
  return count;
}

/// The groups that experts are selected from, as a set of bits.
uint32_t used_groups(const RouteUnit& u, const float* choice) {
  const int size = u.n_experts / u.n_groups;
  float sums[kMaxRouteGroups];
  int32_t groups[kMaxRouteGroups] = {};
  int count = 0;
  for (int32_t g = 0; g < u.n_groups; ++g) {
    const float* members = choice + static_cast<int64_t>(g) * size;
    int32_t two[2] = {};
    int n = 0;
    for (int32_t e = 0; e < size; ++e) n = insert(members, e, 2, n, two);
    sums[g] = n == 1 ? members[two[0]] : members[two[0]] + members[two[1]];
    count = insert(sums, g, u.n_groups_used, count, groups);
  }
  uint32_t used = 0;
  for (int i = 0; i < count; ++i) used |= 1U << static_cast<uint32_t>(groups[i]);
  return used;
}

void weigh(const RouteUnit& u, const float* scores) {
  float most = u.logits[u.ids[0]];
  for (int rank = 1; rank < u.n_used; ++rank) {
    const float x = u.logits[u.ids[rank]];
    most = x > most ? x : most;
  }
  float sum = 0;
  for (int rank = 0; rank < u.n_used; ++rank) {
    const int32_t id = u.ids[rank];
    u.weights[rank] = u.weighs_by_logits ? exp_f32(u.logits[id] - most) : scores[id];
    sum += u.weights[rank];
  }
  if (!u.weighs_by_logits) {
    sum = !u.normalise ? 1 : sum < kMinWeightSum ? kMinWeightSum : sum;
  }
  for (int rank = 0; rank < u.n_used; ++rank) u.weights[rank] = u.weights[rank] / sum * u.scale;
}

}  // namespace

void route(const RouteUnit& u) {
  float* const scores = u.scratch;
  if (!u.selects_by_logits || !u.weighs_by_logits) score(u, scores);
  const float* choice = u.selects_by_logits ? u.logits : scores;
  if (u.bias != nullptr) {
    float* const biased = u.scratch + u.n_experts;
    for (int e = 0; e < u.n_experts; ++e) biased[e] = scores[e] + u.bias[e];
    choice = biased;
  }
  const uint32_t used = u.n_groups > 0 ? used_groups(u, choice) : 1;
  const int size = u.n_groups > 0 ? u.n_experts / u.n_groups : u.n_experts;
  int count = 0;
  for (int32_t g = 0; g * size < u.n_experts; ++g) {
    if ((used >> static_cast<uint32_t>(g) & 1U) == 0) continue;
    for (int32_t e = g * size; e < (g + 1) * size; ++e) {
      count = insert(choice, e, u.n_used, count, u.ids);
    }
  }
  weigh(u, scores);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
