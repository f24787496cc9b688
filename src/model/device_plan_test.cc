#include "model/device_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace chimere::model {
namespace {

using Pair = std::pair<int64_t, int64_t>;

constexpr int64_t kPage = 64;

/// 1,000 bytes of weights, a page of 640 bytes for each of 10 pages, 5 states of 1,000 bytes.
DevicePlan small_plan() {
  DevicePlan plan;
  plan.weights = 1000;
  plan.kv = 6400;
  plan.state = 1000;
  plan.states = 5;
  return plan;
}

TEST(DevicePlan, SharesWhatIsLeftBetweenPositionsAndStates) {
  const DevicePlan plan = small_plan();
  const int64_t total = plan.total();
  ASSERT_EQ(total, 12400);
  const auto reserve = [&](int64_t left, int64_t max_pages, int64_t max_states) {
    const auto r = plan.reserve(total + left, 10 * kPage, max_pages * kPage, max_states, 0);
    EXPECT_LE((r.positions / kPage - 10) * 640 + (r.states - 5) * 1000, std::max<int64_t>(0, left));
    return Pair(r.positions / kPage, r.states);
  };
  EXPECT_EQ(reserve(0, 1000, 100), Pair(10, 5));
  EXPECT_EQ(reserve(-5000, 1000, 100), Pair(10, 5)) << "the plan itself does not fit";
  EXPECT_EQ(reserve(12800, 1000, 100), Pair(20, 11)) << "a half each";
  EXPECT_EQ(reserve(12800, 12, 100), Pair(12, 16)) << "few positions are wanted";
  EXPECT_EQ(reserve(12800, 1000, 6), Pair(28, 6)) << "few states are wanted";
  EXPECT_EQ(reserve(1'000'000, 12, 6), Pair(12, 6));
}

TEST(DevicePlan, PendingRowsGetAtMostAnEighthOfWhatIsLeft) {
  DevicePlan plan = small_plan();
  plan.pending_row = 50;
  plan.pending_rows = 4;
  EXPECT_EQ(plan.total(), 12400 + 4 * 50);
  EXPECT_EQ(plan.reserve_pending_rows(plan.total() - 1, 100), 4);
  EXPECT_EQ(plan.reserve_pending_rows(plan.total() + 8000, 100), 4 + 20);
  EXPECT_EQ(plan.reserve_pending_rows(plan.total() + 80000, 100), 100);
  const auto r = plan.reserve(plan.total() + 8000, 10 * kPage, 1000 * kPage, 100, 100);
  EXPECT_EQ(r.pending_rows, 24);
  EXPECT_LE((r.positions / kPage - 10) * 640 + (r.states - 5) * 1000, 7000);
  EXPECT_GE(r.states, 5 + 3);
}

TEST(DevicePlan, ModelsOfOneKindOfState) {
  DevicePlan attention = small_plan();
  attention.state = 0;
  auto r = attention.reserve(attention.total() + 6400, 10 * kPage, 1000 * kPage, 100, 256);
  EXPECT_EQ(r.positions, 20 * kPage);
  EXPECT_EQ(r.states, 100);
  DevicePlan recurrent = small_plan();
  recurrent.kv = 0;
  r = recurrent.reserve(recurrent.total() + 5000, 10 * kPage, 1000 * kPage, 100, 256);
  EXPECT_EQ(r.positions, 1000 * kPage);
  EXPECT_EQ(r.states, 10);
}

}  // namespace
}  // namespace chimere::model
