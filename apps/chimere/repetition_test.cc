#include "repetition.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace chimere::app {
namespace {

TEST(Repetition, FindsATextThatRepeatsItself) {
  for (const int32_t period : {1, 3, 128}) {
    Repetition repetition;
    for (int32_t i = 0; i < 50; ++i) repetition.add(1000 + i);
    int32_t taken = 0;
    while (!repetition.endless() && taken < 5000) repetition.add(taken++ % period);
    const auto least = static_cast<int32_t>(
        std::max(Repetition::kLeast, Repetition::kRounds * static_cast<int64_t>(period)));
    EXPECT_EQ(taken, period + least) << period;
  }
}

TEST(Repetition, IsNotFoundInOtherTexts) {
  Repetition counting;
  Repetition growing;  // 1, 1 2, 1 2 3, ...
  for (int32_t i = 0; i < 5000; ++i) {
    counting.add(i);
    EXPECT_FALSE(counting.endless());
  }
  for (int32_t end = 1; end < 60; ++end) {
    for (int32_t i = 1; i <= end; ++i) growing.add(i);
    EXPECT_FALSE(growing.endless());
  }
  // Seven verses with the same refrain of 100 tokens.
  Repetition song;
  for (int32_t verse = 0; verse < 7; ++verse) {
    for (int32_t i = 0; i < 100; ++i) song.add(i);
    song.add(1000 + verse);
    EXPECT_FALSE(song.endless());
  }
}

}  // namespace
}  // namespace chimere::app
