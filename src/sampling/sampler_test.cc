#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "base/fresh_seed.h"

namespace chimere::sampling {
namespace {

Result<Sampled> sample(const std::vector<float>& logits, const std::vector<int32_t>& history,
                       uint64_t position, const SamplingParams& params) {
  return Sampler(params).sample(logits, history, position);
}

std::vector<float> random_logits(std::mt19937& random, size_t n, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& l : logits) l = normal(random);
  return logits;
}

/// The probabilities of the documented chain, computed plainly by sorting everything.
std::vector<double> expected_probabilities(const std::vector<float>& logits,
                                           const SamplingParams& p) {
  std::vector<size_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (p.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(p.top_k)));
  double temperature = 1;
  const auto weight = [&](size_t i) {
    return std::exp((static_cast<double>(logits[i]) - logits[order[0]]) / temperature);
  };
  double total = 0;
  for (const size_t i : order) total += weight(i);
  double reached = 0;
  size_t kept = 0;
  while (kept < order.size() && (p.top_p == 1 || reached < p.top_p * total)) {
    reached += weight(order[kept++]);
  }
  order.resize(kept);
  std::erase_if(order, [&](size_t i) { return weight(i) < p.min_p; });
  temperature = p.temperature;
  total = 0;
  for (const size_t i : order) total += weight(i);
  std::vector<double> probabilities(logits.size(), 0.0);
  for (const size_t i : order) probabilities[i] = weight(i) / total;
  return probabilities;
}

void expect_distribution(const std::vector<float>& logits, const SamplingParams& params) {
  const std::vector<double> expected = expected_probabilities(logits, params);
  constexpr int kDraws = 40000;
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    const auto s = sample(logits, {}, static_cast<uint64_t>(i), params);
    ASSERT_TRUE(s.ok());
    ++counts[static_cast<size_t>(s->id)];
  }
  double chi2 = 0;
  int degrees = -1;
  double rare_expected = 0;
  double rare_seen = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was removed but drawn";
      continue;
    }
    const double e = expected[i] * kDraws;
    if (e < 10) {
      rare_expected += e;
      rare_seen += counts[i];
      continue;
    }
    chi2 += (counts[i] - e) * (counts[i] - e) / e;
    ++degrees;
  }
  if (rare_expected >= 10) {
    chi2 += (rare_seen - rare_expected) * (rare_seen - rare_expected) / rare_expected;
    ++degrees;
  }
  if (degrees < 1) return;
  // Six standard deviations of the chi-squared distribution, with a margin for its skew.
  EXPECT_LT(chi2, degrees + 6 * std::sqrt(2.0 * degrees) + 12);
}

TEST(Sample, DrawsFollowTheTruncatedDistribution) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto with = [&](auto change) {
    SamplingParams p;
    p.temperature = 1;
    p.seed = static_cast<uint64_t>(random()) << 32 | random();
    change(p);
    expect_distribution(random_logits(random, 50, 2), p);
  };
  with([](SamplingParams&) {});
  with([](SamplingParams& p) { p.temperature = 0.6F; });
  with([](SamplingParams& p) { p.top_k = 7; });
  with([](SamplingParams& p) { p.top_p = 0.8F; });
  with([](SamplingParams& p) { p.min_p = 0.1F; });
  with([](SamplingParams& p) {
    p.temperature = 1.7F;
    p.top_k = 30;
    p.top_p = 0.9F;
    p.min_p = 0.02F;
  });
}

TEST(Sample, KeepsTheDocumentedTokensInLargeVocabularies) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  // With a flat distribution, top-p needs far more tokens than its first estimate.
  for (const float spread : {0.1F, 1.F, 6.F}) {
    const std::vector<float> logits = random_logits(random, 5000, spread);
    SamplingParams p;
    p.temperature = 1;
    p.top_p = 0.7F;
    p.seed = random();
    const std::vector<double> expected = expected_probabilities(logits, p);
    for (uint64_t position = 0; position < 300; ++position) {
      const auto s = sample(logits, {}, position, p);
      ASSERT_TRUE(s.ok());
      ASSERT_GT(expected[static_cast<size_t>(s->id)], 0);
    }
  }
}

TEST(Sample, GreedyTakesTheLargestAndTiesGoToTheLowerId) {
  EXPECT_EQ(sample(std::vector<float>{1, 5, 5, 2}, {}, 3, {}).value().id, 1);
}

