#include "engine/pace.h"

#include <gtest/gtest.h>

namespace chimere::engine {
namespace {

constexpr double kReplyStep = 0.004;
constexpr double kSlowdown = 2;

TEST(Pace, KeepsStepsWithPromptsShort) {
  for (const double row : {1e-6, 1e-5, 3e-5}) {
    Pace pace(kSlowdown);
    EXPECT_EQ(pace.prompt_rows(8, 500), 64) << "nothing is known yet";
    EXPECT_EQ(pace.prompt_rows(0, 500), 500);
    for (int i = 0; i < 20; ++i) pace.measured(8, 0, kReplyStep);
    double worst = 0;
    for (int i = 0; i < 60; ++i) {
      const int64_t rows = pace.prompt_rows(8, 500);
      const double seconds = kReplyStep + row * static_cast<double>(rows);
      if (i > 0) worst = std::max(worst, seconds);
      pace.measured(8, rows, seconds);
    }
    EXPECT_LE(worst, kSlowdown * kReplyStep * 1.01) << row;
    EXPECT_GE(pace.prompt_rows(8, 500), std::min(500.0, 0.98 * kReplyStep / row)) << row;
    EXPECT_EQ(pace.prompt_rows(0, 500), 500) << "nobody waits";
  }
}

TEST(Pace, AWholeChunkIsAlwaysAllowed) {
  Pace pace(kSlowdown);
  for (int i = 0; i < 20; ++i) pace.measured(1, 0, 1e-4);
  for (int i = 0; i < 20; ++i) pace.measured(1, 64, 0.1);
  EXPECT_EQ(pace.prompt_rows(1, 500), 64);
  EXPECT_EQ(pace.prompt_rows(1, 40), 40);
}

TEST(Pace, SaysWhenAChunkIsTooSlow) {
  Pace pace(kSlowdown);
  EXPECT_TRUE(pace.too_slow(1, 64)) << "nothing is known yet";
  EXPECT_FALSE(pace.too_slow(0, 64)) << "nobody waits";
  EXPECT_FALSE(pace.too_slow(1, 0));
  for (int i = 0; i < 20; ++i) pace.measured(8, 0, kReplyStep);
  for (int i = 0; i < 20; ++i) pace.measured(0, 64, kReplyStep);
  EXPECT_DOUBLE_EQ(pace.patience(), (kSlowdown - 1) * kReplyStep);
  EXPECT_FALSE(pace.too_slow(8, 60));
  EXPECT_TRUE(pace.too_slow(8, 68));
}

TEST(Pace, FollowsTheLoad) {
  Pace pace(kSlowdown);
  for (int i = 0; i < 20; ++i) pace.measured(1, 0, 0.001);
  for (int i = 0; i < 20; ++i) pace.measured(0, 100, 0.001);
  EXPECT_NEAR(static_cast<double>(pace.prompt_rows(1, 5000)), 100, 2);
  for (int i = 0; i < 20; ++i) pace.measured(32, 0, 0.01);
  EXPECT_NEAR(static_cast<double>(pace.prompt_rows(32, 5000)), 1000, 30);
}

}  // namespace
}  // namespace chimere::engine
