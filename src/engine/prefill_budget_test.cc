#include "engine/prefill_budget.h"

#include <gtest/gtest.h>

namespace chimere::engine {
namespace {

constexpr double kDecodeStep = 0.004;
constexpr double kMaxItlRatio = 2;

TEST(PrefillBudget, KeepsStepsWithPromptsShort) {
  for (const double row : {1e-6, 1e-5, 3e-5}) {
    PrefillBudget prefill_budget(kMaxItlRatio);
    EXPECT_EQ(prefill_budget.prompt_rows(8, 500), 64) << "nothing has been measured yet";
    EXPECT_EQ(prefill_budget.prompt_rows(0, 500), 500);
    for (int i = 0; i < 20; ++i) prefill_budget.record(8, 0, kDecodeStep);
    double worst = 0;
    for (int i = 0; i < 60; ++i) {
      const int64_t rows = prefill_budget.prompt_rows(8, 500);
      const double seconds = kDecodeStep + row * static_cast<double>(rows);
      if (i > 0) worst = std::max(worst, seconds);
      prefill_budget.record(8, rows, seconds);
    }
    EXPECT_LE(worst, kMaxItlRatio * kDecodeStep * 1.01) << row;
    EXPECT_GE(prefill_budget.prompt_rows(8, 500), std::min(500.0, 0.98 * kDecodeStep / row)) << row;
    EXPECT_EQ(prefill_budget.prompt_rows(0, 500), 500) << "no request is decoding";
  }
}

TEST(PrefillBudget, AWholeChunkIsAlwaysAllowed) {
  PrefillBudget prefill_budget(kMaxItlRatio);
  for (int i = 0; i < 20; ++i) prefill_budget.record(1, 0, 1e-4);
  for (int i = 0; i < 20; ++i) prefill_budget.record(1, 64, 0.1);
  EXPECT_EQ(prefill_budget.prompt_rows(1, 500), 64);
  EXPECT_EQ(prefill_budget.prompt_rows(1, 40), 40);
}

TEST(PrefillBudget, DetectsChunksThatAreTooSlow) {
  PrefillBudget prefill_budget(kMaxItlRatio);
  EXPECT_TRUE(prefill_budget.too_slow(1, 64)) << "nothing has been measured yet";
  EXPECT_FALSE(prefill_budget.too_slow(0, 64)) << "no request is decoding";
  EXPECT_FALSE(prefill_budget.too_slow(1, 0));
  for (int i = 0; i < 20; ++i) prefill_budget.record(8, 0, kDecodeStep);
  for (int i = 0; i < 20; ++i) prefill_budget.record(0, 64, kDecodeStep);
  EXPECT_DOUBLE_EQ(prefill_budget.itl_budget(), (kMaxItlRatio - 1) * kDecodeStep);
  EXPECT_FALSE(prefill_budget.too_slow(8, 60));
  EXPECT_TRUE(prefill_budget.too_slow(8, 68));
}

TEST(PrefillBudget, FollowsTheLoad) {
  PrefillBudget prefill_budget(kMaxItlRatio);
  for (int i = 0; i < 20; ++i) prefill_budget.record(1, 0, 0.001);
  for (int i = 0; i < 20; ++i) prefill_budget.record(0, 100, 0.001);
  EXPECT_NEAR(static_cast<double>(prefill_budget.prompt_rows(1, 5000)), 100, 2);
  for (int i = 0; i < 20; ++i) prefill_budget.record(32, 0, 0.01);
  EXPECT_NEAR(static_cast<double>(prefill_budget.prompt_rows(32, 5000)), 1000, 30);
}

}  // namespace
}  // namespace chimere::engine
