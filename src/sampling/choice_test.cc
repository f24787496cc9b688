#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/api.h"
#include "kernels/token_choice.h"
#include "sampling/sampler.h"

namespace chimere::sampling {
namespace {

using kernels::TokenChoice;
using kernels::TopLogit;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

/// A whole row: large or small spread, with ties, all equal (so large that all have the same Gumbel
/// score), or mostly masked.
std::vector<float> random_row(std::mt19937_64& random) {
  std::vector<float> row(1 + random() % (random() % 4 == 0 ? 8 : 3000));
  std::normal_distribution<float> normal(0, std::exp(static_cast<float>(random() % 9) - 4));
  const uint64_t kind = random() % 6;
  const uint64_t left = 1 + random() % 40;
  for (float& l : row) {
    l = normal(random);
    if (kind == 0) l = std::round(l);
    if (kind == 1) l = left % 2 == 0 ? 0.5F : 0x1p100F;
    if (kind == 2 && random() % row.size() >= left) l = kMasked;
  }
  return row;
}

/// The `count` largest logits of the row, as kernels::Ops::top_logits() returns them.
std::vector<TopLogit> largest_of(const std::vector<float>& row, int32_t count) {
  std::vector<TopLogit> all;
  bool numbers = true;
  for (size_t i = 0; i < row.size(); ++i) {
    numbers = numbers && row[i] < -kMasked;
    if (row[i] > kMasked) all.push_back({row[i], static_cast<int32_t>(i)});
  }
  std::ranges::stable_sort(all,
                           [](const TopLogit& a, const TopLogit& b) { return a.value > b.value; });
  if (!numbers) all.clear();
  all.resize(static_cast<size_t>(count), {kMasked, -1});
  if (!numbers) all.front().value = -kMasked;
  return all;
}

float random_share(std::mt19937_64& random) {
  std::uniform_real_distribution<float> unit(0, 1);
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return std::pow(10.0F, -8 * unit(random));
    case 3:  // some of several equal tokens reach it exactly
      return 0.25F * static_cast<float>(1 + random() % 3);
    default:
      return unit(random);
  }
}

/// Requests that apply top-k or greedy first, with other samplers in any order.
SamplingParams random_request(std::mt19937_64& random) {
  std::uniform_real_distribution<float> unit(0, 1);
  SamplingParams p;
  p.seed = random();
  constexpr float kTemperatures[] = {0, 1, 0.01F, 10};
  p.temperature = random() % 2 == 0 ? kTemperatures[random() % std::size(kTemperatures)]
                                    : std::exp((unit(random) - 0.5F) * 9.2F);
  constexpr int32_t kMost[] = {1, 2, 127, 128};
  p.top_k = random() % 3 == 0 ? kMost[random() % std::size(kMost)]
                              : static_cast<int32_t>(1 + random() % 128);
  if (random() % 4 == 0) p.top_k = 1 << random() % 8;
  if (p.temperature == 0 && random() % 2 == 0) p.top_k = 0;
  p.top_p = random_share(random);
  p.min_p = random_share(random);
  if (random() % 3 == 0) p.logprobs = static_cast<int32_t>(random() % 6);
  if (random() % 2 == 0) {
    p.order = {SamplerType::kTopK, SamplerType::kTopP, SamplerType::kMinP,
               SamplerType::kTemperature};
    if (random() % 3 == 0) p.order[1 + random() % 2] = SamplerType::kTemperature;  // two of them
    std::ranges::shuffle(p.order, random);
  }
  return p;
}

PartialLogits partial_logits_of(const std::vector<TopLogit>& largest,
                                std::vector<Candidate>& storage, const kernels::LogSumExp& sums) {
  storage.clear();
  for (const TopLogit& t : largest) storage.push_back({t.value, t.id});
  return {.largest = storage, .sums = &sums};
}

TEST(ChoiceOnGpu, IsTheSamplersToken) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  int chosen = 0;
  constexpr int kRounds = 6000;
  std::vector<Candidate> storage;
  for (int round = 0; round < kRounds; ++round) {
    const SamplingParams params = random_request(random);
    Sampler sampler(params);
    const uint64_t position = random() % 4 == 0 ? random() : random() % 100000;
    const std::optional<TokenChoice> choice = sampler.choice_on_gpu(position);
    if (!choice) continue;
    ++chosen;
    // The rows of a step share the largest count that any of them needs.
    const int32_t needed = sampler.needed(kernels::kMaxTopLogits).largest;
    ASSERT_GT(needed, 0);
    const auto more = static_cast<uint64_t>(kernels::kMaxTopLogits - needed);
    const int32_t count = needed + static_cast<int32_t>(random() % 2 * (random() % (more + 1)));
    const std::vector<float> row = random_row(random);
    const std::vector<TopLogit> largest = largest_of(row, count);
    const kernels::LogSumExp sums = log_sum_exp(row);
    const auto want = sampler.sample(partial_logits_of(largest, storage, sums), {}, position);
    if (largest.front().id < 0) {  // all masked
      ASSERT_FALSE(want.ok());
      ASSERT_EQ(kernels::choose_token(largest, *choice), -1);
      continue;
    }
    ASSERT_TRUE(want.ok());
    ASSERT_TRUE(want->has_value());
    ASSERT_EQ(kernels::choose_token(largest, *choice), (*want)->id)
        << "round " << round << ", top-k " << params.top_k << ", top-p " << params.top_p
        << ", min-p " << params.min_p << ", temperature " << params.temperature << ", " << count
        << " of " << row.size();
  }
  EXPECT_GT(chosen, kRounds / 3);
}