TEST(Sample, DependsOnSeedAndPosition) {
  std::mt19937 random(7);
  const std::vector<float> logits = random_logits(random, 100, 0.5F);
  SamplingParams p;
  p.temperature = 1;
  std::map<int32_t, int> by_seed;
  std::map<int32_t, int> by_position;
  for (uint64_t i = 0; i < 50; ++i) {
    p.seed = i;
    ++by_seed[sample(logits, {}, 0, p).value().id];
    EXPECT_EQ(sample(logits, {}, 0, p).value().id, sample(logits, {}, 0, p).value().id);
    p.seed = 0;
    ++by_position[sample(logits, {}, i, p).value().id];
  }
  EXPECT_GT(by_seed.size(), 10U);
  EXPECT_GT(by_position.size(), 10U);
}

TEST(Sample, CloseDistributionsMostlyChooseTheSameToken) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<float> logits = random_logits(random, 200, 1);
  std::vector<float> close = logits;
  std::normal_distribution<float> noise(0, 0.05F);
  for (float& l : close) l += noise(random);
  SamplingParams p;
  p.temperature = 1;
  p.seed = seed;
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    same += sample(logits, {}, i, p).value().id == sample(close, {}, i, p).value().id;
  }
  EXPECT_GT(same, 900);
}

TEST(Sample, PenaltiesChangeOnlyTokensInTheWindow) {
  const std::vector<float> logits = {4, 3.9F, -1, -1.1F};
  SamplingParams p;
  p.repeat_penalty = 2;
  EXPECT_EQ(sample(logits, std::vector<int32_t>{0}, 1, p).value().id, 1);
  EXPECT_EQ(sample(logits, std::vector<int32_t>{0, 1}, 1, p).value().id, 0);
  p.penalty_window = 1;
  EXPECT_EQ(sample(logits, std::vector<int32_t>{0, 2}, 1, p).value().id, 0);
  p.penalty_window = -1;
  EXPECT_EQ(sample(logits, std::vector<int32_t>{0, 2}, 1, p).value().id, 1);

  SamplingParams counted;
  counted.frequency_penalty = 0.06F;
  EXPECT_EQ(sample(logits, std::vector<int32_t>{0}, 1, counted).value().id, 0);
  EXPECT_EQ(sample(logits, std::vector<int32_t>{0, 0}, 1, counted).value().id, 1);
  SamplingParams present;
  present.presence_penalty = 0.2F;
  EXPECT_EQ(sample(logits, std::vector<int32_t>{0, 0, 0, 1}, 1, present).value().id, 0);
  EXPECT_EQ(sample(logits, std::vector<int32_t>{0}, 1, present).value().id, 1);
  // A negative logit moves away from zero.
  p.penalty_window = 64;
  const std::vector<float> negative = {-1, -1.5F};
  EXPECT_EQ(sample(negative, std::vector<int32_t>{0, 99}, 1, p).value().id, 1);
}

TEST(Sample, LogprobsAreThoseOfTheModel) {
  const std::vector<float> logits = {1, 2, 3, 4};
  SamplingParams p;
  p.logprobs = 2;
  p.temperature = 0.001F;
  p.repeat_penalty = 1.5F;
  const auto s = sample(logits, std::vector<int32_t>{3}, 0, p);
  ASSERT_TRUE(s.ok());
  double total = 0;
  for (const float l : logits) total += std::exp(l);
  EXPECT_EQ(s->id, 2);
  EXPECT_NEAR(s->logprob, 3 - std::log(total), 1e-6);
  EXPECT_NEAR(s->p_max, std::exp(4) / total, 1e-6);
  ASSERT_EQ(s->top.size(), 2U);
  EXPECT_EQ(s->top[0].id, 3);
  EXPECT_NEAR(s->top[1].value, 3 - std::log(total), 1e-6);
}

std::vector<Candidate> largest_of(const std::vector<float>& logits, size_t n) {
  std::vector<Candidate> all;
  for (const float l : logits) all.push_back({l, static_cast<int32_t>(all.size())});
  std::sort(all.begin(), all.end());
  all.resize(n);
  for (Candidate& c : all) c.id = c.value > -INFINITY ? c.id : -1;
  return all;
}

