#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/generation_factory.h"
#include "engine/step_planner.h"
#include "support/fake_model.h"

namespace chimere::engine {
namespace {

/// Waiting requests whose steps the test plans but does not compute.
class Scheduling : public ::testing::Test {
 protected:
  std::unique_ptr<Generation> make(RequestId id, const std::string& owner, size_t prompt = 100) {
    Request request;
    request.owner = owner;
    request.prompt.assign(prompt, 7);
    return generations_.make(id, std::move(request), false);
  }
  static std::vector<RequestId> ids(const Scheduler::List& list) {
    std::vector<RequestId> out;
    for (const auto& g : list) out.push_back(g->id());
    return out;
  }

  test::FakeModel model_{16};
  const test::FakeTokenizer tokenizer_;
  Drafters drafters_{{.target = model_}, {}};
  GenerationFactory generations_{model_, tokenizer_, drafters_, 4096};
};

TEST_F(Scheduling, OwnersTakeTurns) {
  Scheduler scheduler(model_.states(), nullptr, 3, [] { return false; });
  for (RequestId id = 1; id <= 3; ++id) scheduler.add(make(id, "ann"));
  scheduler.add(make(4, "bob"));
  EXPECT_TRUE(scheduler.may_admit());
  scheduler.admit();
  EXPECT_THAT(ids(scheduler.running()), ::testing::ElementsAre(1, 2, 4));
  EXPECT_THAT(ids(scheduler.waiting()), ::testing::ElementsAre(3));
  EXPECT_FALSE(scheduler.may_admit());
  scheduler.find(2)->finish(FinishReason::kCancelled);
  scheduler.drop_finished();
  scheduler.admit();
  EXPECT_THAT(ids(scheduler.running()), ::testing::ElementsAre(1, 3, 4));
}

TEST_F(Scheduling, ASuspendedRequestWaitsInItsPlace) {
  Scheduler scheduler(model_.states(), nullptr, 2, [] { return false; });
  for (RequestId id = 1; id <= 3; ++id) scheduler.add(make(id, "ann"));
  scheduler.admit();
  scheduler.suspend_youngest();
  EXPECT_EQ(scheduler.evictions(), 1);
  EXPECT_THAT(ids(scheduler.waiting()), ::testing::ElementsAre(2, 3));
  scheduler.admit();
  EXPECT_THAT(ids(scheduler.running()), ::testing::ElementsAre(1)) << "the store was just full";
  scheduler.find(1)->finish(FinishReason::kStop);
  scheduler.drop_finished();
  scheduler.admit();
  EXPECT_THAT(ids(scheduler.running()), ::testing::ElementsAre(2, 3));
}

TEST_F(Scheduling, IdleMemoryIsReleasedBeforeARequestWaits) {
  int released = 0;
  Scheduler scheduler(model_.states(), nullptr, 8, [&] {
    ++released;
    return false;
  });
  scheduler.add(make(1, "ann", 600));  // 10 of 16 pages
  scheduler.add(make(2, "ann", 600));
  scheduler.admit();
  EXPECT_THAT(ids(scheduler.running()), ::testing::ElementsAre(1));
  EXPECT_EQ(released, 1);
}

TEST_F(Scheduling, StepsHoldWholeChunksOfEachOwnerInTurn) {
  Scheduler scheduler(model_.states(), nullptr, 8, [] { return false; });
  scheduler.add(make(1, "ann", 200));
  scheduler.add(make(2, "bob", 70));
  scheduler.admit();
  StepPlanner planner(192, 2);
  std::vector<PlannedRows> planned;
  planner.plan(scheduler.running(), planned);
  ASSERT_EQ(planned.size(), 2U);  // ann 64, bob 64, then ann's next chunk
  EXPECT_EQ(planned[0].generation->id(), 1);
  EXPECT_EQ(planned[0].prompt_rows, 128);
  EXPECT_EQ(planned[1].prompt_rows, 64);
  EXPECT_FALSE(planned[1].samples);
  planner.plan(scheduler.running(), planned);
  ASSERT_EQ(planned.size(), 2U);  // bob's turn comes first
  EXPECT_EQ(planned[0].generation->id(), 2);
  EXPECT_EQ(planned[0].prompt_rows, 70);
  EXPECT_TRUE(planned[0].samples);
  EXPECT_EQ(planned[1].prompt_rows, 64);
  StepPlanner::plan_decode(scheduler.running(), planned);
  EXPECT_THAT(planned, ::testing::IsEmpty());
  EXPECT_EQ(planner.draft_rows(scheduler.running()), 192 - 64);
}

}  // namespace
}  // namespace chimere::engine
