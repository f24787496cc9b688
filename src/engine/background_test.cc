#include "engine/background.h"

#include <gtest/gtest.h>

#include <vector>

namespace chimere::engine {
namespace {

TEST(Background, CompletionsRunInOrderOnTheOwnersThread) {
  Background background(nullptr);
  std::vector<int> ran;
  for (int i = 0; i < 100; ++i) {
    background.post([&ran, i]() -> Background::Done { return [&ran, i] { ran.push_back(i); }; });
  }
  while (background.outstanding() > 0) {
    background.wait();
    EXPECT_TRUE(background.poll());
  }
  ASSERT_EQ(ran.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<size_t>(i)], i);
  EXPECT_FALSE(background.poll());
  background.wait();  // returns at once
}

// The prefix cache does this when a loaded state does not fit: it waits for a state that is being
// copied out, whose completion may be ready already.
TEST(Background, ACompletionMayWaitForOthers) {
  Background background(nullptr);
  int ran = 0;
  const auto job = [&]() -> Background::Done {
    return [&] {
      ++ran;
      while (background.outstanding() > 0) {
        background.wait();
        background.poll();
      }
    };
  };
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 3; ++i) background.post(job);
    background.wait();
    background.poll();
    while (background.outstanding() > 0) {
      background.wait();
      background.poll();
    }
  }
  EXPECT_EQ(ran, 600);
}

}  // namespace
}  // namespace chimere::engine