void expect_same(const Sampled& got, const Sampled& want) {
  EXPECT_EQ(got.id, want.id);
  EXPECT_EQ(got.logprob, want.logprob);
  EXPECT_EQ(got.entropy, want.entropy);
  EXPECT_EQ(got.p_max, want.p_max);
  ASSERT_EQ(got.top.size(), want.top.size());
  for (size_t i = 0; i < got.top.size(); ++i) {
    EXPECT_EQ(got.top[i].id, want.top[i].id);
    EXPECT_EQ(got.top[i].value, want.top[i].value);
  }
}

TEST(Sample, PartialLogitsSufficeWhereNeededSaysSo) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto some = [&](float value, float neutral) { return random() % 2 ? value : neutral; };
  int partial_logits = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits = random_logits(random, 3000, 2);
    if (round % 3 == 0) {
      for (float& l : logits) l = std::rint(l * 4) / 4;  // many equal ones
    }
    SamplingParams p;
    p.temperature = some(0.7F, 0);
    p.top_k = 1 + static_cast<int32_t>(random() % 100);
    p.typical = some(0.9F, 1);
    p.top_p = some(0.95F, 1);
    p.min_p = some(0.1F, 0);
    p.xtc_probability = some(0.5F, 0);
    p.dynatemp_range = some(0.3F, 0);
    p.repeat_penalty = some(1.5F, 1);
    p.presence_penalty = some(1, 0);
    p.frequency_penalty = some(0.3F, 0);
    p.penalty_window = static_cast<int32_t>(random() % 25);
    p.seed = random();
    p.logprobs = static_cast<int32_t>(random() % 40) - 10;
    p.logprobs = std::max(p.logprobs, -1);
    if (random() % 2 == 0) p.dry.multiplier = 1;
    p.dry.allowed_length = 1;
    // Likely tokens, so that changes to their logits matter.
    std::vector<int32_t> history;
    for (const Candidate& c : largest_of(logits, 60)) history.push_back(c.id);
    std::shuffle(history.begin(), history.end(), random);
    history.insert(history.end(), history.begin(), history.begin() + 3);
    for (uint32_t n = random() % 3 * 20; n > 0; --n) {
      const auto id = random() % 2 ? random() % logits.size() : static_cast<size_t>(history[n]);
      p.logit_bias.push_back(
          {static_cast<int32_t>(id), random() % 5 ? static_cast<float>(n) / 8 - 2 : -INFINITY});
    }
    if (random() % 3 == 0) std::rotate(p.order.begin(), p.order.end() - 1, p.order.end());
    SCOPED_TRACE(round);
    Sampler sampler(p);
    std::vector<uint32_t> set;
    if (round % 4 < 2) {
      set.assign(static_cast<size_t>(kernels::mask_words(3000)), 0);
      const uint32_t divisor = round % 4 == 0 ? 2 : 100;
      for (uint32_t& word : set) {
        for (uint32_t bit = 0; bit < 32; ++bit) word |= (random() % divisor == 0 ? 1U : 0U) << bit;
      }
      set[0] |= 1;
      std::erase_if(p.logit_bias, [](const LogitBias& b) { return b.id == 0; });
      sampler = Sampler(p);
    }
    const Needed needed = sampler.needed(128, !set.empty());
    if (!set.empty() && p.logprobs > 0) {
      EXPECT_EQ(needed, Needed{}) << "the most likely tokens may be outside the set";
      continue;
    }
    const bool temperature_first = p.order.front() == SamplerType::kTemperature;
    if (needed.largest == 0) {  // dynamic temperature before top-k depends on all logits
      EXPECT_TRUE(temperature_first && p.dynatemp_range > 0) << round;
      continue;
    }
    ++partial_logits;
    std::vector<int32_t> ids;
    ASSERT_TRUE(sampler.selected_ids(history, 3000, ids).ok());
    std::vector<Candidate> selected;
    std::vector<float> left = logits;
    for (const int32_t id : ids) {
      selected.push_back({std::exchange(left[static_cast<size_t>(id)], -INFINITY), id});
    }
    for (size_t id = 0; !set.empty() && id < left.size(); ++id) {
      if (!kernels::contains(set, static_cast<int32_t>(id))) left[id] = -INFINITY;
    }
    const auto largest = largest_of(left, static_cast<size_t>(needed.largest) + random() % 5);
    const kernels::LogSumExp sums = log_sum_exp(logits);
    const auto got =
        sampler.sample({largest, selected, needed.sums ? &sums : nullptr}, history, 7, set);
    const auto want = Sampler(p).sample(logits, history, 7, set);
    ASSERT_TRUE(got.ok() && want.ok()) << round;
    ASSERT_TRUE(got->has_value()) << round;
    expect_same(**got, *want);
  }
  EXPECT_GT(partial_logits, 100);  // about 175 are expected
}

