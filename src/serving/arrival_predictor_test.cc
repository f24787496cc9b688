#include "serving/arrival_predictor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace chimere::serving {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(ArrivalPredictor, LearnsTheInterval) {
  ArrivalPredictor arrival_predictor;
  ArrivalPredictor::Clock::time_point at{};
  for (int i = 0; i < 4; ++i, at += microseconds(300)) EXPECT_FALSE(arrival_predictor.add(at));
  for (int i = 0; i < 20; ++i, at += microseconds(300)) {
    const auto next = arrival_predictor.add(at);
    ASSERT_TRUE(next);
    EXPECT_EQ(*next, at + microseconds(300));
  }
  // A late event delays the next prediction, by at most a quarter of the interval.
  at += microseconds(900);
  const auto next = arrival_predictor.add(at);
  ASSERT_TRUE(next);
  EXPECT_GT(*next, at + microseconds(300));
  EXPECT_LT(*next, at + microseconds(600));
}

TEST(ArrivalPredictor, APauseBeginsANewSeries) {
  ArrivalPredictor arrival_predictor;
  ArrivalPredictor::Clock::time_point at{};
  for (int i = 0; i < 8; ++i, at += milliseconds(1)) (void)arrival_predictor.add(at);
  at += ArrivalPredictor::kLongest;
  for (int i = 0; i < 4; ++i, at += milliseconds(2)) EXPECT_FALSE(arrival_predictor.add(at));
  const auto next = arrival_predictor.add(at);
  ASSERT_TRUE(next);
  EXPECT_EQ(*next, at + milliseconds(2));
}

}  // namespace
}  // namespace chimere::serving
