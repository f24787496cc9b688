#include "engine/engram_mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/fresh_seed.h"
#include "sampling/sampler.h"

namespace chimere::engine {
namespace {

constexpr int32_t kThink = 26;
constexpr int32_t kEndThink = 27;

class EngramMixtureTest : public testing::Test {
 protected:
  /// A table in which 2 follows 1.
  engram::Memory::Tables tables() {
    const std::string path = testing::TempDir() + "engram_mixture_test.engr";
    const std::vector<std::vector<int32_t>> texts(20, {1, 2});
    const auto counts = engram::Counts::of(texts, 1, {"a", 20000, engram::kOne});
    EXPECT_TRUE(engram::write_table(path, *counts, 1, {}).ok());
    return {engram::open_table(path, {}).value()};
  }
  sampling::Sampled sample(const EngramOptions& options, const std::vector<int32_t>& history) {
    sampling::SamplingParams params;
    params.auxiliary = EngramMixture::create(tables(), options, tags_).value();
    params.logprobs = 1;
    return sampling::Sampler(params).sample(logits_, history, history.size()).value();
  }
  text::ReasoningTags tags_{.open = {"<think>", kThink}, .close = {"</think>", kEndThink}};
  std::vector<float> logits_ = std::vector<float>(28, 0.0F);
  EngramOptions always_{engram::Gating::kKneserNey, false};
};

TEST_F(EngramMixtureTest, RaisesTheSuccessorsOfATable) {
  const auto sampled = sample(always_, {3, 1});
  EXPECT_EQ(sampled.id, 2);
  EXPECT_GT(sampled.p_max, 0.8F);
  EXPECT_NEAR(std::exp(sampled.logprob), sampled.p_max, 1e-6);
}

TEST_F(EngramMixtureTest, LeavesUnknownContextsUnchanged) {
  const auto sampled = sample(always_, {1, 3});
  EXPECT_EQ(sampled.p_max, 1.0F / 28);
}

TEST_F(EngramMixtureTest, IsInactiveInsideReasoningByDefault) {
  const std::vector<int32_t> inside = {kThink, 5, 1};
  const std::vector<int32_t> after = {kThink, 5, kEndThink, 1};
  EXPECT_EQ(sample(always_, inside).p_max, 1.0F / 28);
  EXPECT_GT(sample(always_, after).p_max, 0.8F);
  const EngramOptions asked{engram::Gating::kKneserNey, true};
  EXPECT_GT(sample(asked, inside).p_max, 0.8F);
}

TEST_F(EngramMixtureTest, FollowsATextThroughItsReasoning) {
  sampling::SamplingParams params;
  params.auxiliary = EngramMixture::create(tables(), always_, tags_).value();
  params.logprobs = 1;
  sampling::Sampler sampler(params);
  std::vector<int32_t> text;
  for (const int32_t token : {1, kThink, 1, 5, 1, kEndThink, 1, 4, 1}) {
    text.push_back(token);
    const float grown = sampler.sample(logits_, text, text.size())->p_max;
    EXPECT_EQ(grown, sample(always_, text).p_max) << "equal to a fresh sampler's result";
  }
  // A different text with the same sampler.
  EXPECT_EQ(sampler.sample(logits_, std::vector<int32_t>{kThink, 1}, 2)->p_max, 1.0F / 28);
}

/// With a growing text and partial logits, as from a GPU.
TEST_F(EngramMixtureTest, DeclaresTheTokensThatItReads) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const auto gating : {engram::Gating::kKneserNey, engram::Gating::kLearned}) {
    sampling::SamplingParams params;
    params.temperature = 1;
    params.top_k = 6;
    sampling::SamplingParams of_all = params;
    const EngramOptions options{gating, false};
    params.auxiliary = EngramMixture::create(tables(), options, tags_).value();
    of_all.auxiliary = EngramMixture::create(tables(), options, tags_).value();
    sampling::Sampler sampler(params);
    sampling::Sampler whole(of_all);
    std::vector<int32_t> text;
    bool selected_some = false;
    for (int i = 0; i < 200; ++i) {
      text.push_back(i % 3 == 0 ? 1 : static_cast<int32_t>(random() % 28));
      for (float& l : logits_) l = static_cast<float>(random() % 1000) / 100;
      std::vector<int32_t> ids;
      ASSERT_TRUE(sampler.selected_ids(text, 28, ids).ok());
      selected_some |= !ids.empty();
      std::vector<sampling::Candidate> selected;
      std::vector<sampling::Candidate> largest;
      for (int32_t id = 0; id < 28; ++id) {
        auto& to = std::ranges::binary_search(ids, id) ? selected : largest;
        to.push_back({logits_[static_cast<size_t>(id)], id});
      }
      std::sort(largest.begin(), largest.end());
      largest.resize(6);
      const kernels::LogSumExp sums = sampling::log_sum_exp(logits_);
      EXPECT_EQ(sampler.sample({largest, selected, &sums}, text, text.size())->value().id,
                whole.sample(logits_, text, text.size())->id)
          << i;
    }
    EXPECT_TRUE(selected_some);
  }
}

TEST_F(EngramMixtureTest, DraftsTheTablesMostLikelyToken) {
  const auto auxiliary = EngramMixture::create(tables(), always_, tags_).value();
  const auto draft = auxiliary->likeliest(std::vector<int32_t>{3, 1});
  EXPECT_EQ(draft.id, 2);
  EXPECT_GT(draft.mass, 0.8F);
  EXPECT_LE(draft.mass, 1.0F);
  EXPECT_EQ(auxiliary->likeliest(std::vector<int32_t>{1, 3}).id, -1);
}

}  // namespace
}  // namespace chimere::engine