TEST(Sample, PartialLogitsDecideTopPAndMinPIfFewTokensPass) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int decided = 0;
  int undecided = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits = random_logits(random, 3000, round % 2 ? 1 : 5);
    if (round % 3 == 0) {
      for (float& l : logits) l = std::rint(l * 4) / 4;  // many equal ones
    }
    SamplingParams p;
    p.temperature = 1;
    if (random() % 2) p.top_p = random() % 2 ? 0.9F : 0.3F;
    if (random() % 2 || p.top_p == 1) p.min_p = random() % 2 ? 0.1F : 0.01F;
    if (random() % 2) p.order = {SamplerType::kMinP, SamplerType::kTopP, SamplerType::kTemperature};
    p.logprobs = random() % 2 ? 3 : -1;
    p.seed = random();
    std::vector<int32_t> history;
    if (p.top_p == 1 || random() % 2) {  // the sums are those of the unchanged logits
      p.logit_bias = {{static_cast<int32_t>(random() % 3000), 4}};
      p.presence_penalty = 1;
      for (const Candidate& c : largest_of(logits, 9)) history.push_back(c.id);
      if (random() % 2) p.logit_bias.push_back({history[0], -INFINITY});
      if (random() % 2) p.dry.multiplier = 0.8F;
    }
    SCOPED_TRACE(round);
    Sampler sampler(p);
    const Needed needed = sampler.needed(128);
    ASSERT_EQ(needed.largest, 128) << round;
    std::vector<int32_t> ids;
    ASSERT_TRUE(sampler.selected_ids(history, 3000, ids).ok());
    std::vector<Candidate> selected;
    std::vector<float> left = logits;
    for (const int32_t id : ids) {
      selected.push_back({std::exchange(left[static_cast<size_t>(id)], -INFINITY), id});
    }
    const auto largest = largest_of(left, 128);
    const kernels::LogSumExp sums = log_sum_exp(logits);
    const auto got = sampler.sample({largest, selected, needed.sums ? &sums : nullptr}, history, 7);
    const auto want = sample(logits, history, 7, p);
    ASSERT_TRUE(got.ok() && want.ok()) << round;
    (got->has_value() ? decided : undecided) += 1;
    if (got->has_value()) expect_same(**got, *want);
  }
  EXPECT_GT(decided, 50);
  EXPECT_GT(undecided, 50);
}

TEST(Sample, SelectedIdsAreThoseAdjustedBeforeTokensAreRemoved) {
  SamplingParams p;
  p.top_k = 5;
  p.logit_bias = {{9, 1}, {3, -1}, {9, 2}};
  p.presence_penalty = 1;
  p.penalty_window = 3;
  const std::vector<int32_t> history = {1, 7, 2, 7};
  const auto selected = [&] {
    std::vector<int32_t> ids = {100};
    EXPECT_TRUE(Sampler(p).selected_ids(history, 20, ids).ok());
    return ids;
  };
  EXPECT_EQ(selected(), (std::vector<int32_t>{2, 3, 7, 9}));
  p.penalty_window = -1;
  EXPECT_EQ(selected(), (std::vector<int32_t>{1, 2, 3, 7, 9}));
  p.order = {SamplerType::kTopK, SamplerType::kPenalties};
  EXPECT_EQ(selected(), (std::vector<int32_t>{3, 9}));
  p.presence_penalty = 0;
  p.logit_bias = {};
  EXPECT_TRUE(selected().empty());
}

