#include "serving/work_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace chimere::serving {
namespace {

TEST(WorkQueue, QuickTasksDoNotWaitForSlowOnes) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::vector<std::promise<void>> begun(3);
  std::vector<std::promise<void>> ended(3);
  std::promise<void> quick;
  WorkQueue queue(1, 100, 1);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(queue.push([&, i] {
      begun[i].set_value();
      queue.yield();
      released.wait();
      ended[i].set_value();
    }));
  }
  for (auto& one : begun) one.get_future().wait();
  ASSERT_TRUE(queue.push([&] { quick.set_value(); }));
  quick.get_future().wait();  // while all slow tasks are in progress or wait
  release.set_value();
  for (auto& one : ended) one.get_future().wait();
}

TEST(WorkQueue, SlowTasksRunOneAfterTheOther) {
  constexpr int kTasks = 200;  // more than there may be threads
  int running = 0;             // guarded by the order
  int ended = 0;
  std::promise<void> all;
  WorkQueue queue(2, 1000, 1);
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(queue.push([&] {
      queue.yield();
      EXPECT_EQ(++running, 1);
      --running;
      if (++ended == kTasks) all.set_value();
    }));
  }
  all.get_future().wait();
}

TEST(WorkQueue, StopsWithTasksThatWait) {
  std::promise<void> release;
  std::promise<void> begun;
  std::promise<void> waits;
  WorkQueue queue(1, 2, 1);
  ASSERT_TRUE(queue.push([&] {
    queue.yield();
    begun.set_value();
    release.get_future().wait();
  }));
  begun.get_future().wait();
  ASSERT_TRUE(queue.push([&] {
    waits.set_value();
    queue.yield();
  }));
  waits.get_future().wait();
  release.set_value();
  queue.stop();
  EXPECT_FALSE(queue.push([] {}));
}

}  // namespace
}  // namespace chimere::serving
