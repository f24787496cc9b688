#include "sampling/auxiliary_lm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <utility>

#include "base/fresh_seed.h"
#include "sampling/sampler.h"

namespace chimere::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class FixedAuxiliary final : public AuxiliaryLm {
 public:
  explicit FixedAuxiliary(std::vector<TokenMass> shares) : shares_(std::move(shares)) {}
  Status tokens(std::span<const int32_t>, std::vector<int32_t>& out) override {
    for (const TokenMass& s : shares_) out.push_back(s.id);
    return {};
  }
  Status mix(const AuxiliaryView& view, std::span<const int32_t>,
             AuxiliaryMixture& mixture) override {
    const kernels::LogSumExp sums = view.sums != nullptr ? *view.sums : log_sum_exp(view.logits);
    mixture = {{}, distribution_of(sums).log_sum};
    for (const TokenMass& s : shares_) {
      if (view.logits[static_cast<size_t>(s.id)] > -kInfinity) mixture.shares.push_back(s);
    }
    return {};
  }

 private:
  std::vector<TokenMass> shares_;
};

class BrokenAuxiliary final : public AuxiliaryLm {
 public:
  Status mix(const AuxiliaryView&, std::span<const int32_t>, AuxiliaryMixture&) override {
    return io_error("The table is gone.");
  }
};

std::vector<double> softmax(std::span<const float> logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float l : logits) sum += p.emplace_back(std::exp(static_cast<double>(l)));
  for (double& x : p) x /= sum;
  return p;
}

TEST(AuxiliaryLm, LogitsOfTheMixtureHaveItsProbabilities) {
  const std::vector<float> logits = {1, 2, 3, -1, 0.5F};
  const Candidate largest = find_largest(logits).value();
  const AuxiliaryMixture mixture = {{{3, 0.3F}, {0, 0.1F}},
                                    summarise(logits, largest.value).log_sum};
  std::vector<float> mixed;
  const Candidate after_mixing = mix_logits(logits, largest, mixture, mixed);
  EXPECT_EQ(after_mixing.id, find_largest(mixed)->id);
  EXPECT_EQ(after_mixing.value, find_largest(mixed)->value);
  const auto before = softmax(logits);
  const auto after = softmax(mixed);
  const std::vector<double> expected = {0.6 * before[0] + 0.1, 0.6 * before[1], 0.6 * before[2],
                                        0.6 * before[3] + 0.3, 0.6 * before[4]};
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(after[i], expected[i], 1e-6) << i;
  EXPECT_EQ(mixed[1], logits[1]) << "logits without a share are unchanged";
}

TEST(AuxiliaryLm, RaisesTokensAndNeverUnmasksThem) {
  const float masked = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {0, masked, 1};
  const Candidate largest = find_largest(logits).value();
  std::vector<float> mixed;
  mix_logits(logits, largest, {{{0, 0.2F}, {1, 0.5F}}, summarise(logits, largest.value).log_sum},
             mixed);
  EXPECT_GT(mixed[0], logits[0]);
  EXPECT_EQ(mixed[1], masked);
}

TEST(AuxiliaryLm, IsMixedBeforeBiasesAndSeenByLogprobs) {
  const std::vector<float> logits = {0, 0, 0, 0};
  SamplingParams params;
  params.auxiliary = std::make_shared<FixedAuxiliary>(std::vector<TokenMass>{{2, 0.8F}});
  params.logprobs = 2;
  auto sampled = Sampler(params).sample(logits, {}, 0);
  ASSERT_TRUE(sampled.ok());
  EXPECT_EQ(sampled->id, 2);
  EXPECT_NEAR(std::exp(sampled->logprob), 0.2 / 4 + 0.8, 1e-6);
  EXPECT_NEAR(std::exp(sampled->top[1].value), 0.2 / 4, 1e-6);
  EXPECT_NEAR(sampled->p_max, 0.85, 1e-6);
  // A bias is applied after the mixture.
  params.logit_bias = {{2, -std::numeric_limits<float>::infinity()}};
  sampled = Sampler(params).sample(logits, {}, 0);
  ASSERT_TRUE(sampled.ok());
  EXPECT_NE(sampled->id, 2);
}

