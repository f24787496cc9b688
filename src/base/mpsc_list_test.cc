#include "base/mpsc_list.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace chimere {
namespace {

TEST(MpscList, KeepsTheOrderOfEachProducer) {
  constexpr int kThreads = 4;
  constexpr int kEach = 20000;
  MpscList<std::pair<int, std::unique_ptr<int>>> list;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&list, t] {
      for (int i = 0; i < kEach; ++i) list.push({t, std::make_unique<int>(i)});
    });
  }
  std::vector<int> next(kThreads);
  std::vector<std::pair<int, std::unique_ptr<int>>> taken;
  for (int received = 0; received < kThreads * kEach;) {
    taken.clear();
    list.take(taken);
    for (const auto& [thread, value] : taken) {
      ASSERT_EQ(*value, next[static_cast<size_t>(thread)]++);
      ++received;
    }
  }
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(list.empty());
}

TEST(MpscList, TellsWhetherItWasEmptyAndFreesItsValues) {
  const auto value = std::make_shared<int>(1);
  {
    MpscList<std::shared_ptr<int>> list;
    EXPECT_TRUE(list.push(value));
    EXPECT_FALSE(list.push(value));
    std::vector<std::shared_ptr<int>> taken = {nullptr};
    list.take(taken);
    EXPECT_EQ(taken.size(), 3U);
    EXPECT_TRUE(list.push(value));
  }
  EXPECT_EQ(value.use_count(), 1);
}

}  // namespace
}  // namespace chimere
