#include "engine/speculation/draft_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/fresh_seed.h"

namespace chimere::engine {
namespace {

/// The largest logits of a row, as a GPU returns them.
std::vector<kernels::TopLogit> largest_of(std::span<const float> logits, int32_t count) {
  std::vector<kernels::TopLogit> all;
  for (size_t i = 0; i < logits.size(); ++i) all.push_back({logits[i], static_cast<int32_t>(i)});
  std::ranges::sort(all, [](const kernels::TopLogit& a, const kernels::TopLogit& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  });
  all.resize(static_cast<size_t>(count));
  return all;
}

kernels::LogSumExp sums_of(std::span<const float> logits) {
  kernels::LogSumExp sums;
  sums.largest = *std::ranges::max_element(logits);
  for (const float l : logits) sums.e += std::exp(static_cast<double>(l - sums.largest));
  return sums;
}

TEST(DraftSampler, TheLargestLogitsGiveTheDraftOfTheWholeRow) {
  std::mt19937_64 random(fresh_seed());
  std::normal_distribution<float> normal(0, 8);
  for (const auto& [temperature, top_k] :
       {std::pair(0.0F, 0), std::pair(0.7F, 20), std::pair(1.0F, 20)}) {
    sampling::SamplingParams params;
    params.temperature = temperature;
    params.top_k = top_k;
    params.seed = 5;
    DraftSampler sampler(params);
    ASSERT_GE(sampler.largest(), temperature == 0 ? 1 : temperature == 1 ? 20 : 64);
    ASSERT_EQ(sampler.sums(), temperature != 0.7F);
    for (size_t position = 0; position < 50; ++position) {
      std::vector<float> logits(2000);
      for (float& l : logits) l = normal(random);
      const SampledDraft whole = sampler.sample(logits, position);
      const kernels::LogSumExp sums = sums_of(logits);
      const SampledDraft of_largest = sampler.sample(largest_of(logits, sampler.largest() + 8),
                                                     sampler.sums() ? &sums : nullptr, position);
      ASSERT_GE(whole.token, 0);
      ASSERT_EQ(of_largest.token, whole.token) << "temperature " << temperature;
      EXPECT_GE(of_largest.probability, whole.probability * 0.98);
      EXPECT_LE(of_largest.probability, whole.probability * 1.3);
    }
  }
}

TEST(DraftSampler, SamplingFromAllTokensNeedsTheWholeRow) {
  sampling::SamplingParams params;
  params.temperature = 0.7F;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  EXPECT_EQ(DraftSampler(params).largest(), 0);
}

}  // namespace
}  // namespace chimere::engine
