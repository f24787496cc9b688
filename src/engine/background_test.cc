#include "engine/background.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <vector>

namespace chimere::engine {
namespace {

TEST(Background, ResultsRunInOrderOnTheOwnersThread) {
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
  background.wait();  // for nothing
}

TEST(Background, AQuickJobDoesNotWaitForALongOne) {
  Background background(nullptr);
  std::promise<void> end;
  bool long_one = false;
  bool quick_one = false;
  background.post([&]() -> Background::Done {
    end.get_future().wait();
    return [&] { long_one = true; };
  });
  background.post([&]() -> Background::Done { return [&] { quick_one = true; }; },
                  Background::Lane::kQuick);
  background.wait();
  EXPECT_TRUE(background.poll());
  EXPECT_TRUE(quick_one);
  EXPECT_FALSE(long_one);
  background.wait_until(std::chrono::steady_clock::now());  // nothing comes by then
  EXPECT_FALSE(background.poll());
  end.set_value();
  background.wait();
  background.poll();
  EXPECT_TRUE(long_one);
}

// The prefix cache does so when a state that was read finds no room: it waits for one that is
// being copied away, whose result may be there already.
TEST(Background, AResultMayWaitForTheOthers) {
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