TEST(ChoiceOnGpu, FindsNoTokenWhereTheSamplerFails) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::vector<Candidate> storage;
  for (const float everywhere : {kMasked, -kMasked, std::nanf("")}) {
    SamplingParams params;
    params.temperature = 0.7F;
    params.top_k = 20;
    params.seed = random();
    Sampler sampler(params);
    std::vector<float> row(100, everywhere);
    if (everywhere != kMasked) {
      for (float& l : row) l = static_cast<float>(random() % 100);
      row[random() % row.size()] = everywhere;
    }
    const std::vector<TopLogit> largest = largest_of(row, 32);
    const auto choice = sampler.choice_on_gpu(3);
    ASSERT_TRUE(choice.has_value());
    EXPECT_EQ(kernels::choose_token(largest, *choice), -1);
    const kernels::LogSumExp sums;
    EXPECT_FALSE(sampler.sample(partial_logits_of(largest, storage, sums), {}, 3).ok());
  }
}

TEST(ChoiceOnGpu, IsUnavailableWhereMoreThanTheLargestLogitsMatters) {
  class NoAuxiliary : public AuxiliaryLm {
   public:
    Status tokens(std::span<const int32_t>, std::vector<int32_t>&) override { return {}; }
    Status mix(const AuxiliaryView&, std::span<const int32_t>, AuxiliaryMixture&) override {
      return {};
    }
  };
  const auto on_gpu = [](auto change) {
    SamplingParams p;
    p.temperature = 0.7F;
    p.top_k = 20;
    p.top_p = 0.95F;
    change(p);
    return Sampler(p).choice_on_gpu(5).has_value();
  };
  using Params = SamplingParams;
  EXPECT_TRUE(on_gpu([](Params&) {}));
  EXPECT_TRUE(on_gpu([](Params& p) { p.logprobs = 5; }));
  EXPECT_TRUE(on_gpu([](Params& p) { p.temperature = 0; }));
  EXPECT_TRUE(on_gpu([](Params& p) {
    p.order = {SamplerType::kTemperature, SamplerType::kTopK, SamplerType::kMinP,
               SamplerType::kTopP};
    p.min_p = 0.1F;
  }));
  // Samplers without effect do not matter.
  EXPECT_TRUE(on_gpu([](Params& p) { p.penalty_window = 0, p.repeat_penalty = 2; }));
  EXPECT_TRUE(on_gpu([](Params& p) { p.xtc_probability = 0.5F, p.xtc_threshold = 0.6F; }));

  EXPECT_FALSE(on_gpu([](Params& p) { p.auxiliary = std::make_shared<NoAuxiliary>(); }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.logit_bias = {{3, 1.0F}}; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.repeat_penalty = 1.1F; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.temperature = 0, p.presence_penalty = 1; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.dry.multiplier = 0.8F; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.mirostat = 2; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.xtc_probability = 0.5F; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.typical = 0.9F; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.top_n_sigma = 1; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.dynatemp_range = 0.2F; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.temperature = 0, p.dynatemp_range = 0.2F; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.top_k = 0; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.top_k = 0, p.top_p = 1; }));
  EXPECT_FALSE(on_gpu([](Params& p) { p.order = {SamplerType::kTopP, SamplerType::kTopK}; }));
  EXPECT_FALSE(on_gpu([](Params& p) {
    p.order = {SamplerType::kMinP, SamplerType::kTopK};
    p.min_p = 0.1F;
  }));
  // More samplers than a choice holds.
  EXPECT_FALSE(on_gpu([](Params& p) { p.order.assign(5, SamplerType::kTopK); }));
}

}  // namespace
}  // namespace chimere::sampling
