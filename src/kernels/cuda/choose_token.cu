// Chooses a token from a row's largest logits, with the bits of choose_token() of kernels/api.h.
// One block per row, one thread per logit. A single thread forms the sums and picks the winner,
// because there are few logits.
#include "kernels/cuda/choose_token_args.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {

CHIMERE_KERNEL(choose_tokens, kChoiceThreads, ChooseTokensArgs, args) {
  __shared__ double numbers[kChoiceThreads];  // weights, then scores
  __shared__ int32_t ids[kChoiceThreads];
  __shared__ int left;  // number of remaining tokens, which are the first ones
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const TopLogitArgs* top = args.top + static_cast<int64_t>(blockIdx.x) * args.count;
  const TokenChoice& choice = args.choices[blockIdx.x];
  const int n_samplers = choice.n_samplers;
  const bool there = thread < args.count;
  const float logit = there ? top[thread].value : 0;
  const int32_t id = there ? top[thread].id : -1;
  const float largest = top[0].value;
  ids[thread] = id;
  if (thread == 0) left = 0;
  __syncthreads();
  // Empty entries come last. If the logits are not numbers, the first entry is empty.
  if (ids[0] >= 0 && id >= 0 && (thread + 1 == kChoiceThreads || ids[thread + 1] < 0))
    left = thread + 1;
  __syncthreads();
  double scale = 1;
#pragma unroll 1
  for (int s = 0; s < n_samplers; ++s) {
    const ChoiceSampler::Kind kind = choice.samplers[s].kind;
    const double value = choice.samplers[s].value;
    if (kind == ChoiceSampler::kScale) {
      scale *= value;
      continue;
    }
    if (kind == ChoiceSampler::kTopK) {
      if (thread == 0 && value < static_cast<double>(left)) left = static_cast<int>(value);
    } else if (kind == ChoiceSampler::kTopP) {
      numbers[thread] = thread < left ? choice_weight(logit, largest, scale) : 0;
      __syncthreads();
      if (thread == 0) {
        double total = 0;
        for (int i = 0; i < left; ++i) total += numbers[i];
        double reached = 0;
        int last = 0;
        for (; last + 1 < left; ++last) {
          reached += numbers[last];
          if (reached >= value * total) break;
        }
        if (left > 0) left = last + 1;
      }
    } else {
      const double highest = static_cast<double>(largest) * scale;
      const double floor = highest + value < highest ? highest + value : highest;
      const bool stays = thread < left && static_cast<double>(logit) * scale >= floor;
      numbers[thread] = stays ? 1 : 0;
      __syncthreads();
      // Entries are in falling order.
      const bool next_stays = thread + 1 < kChoiceThreads && numbers[thread + 1] != 0;
      if (stays && !next_stays) left = thread + 1;
    }
    __syncthreads();
  }
  if (thread < left) {
    const double base = static_cast<double>(logit) * scale;
    numbers[thread] = gumbel_score(base, choice.seed, choice.position, id);
  }
  __syncthreads();
  if (thread != 0) return;
  int32_t winner = -1;
  double best = 0;
  for (int i = 0; i < left; ++i) {
    const double score = numbers[i];
    if (winner < 0 || score > best || (score == best && ids[i] < winner)) {
      best = score;
      winner = ids[i];
    }
  }
  args.chosen[blockIdx.x] = winner;
}

}  // namespace chimere::kernels::cuda