TEST(Sample, OtherChainsNeedTheWholeRow) {
  const auto needed = [](const auto& change) {
    SamplingParams p;
    p.top_k = 20;
    p.temperature = 0.7F;
    change(p);
    const Needed n = Sampler(p).needed(128);
    EXPECT_EQ(n.sums, n.largest > 0 && p.logprobs >= 0);
    return n.largest;
  };
  EXPECT_EQ(needed([](SamplingParams&) {}), 20);
  EXPECT_EQ(needed([](SamplingParams& p) { p.temperature = 0; }), 1);
  EXPECT_EQ(needed([](SamplingParams& p) { p.top_k = 0, p.temperature = 0; }), 1);
  EXPECT_EQ(needed([](SamplingParams& p) { p.top_k = 129; }), 0);
  EXPECT_EQ(needed([](SamplingParams& p) { p.top_k = 0; }), 0);
  EXPECT_EQ(needed([](SamplingParams& p) { p.logprobs = 0; }), 20);
  EXPECT_EQ(needed([](SamplingParams& p) { p.logprobs = 30; }), 30);
  EXPECT_EQ(needed([](SamplingParams& p) { p.logprobs = 129; }), 0);
  EXPECT_EQ(needed([](SamplingParams& p) { p.logit_bias = {{3, 1}}; }), 20);
  EXPECT_EQ(needed([](SamplingParams& p) { p.repeat_penalty = 0.9F; }), 20);
  EXPECT_EQ(needed([](SamplingParams& p) { p.dry.multiplier = 0.8F; }), 20);
  EXPECT_EQ(needed([](SamplingParams& p) { p.top_n_sigma = 1; }), 0);
  EXPECT_EQ(needed([](SamplingParams& p) { p.mirostat = 2; }), 0);
  EXPECT_EQ(needed([](SamplingParams& p) {
              p.order = {SamplerType::kTypical, SamplerType::kTopK}, p.typical = 0.9F;
            }),
            0);
  EXPECT_EQ(needed([](SamplingParams& p) { p.top_k = 0, p.min_p = 0.1F, p.dry.multiplier = 1; }),
            128);
  EXPECT_EQ(needed([](SamplingParams& p) {
              p.order = {SamplerType::kTemperature, SamplerType::kTopP}, p.top_p = 0.9F;
            }),
            0);
  SamplingParams nucleus;
  nucleus.top_p = 0.9F;
  nucleus.temperature = 1;
  EXPECT_EQ(Sampler(nucleus).needed(200), (Needed{128, true}));
  EXPECT_EQ(Sampler(nucleus).needed(10), (Needed{10, true}));
  nucleus.dry.multiplier = 1;
  EXPECT_EQ(Sampler(nucleus).needed(200), (Needed{128, true}));
}

TEST(Sample, RejectsPartialLogitsThatAreNotNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Sampler sampler({});
  const Candidate bad[] = {{kInfinity, -1}};
  const std::string no_numbers = sample({1, NAN}, {}, 0, {}).error().message;
  EXPECT_EQ(sampler.sample({.largest = bad}, {}, 0).error().message, no_numbers);
  const Candidate masked[] = {{-kInfinity, -1}};
  const std::string none_left = sample({-kInfinity, -kInfinity}, {}, 0, {}).error().message;
  EXPECT_EQ(sampler.sample({.largest = masked}, {}, 0).error().message, none_left);
  const Candidate good[] = {{2, 1}};
  EXPECT_TRUE(sampler.sample({.largest = good, .selected = masked}, {}, 0).ok());
  for (const float x : {kInfinity, -kInfinity, NAN}) {
    const Candidate selected[] = {{x, 4}};
    EXPECT_EQ(sampler.sample({.largest = masked, .selected = selected}, {}, 0).error().message,
              x == -kInfinity ? none_left : no_numbers);
    EXPECT_EQ(sampler.sample({.largest = good, .selected = selected}, {}, 0).ok(), x == -kInfinity);
  }
  // A finite logit that becomes infinite.
  SamplingParams p;
  p.repeat_penalty = 0.01F;
  const Candidate huge[] = {{3e38F, 4}};
  EXPECT_EQ(Sampler(p).sample({.largest = good, .selected = huge}, {{4}}, 0).error().message,
            no_numbers);
  EXPECT_EQ(sample({0, 2, 0, 0, 3e38F}, {4}, 0, p).error().message, no_numbers);
}

TEST(Sample, RejectsLogitsThatAreNotNumbers) {
  EXPECT_FALSE(sample(std::vector<float>{0, NAN}, {}, 0, {}).ok());
}

TEST(Validate, NamesTheValueThatIsOutOfRange) {
  EXPECT_TRUE(validate({}).ok());
  SamplingParams p;
  p.top_p = 0;
  EXPECT_NE(validate(p).error().message.find("top-p"), std::string::npos);
  p = {};
  p.temperature = NAN;
  EXPECT_FALSE(validate(p).ok());
  p = {};
  p.temperature = -1;
  EXPECT_FALSE(validate(p).ok());
  p = {};
  p.min_p = 1.5F;
  EXPECT_FALSE(validate(p).ok());
}

}  // namespace
}  // namespace chimere::sampling
