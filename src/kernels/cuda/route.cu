// Ops::route, one warp per row. A launch of few blocks is limited by instruction fetches, because
// the kernels of a layer evict each other's code from the caches; its blocks warm the instruction
// cache before the previous kernel has ended.
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rows_args.h"
#include "kernels/math.h"
#include "kernels/routing.h"

namespace chimere::kernels::cuda {
namespace {

/// A key that is larger for the larger number and equal for both zeros; never 0, which means
/// "taken". NaNs have some fixed order.
__device__ __forceinline__ uint32_t rising(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0F);
  const uint32_t key = (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
  return max(key, 1U);
}

/// The number with this key, except for the sign of zero.
__device__ __forceinline__ float number_of(uint32_t key) {
  return __uint_as_float((key >> 31U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

/// The largest key of a warp, its owner being the lowest expert with that key.
struct Largest {
  uint32_t key;
  uint32_t expert;  ///< in the owner's lane
  bool mine;        ///< whether this lane is the owner
};

/// Takes the largest key, which becomes 0. keys[j] is that of expert lane + 32 j.
template <int kOwn>
__device__ __forceinline__ Largest take_largest(uint32_t (&keys)[kOwn], int lane) {
  uint32_t best[kOwn];  // reduced as a tree: best[0] ends as the lane's largest key
#pragma unroll
  for (int j = 0; j < kOwn; ++j) best[j] = keys[j];
#pragma unroll
  for (int h = kOwn / 2; h > 0; h /= 2) {
#pragma unroll
    for (int j = 0; j < h; ++j) best[j] = max(best[j], best[j + h]);
  }
  const uint32_t top = __reduce_max_sync(kFullWarp, best[0]);
  uint32_t own = kOwn;  // the first of the lane's experts with that key
#pragma unroll
  for (int j = kOwn - 1; j >= 0; --j) own = keys[j] == top ? static_cast<uint32_t>(j) : own;
  bool wins = own < kOwn;
  const auto expert = static_cast<uint32_t>(lane) + own * kWarp;
  if (__popc(__ballot_sync(kFullWarp, wins)) > 1) {
    wins = expert == __reduce_min_sync(kFullWarp, wins ? expert : ~0U);
  }
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    if (wins && static_cast<uint32_t>(j) == own) keys[j] = 0;
  }
  return {top, expert, wins};
}

/// Routes a row by one warp whose logits select and weigh. Lane l has the experts l, l + 32, ...;
/// kOwn: at least their number. Or warms the instruction cache, without logits and without effect.
template <int kOwn>
__device__ __forceinline__ void route_row(const RouteArgs& args, const float* x, int lane,
                                          int32_t* ids, float* weights, bool warm_icache) {
  uint32_t keys[kOwn];
  float logits[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int expert = lane + j * kWarp;
    logits[j] = expert < args.n_experts && !warm_icache ? x[expert] : 0;
  }
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    keys[j] = lane + j * kWarp < args.n_experts ? rising(logits[j]) : 0;
  }
  float largest = 0;
  float chosen = 0;  // in lane r: the logit of rank r
#pragma unroll 1
  for (int rank = 0; rank < (warm_icache ? 1 : args.n_used); ++rank) {
    const Largest best = take_largest(keys, lane);
    if (best.mine && !warm_icache) ids[rank] = static_cast<int32_t>(best.expert);
    if (rank == 0) largest = number_of(best.key);
    if (rank == lane) chosen = number_of(best.key);
  }
  const float e = exp_f32(chosen - largest);
  float sum = 0;
#pragma unroll 8
  for (int rank = 0; rank < args.n_used; ++rank) sum = sum + __shfl_sync(kFullWarp, e, rank);
  const float weight = e / sum * args.scale;
  if (lane < args.n_used && !warm_icache) weights[lane] = weight;
}

}  // namespace

CHIMERE_KERNEL(route, kRouteThreads, RouteArgs, args) {
  let_next_kernel_start();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row =
      (static_cast<int>(blockIdx.x) * kRouteThreads + static_cast<int>(threadIdx.x)) / kWarp;
  const float* x = args.logits + row * args.stride;
  int32_t* ids = args.ids + static_cast<int64_t>(row) * args.n_used;
  float* weights = args.weights + static_cast<int64_t>(row) * args.n_used;
  bool warm_icache = args.warm_icache != 0;
#pragma unroll 1
  while (true) {
    if (!warm_icache) wait_for_previous_kernel();
    if (row >= args.rows) return;
    if (args.n_experts <= 8 * kWarp) {
      route_row<8>(args, x, lane, ids, weights, warm_icache);
    } else if (args.n_experts <= 16 * kWarp) {
      route_row<16>(args, x, lane, ids, weights, warm_icache);
    } else {
      route_row<kMaxExperts / kWarp>(args, x, lane, ids, weights, warm_icache);
    }
    if (!warm_icache) return;
    warm_icache = false;
  }
}

namespace {

__device__ __forceinline__ float largest_of_warp(float x) {
  for (int h = kWarp / 2; h > 0; h /= 2) {
    const float other = __shfl_xor_sync(kFullWarp, x, h);
    x = other > x ? other : x;
  }
  return x;
}

/// Turns the logits x of this lane's experts into their softmax over all experts.
template <int kOwn>
__device__ __forceinline__ void softmax(int n_experts, int lane, float (&x)[kOwn]) {
  float most = x[0];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    if (lane + j * kWarp < n_experts) most = x[j] > most ? x[j] : most;
  }
  most = largest_of_warp(lane < n_experts ? most : -INFINITY);
  float s = 0;  // partial sum lane % 16; two lanes have its elements, and both compute it
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    x[j] = lane + j * kWarp < n_experts ? exp_f32(x[j] - most) : 0;
    const float other = __shfl_xor_sync(kFullWarp, x[j], 16);
    s = s + (lane < 16 ? x[j] : other);
    s = s + (lane < 16 ? other : x[j]);
  }
  const float sum = tree_of_16(s);
#pragma unroll
  for (int j = 0; j < kOwn; ++j) x[j] = x[j] / sum;
}

/// The groups that experts are selected from, as a set of bits. `choice`: [n_experts], what experts
/// are compared by; lane g has group g.
__device__ __forceinline__ uint32_t used_groups(const RouteArgs& args, const float* choice,
                                                int lane) {
  const int size = args.n_experts / args.n_groups;
  uint32_t keys[1] = {0};
  if (lane < args.n_groups) {
    const float* members = choice + lane * size;
    float first = members[0];
    float second = -INFINITY;
    for (int e = 1; e < size; ++e) {
      const float x = members[e];
      second = x > first ? first : x > second ? x : second;
      first = x > first ? x : first;
    }
    keys[0] = rising(size > 1 ? first + second : first);
  }
  uint32_t used = 0;
  for (int i = 0; i < args.n_groups_used; ++i) {
    const Largest best = take_largest(keys, lane);
    used |= __ballot_sync(kFullWarp, best.mine);
  }
  return used;
}

/// Routes a row by one warp, for any RoutingSpec. scores, choice: [n_experts] of shared memory of
/// the warp. Or warms the instruction cache, without logits and without effect.
template <int kOwn>
__device__ __forceinline__ void route_scored_row(const RouteArgs& args, const float* x, int lane,
                                                 float* scores, float* choice, int32_t* ids,
                                                 float* weights, bool warm_icache) {
  float logits[kOwn];
  float own[kOwn];
  float bias[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int expert = lane + j * kWarp;
    bias[j] = expert < args.n_experts && args.bias != nullptr ? args.bias[expert] : 0;
    logits[j] = expert < args.n_experts && !warm_icache ? x[expert] : 0;
    own[j] = logits[j];
  }
  if (args.score == static_cast<int32_t>(RouterScore::kSoftmax)) {
    softmax(args.n_experts, lane, own);
  } else if (args.score == static_cast<int32_t>(RouterScore::kSigmoid)) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) own[j] = sigmoid(own[j]);
  }
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int expert = lane + j * kWarp;
    if (expert >= args.n_experts) break;
    scores[expert] = own[j];
    if (args.selects_by_logits != 0) own[j] = logits[j];
    if (args.bias != nullptr) own[j] = own[j] + bias[j];
    choice[expert] = own[j];
  }
  __syncwarp();
  uint32_t keys[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) keys[j] = lane + j * kWarp < args.n_experts ? rising(own[j]) : 0;
  if (args.n_groups > 0) {
    const uint32_t used = used_groups(args, choice, lane);
    const int size = args.n_experts / args.n_groups;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int expert = lane + j * kWarp;
      if (expert < args.n_experts && (used >> (expert / size) & 1U) == 0) keys[j] = 0;
    }
  }
  int chosen = 0;  // in lane r: the expert of rank r