TEST(AuxiliaryLm, WithoutSharesChangesNoBit) {
  const std::vector<float> logits = {0.1F, 0.7F, -0.2F};
  SamplingParams params;
  params.logprobs = 3;
  const auto alone = Sampler(params).sample(logits, {}, 0);
  params.auxiliary = std::make_shared<FixedAuxiliary>(std::vector<TokenMass>{});
  const auto beside = Sampler(params).sample(logits, {}, 0);
  ASSERT_TRUE(alone.ok() && beside.ok());
  EXPECT_EQ(alone->logprob, beside->logprob);
  EXPECT_EQ(alone->entropy, beside->entropy);
}

TEST(AuxiliaryLm, PartialLogitsAreEnoughForAMixture) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  int decided = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(700);
    for (float& l : logits) l = random() % 9 == 0 ? -kInfinity : normal(random);
    std::vector<TokenMass> shares;
    std::set<int32_t> ids;
    for (uint32_t n = random() % 30; n > 0; --n) ids.insert(static_cast<int32_t>(random() % 700));
    for (const int32_t id : ids) {
      shares.push_back({id, 0.9F / static_cast<float>(ids.size() + random() % 3)});
    }
    SamplingParams params;
    params.auxiliary = std::make_shared<FixedAuxiliary>(shares);
    params.temperature = random() % 2 ? 1.0F : 0.0F;
    const bool nucleus = params.temperature == 1 && random() % 2;
    params.top_k = nucleus ? 0 : 1 + static_cast<int32_t>(random() % 20);
    params.top_p = nucleus ? 0.5F : 1;
    params.presence_penalty = random() % 2 ? 1.0F : 0.0F;
    params.logit_bias = {{static_cast<int32_t>(random() % 700), 3}};
    const std::vector<int32_t> history = {5, static_cast<int32_t>(random() % 700)};
    Sampler sampler(params);
    const Needed needed = sampler.needed(128);
    ASSERT_GT(needed.largest, 0);
    ASSERT_TRUE(needed.sums);
    std::vector<int32_t> named;
    ASSERT_TRUE(sampler.selected_ids(history, 700, named).ok());
    std::vector<Candidate> selected;
    std::vector<float> left = logits;
    for (const int32_t id : named) {
      selected.push_back({std::exchange(left[static_cast<size_t>(id)], -kInfinity), id});
    }
    LogitScan scan;
    scan_logits(left, scan);
    std::vector<Candidate> largest;
    select_largest(left, scan, needed.largest, largest);
    const kernels::LogSumExp sums = log_sum_exp(logits);
    for (uint64_t position = 2; position < 6; ++position) {
      const auto got = sampler.sample({largest, selected, &sums}, history, position);
      ASSERT_TRUE(got.ok());
      ASSERT_TRUE(*got || nucleus) << round;
      if (!*got) continue;
      ++decided;
      EXPECT_EQ((*got)->id, Sampler(params).sample(logits, history, position)->id) << round;
    }
  }
  EXPECT_GT(decided, 400);
}

TEST(AuxiliaryLm, LogprobsOfAMixtureNeedTheWholeRow) {
  SamplingParams params;
  params.auxiliary = std::make_shared<BrokenAuxiliary>();
  params.logprobs = 0;
  EXPECT_EQ(Sampler(params).needed(128), Needed{});
  std::vector<int32_t> ids;
  EXPECT_FALSE(Sampler(params).selected_ids({}, 10, ids).ok())
      << "it does not declare which logits it reads";
}

TEST(AuxiliaryLm, ErrorsEndTheGeneration) {
  SamplingParams params;
  params.auxiliary = std::make_shared<BrokenAuxiliary>();
  const auto sampled = Sampler(params).sample(std::vector<float>{0, 1}, {}, 0);
  ASSERT_FALSE(sampled.ok());
  EXPECT_EQ(sampled.error().message, "The table is gone.");
}

}  // namespace
}  // namespace chimere::sampling
