// Time to sample a token from a vocabulary of 248,320 with different samplers: from all logits, and
// where they suffice from the top-k logits, as a GPU returns them.
//
//   sampler_bench
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/api.h"
#include "sampling/logit_scan.h"
#include "sampling/sampler.h"

namespace {

using chimere::sampling::Sampler;
using chimere::sampling::SamplingParams;

/// Milliseconds of the fastest of some calls that sample a token.
double fastest(const std::function<bool(uint64_t position)>& sample) {
  double best = 1e9;
  for (uint64_t position = 0; position < 20; ++position) {
    const auto start = std::chrono::steady_clock::now();
    if (!sample(position)) return -1;
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

double from_all(const std::vector<float>& logits, const SamplingParams& params) {
  Sampler sampler(params);
  return fastest([&](uint64_t position) { return sampler.sample(logits, {}, position).ok(); });
}

/// -1 if all logits are needed.
double from_largest(const std::vector<float>& logits, const SamplingParams& params) {
  Sampler sampler(params);
  const auto needed = sampler.needed(chimere::kernels::kMaxTopLogits);
  if (needed.largest == 0) return -1;
  chimere::sampling::LogitScan scan_logits;
  chimere::sampling::scan_logits(logits, scan_logits);
  std::vector<chimere::sampling::Candidate> largest;
  chimere::sampling::select_largest(logits, scan_logits, needed.largest, largest);
  const auto sums = chimere::sampling::log_sum_exp(logits);
  const chimere::sampling::PartialLogits partial_logits{.largest = largest, .sums = &sums};
  return fastest([&](uint64_t position) {
    const auto sampled = sampler.sample(partial_logits, {}, position);
    return sampled.ok() && sampled->has_value();
  });
}

}  // namespace

int main() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5F);
  std::vector<float> flat(248320);
  for (float& l : flat) l = normal(random);
  std::vector<float> peaked = flat;  // one token has nearly all of the probability
  peaked[77] = 30;
  std::printf("%-28s %8s %8s %22s\n", "ms for one token", "flat", "peaked", "from top-k: flat");
  const auto report = [&](const char* what, const std::function<void(SamplingParams&)>& change) {
    SamplingParams p;
    p.temperature = 1;
    change(p);
    std::printf("%-28s %8.3f %8.3f", what, from_all(flat, p), from_all(peaked, p));
    const double largest = from_largest(flat, p);
    if (largest >= 0) std::printf(" %22.3f", largest);
    std::printf("\n");
  };
  report("greedy", [](SamplingParams& p) { p.temperature = 0; });
  report("everything", [](SamplingParams&) {});
  report("everything, 5 logprobs", [](SamplingParams& p) { p.logprobs = 5; });
  report("top-k 20, top-p 0.95", [](SamplingParams& p) {
    p.top_k = 20;
    p.top_p = 0.95F;
  });
  report("top-k 20, 5 logprobs", [](SamplingParams& p) {
    p.top_k = 20;
    p.logprobs = 5;
  });
  report("top-p 0.95", [](SamplingParams& p) { p.top_p = 0.95F; });
  report("min-p 0.05", [](SamplingParams& p) { p.min_p = 0.05F; });
  report("typical 0.9", [](SamplingParams& p) { p.typical = 0.9F; });
  report("top-nsigma 1", [](SamplingParams& p) { p.top_n_sigma = 1; });
  report("xtc", [](SamplingParams& p) { p.xtc_probability = 1; });
  report("mirostat 2", [](SamplingParams& p) { p.mirostat = 2; });
  return 0;
}