#pragma unroll 1
  for (int rank = 0; rank < (warm_icache ? 1 : args.n_used); ++rank) {
    const Largest best = take_largest(keys, lane);
    const uint32_t expert = __reduce_min_sync(kFullWarp, best.mine ? best.expert : ~0U);
    if (rank == lane) chosen = static_cast<int>(expert);
  }
  const bool has_rank = lane < args.n_used;
  float weight = has_rank ? scores[chosen] : 0;
  if (args.weighs_by_logits != 0) {
    const float logit = has_rank && !warm_icache ? x[chosen] : -INFINITY;
    weight = exp_f32(logit - largest_of_warp(logit));
  }
  float sum = 0;
  for (int rank = 0; rank < args.n_used; ++rank) sum = sum + __shfl_sync(kFullWarp, weight, rank);
  if (args.weighs_by_logits == 0) {
    sum = args.normalise == 0 ? 1.0F : sum < kMinWeightSum ? kMinWeightSum : sum;
  }
  if (!has_rank || warm_icache) return;
  ids[lane] = chosen;
  weights[lane] = weight / sum * args.scale;
}

}  // namespace

CHIMERE_KERNEL(route_scored, kRouteThreads, RouteArgs, args) {
  __shared__ float scores[kRouteThreads / kWarp][kMaxExperts];
  __shared__ float choice[kRouteThreads / kWarp][kMaxExperts];
  let_next_kernel_start();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = static_cast<int>(blockIdx.x) * (kRouteThreads / kWarp) + warp;
  const float* x = args.logits + row * args.stride;
  int32_t* ids = args.ids + static_cast<int64_t>(row) * args.n_used;
  float* weights = args.weights + static_cast<int64_t>(row) * args.n_used;
  bool warm_icache = args.warm_icache != 0;
#pragma unroll 1
  while (true) {
    if (!warm_icache) wait_for_previous_kernel();
    if (row >= args.rows) return;
    if (args.n_experts <= 4 * kWarp) {
      route_scored_row<4>(args, x, lane, scores[warp], choice[warp], ids, weights, warm_icache);
    } else if (args.n_experts <= 8 * kWarp) {
      route_scored_row<8>(args, x, lane, scores[warp], choice[warp], ids, weights, warm_icache);
    } else {
      route_scored_row<kMaxExperts / kWarp>(args, x, lane, scores[warp], choice[warp], ids, weights,
                                            warm_icache);
    }
    if (!warm_icache) return;
    warm_icache = false;
    __syncwarp();
  }
}

}  // namespace chimere::kernels::cuda
