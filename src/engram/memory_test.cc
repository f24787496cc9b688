#include "engram/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/fresh_seed.h"
#include "engram/fit_gate.h"

namespace chimere::engram {
namespace {

using Documents = std::vector<std::vector<int32_t>>;
constexpr size_t kVocabulary = 12;

class MemoryTest : public testing::Test {
 protected:
  std::shared_ptr<const Table> table(const Documents& documents, int order,
                                     std::span<const float> gate = {}) {
    const std::string path =
        testing::TempDir() + "memory_test_" + std::to_string(++files_) + ".engr";
    const Counts counts = Counts::of(documents, order, {"a", 20000, kOne}).value();
    EXPECT_TRUE(write_table(path, counts, 1, gate).ok());
    return open_table(path, {}).value();
  }
  static Documents random_text(std::mt19937& rng, size_t size) {
    Documents out(1, std::vector<int32_t>(size));
    for (auto& t : out[0]) t = static_cast<int32_t>(rng() % 5);
    return out;
  }
  ModelPrediction prediction(std::mt19937& rng) {
    logits_.resize(kVocabulary);
    double sum = 0;
    for (float& l : logits_) {
      l = std::uniform_real_distribution<float>(-3, 3)(rng);
      sum += std::exp(static_cast<double>(l));
    }
    const auto top = std::ranges::max_element(logits_);
    return {logits_, std::log(sum), 1.5, static_cast<int32_t>(top - logits_.begin()),
            static_cast<double>(*top) - std::log(sum)};
  }
  int files_ = 0;
  std::vector<float> logits_;
};

/// Interpolated Kneser-Ney over the table's contexts, computed directly, with the model as the
/// lowest order.
TEST_F(MemoryTest, KneserNeyIsTheTextbookRecursion) {
  const unsigned seed = fresh_seed();
  const testing::ScopedTrace trace(__FILE__, __LINE__, seed);
  std::mt19937 rng(seed);
  const Documents text = random_text(rng, 400);
  const auto known = table(text, 3);
  Memory memory = Memory::create({known}, Gating::kKneserNey).value();
  for (size_t n = 3; n < 100; ++n) {
    const auto history = std::span<const int32_t>(text[0]).first(n);
    ASSERT_TRUE(memory.look_up(history).value());
    const ModelPrediction b = prediction(rng);
    std::vector<double> p(kVocabulary);
    for (uint32_t t = 0; t < kVocabulary; ++t) p[t] = std::exp(b.log_probability(t));
    for (const Evidence& e : memory.evidence(0)) {
      const double lambda = 1 - std::clamp(kneser_ney_share(e), 1e-4, 1 - 1e-4);
      std::vector<double> next(kVocabulary, 0);
      double sum = 0;
      for (const Counted& c : e.top) {
        next[c.token] = std::max(0.0F, c.count - e.discounts.of(c.count));
        sum += next[c.token];
      }
      for (size_t t = 0; t < kVocabulary; ++t)
        next[t] = (sum > 0 ? (1 - lambda) * next[t] / sum : 0) + (sum > 0 ? lambda : 1) * p[t];
      p = next;
    }
    std::vector<double> mixed(kVocabulary);
    double taken = 0;
    for (const Share& s : memory.mix(b)) {
      mixed[s.token] = static_cast<double>(s.mass);
      taken += static_cast<double>(s.mass);
    }
    EXPECT_LE(taken, Memory::kMaxWeight + 1e-6);
    for (uint32_t t = 0; t < kVocabulary; ++t)
      EXPECT_NEAR(mixed[t] + (1 - taken) * std::exp(b.log_probability(t)), p[t], 1e-4) << n;
  }
}

TEST_F(MemoryTest, SharesAreAFunctionOfTheTextAlone) {
  std::mt19937 rng(fresh_seed());
  const Documents text = random_text(rng, 300);
  const auto known = table(text, 4);
  const auto shares_at = [&](Memory& memory, std::span<const int32_t> history) {
    std::mt19937 same(5);
    EXPECT_TRUE(memory.look_up(history).ok());
    const auto shares = memory.mix(prediction(same));
    std::vector<std::pair<uint32_t, float>> out;
    for (const Share& s : shares) out.emplace_back(s.token, s.mass);
    return out;
  };
  const std::span<const int32_t> tokens(text[0]);
  Memory growing = Memory::create({known}, Gating::kLearned).value();
  Memory jumping = Memory::create({known}, Gating::kLearned).value();
  for (size_t n = 1; n < 200; ++n) {
    Memory fresh = Memory::create({known}, Gating::kLearned).value();
    const auto expected = shares_at(fresh, tokens.first(n));
    EXPECT_EQ(shares_at(growing, tokens.first(n)), expected) << n;
    (void)shares_at(jumping, tokens.first(1 + rng() % 250));
    EXPECT_EQ(shares_at(jumping, tokens.first(n)), expected) << n;
  }
}

TEST_F(MemoryTest, UnknownContextsAddNothing) {
  const auto known = table({{1, 2, 3}}, 2);
  Memory memory = Memory::create({known}, Gating::kLearned).value();
  EXPECT_FALSE(memory.look_up(std::vector<int32_t>{9, 9}).value());
  EXPECT_FALSE(memory.look_up(std::vector<int32_t>{}).value());
  EXPECT_FALSE(Memory::create({}, Gating::kLearned)->look_up(std::vector<int32_t>{1}).value());
}

TEST_F(MemoryTest, MaskedAndOutOfVocabularyTokensGetNothing) {
  const auto known = table({{1, 2, 1, 2, 1, 3, 1, 100}}, 1);
  Memory memory = Memory::create({known}, Gating::kKneserNey).value();
  ASSERT_TRUE(memory.look_up(std::vector<int32_t>{1}).value());
  std::mt19937 rng(1);
  const ModelPrediction b = prediction(rng);
  logits_[2] = -std::numeric_limits<float>::infinity();
  for (const Share& s : memory.mix(b)) EXPECT_EQ(s.token, 3);
}

TEST_F(MemoryTest, SeveralTablesShareOneDistribution) {
  Memory memory =
      Memory::create({table({{1, 2, 1, 2}}, 1), table({{1, 4, 1, 4}}, 1)}, Gating::kKneserNey)
          .value();
  ASSERT_TRUE(memory.look_up(std::vector<int32_t>{1}).value());
  std::mt19937 rng(1);
  double sum = 0;
  std::vector<uint32_t> tokens;
  for (const Share& s : memory.mix(prediction(rng))) {
    sum += static_cast<double>(s.mass);
    tokens.push_back(s.token);
  }
  EXPECT_LT(sum, 1);
  std::ranges::sort(tokens);
  EXPECT_EQ(tokens, (std::vector<uint32_t>{2, 4}));
}

TEST_F(MemoryTest, ATableMayHaveItsOwnGate) {
  std::vector<float> never(kMaxOrder * kFeatures, 0);
  for (size_t i = 0; i < kMaxOrder; ++i) never[i * kFeatures + 1] = -20;
  Memory memory = Memory::create({table({{1, 2, 1, 2}}, 1, never)}, Gating::kLearned).value();
  ASSERT_TRUE(memory.look_up(std::vector<int32_t>{1}).value());
  std::mt19937 rng(1);
  for (const Share& s : memory.mix(prediction(rng))) EXPECT_LT(s.mass, 1e-6F);
  EXPECT_FALSE(
      Memory::create({table({{1, 2}}, 1, std::vector<float>{1, 2})}, Gating::kLearned).ok());
}

TEST_F(MemoryTest, FittingLearnsWhenToTrustTheTable) {
  // The table is right where it predicts 1 and wrong where it predicts 2.
  std::mt19937 rng(3);
  const auto known = table({{7, 1, 7, 1, 7, 1, 8, 2, 8, 2, 8, 2}}, 1);
  Memory memory = Memory::create({known}, Gating::kKneserNey).value();
  GateTrainer trainer;
  logits_.assign(kVocabulary, 0);
  ModelPrediction b{logits_, std::log(12.0), std::log(12.0), 0, -std::log(12.0)};
  for (int i = 0; i < 2000; ++i) {
    const bool good = i % 2 == 0;
    // The model is certain of another token where the table is wrong.
    logits_[5] = good ? 0 : 4;
    b.log_sum = std::log(11.0 + std::exp(static_cast<double>(logits_[5])));
    b.top = good ? 0 : 5;
    b.log_p_max = (good ? 0.0 : 4.0) - b.log_sum;
    b.entropy = good ? 2.48 : 1.0;
    ASSERT_TRUE(memory.look_up(std::vector<int32_t>{good ? 7 : 8}).value());
    trainer.add(memory, b, good ? 1 : 5);
  }
  const auto fitted = trainer.fit(40);
  EXPECT_LT(fitted.after, fitted.before - 0.3);
  EXPECT_LT(fitted.after, 0.35);
}

}  // namespace
}  // namespace chimere::engram
