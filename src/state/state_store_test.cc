#include "state/state_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace chimere::state {
namespace {

constexpr int kPageTokens = 4;

StateSpec small_spec(int64_t max_pages = 8, int64_t max_slots = 8) {
  StateSpec spec;
  spec.components = {
      {.kind = ComponentSpec::Kind::kConvolution, .layer = 0, .bytes = 64, .pending_bytes = 64},
      {.kind = ComponentSpec::Kind::kRecurrent, .layer = 0, .bytes = 128, .pending_bytes = 128},
      {.kind = ComponentSpec::Kind::kPagedKv, .layer = 1, .bytes = 64},
      {.kind = ComponentSpec::Kind::kPagedKv, .layer = 3, .bytes = 128}};
  spec.page_tokens = kPageTokens;
  spec.max_pages = max_pages;
  spec.max_slots = max_slots;
  spec.max_pending_rows = 8;
  return spec;
}

std::unique_ptr<StateStore> make_store(int64_t max_pages = 8, int64_t max_slots = 8) {
  auto store = StateStore::create(small_spec(max_pages, max_slots));
  EXPECT_TRUE(store.ok()) << store.error().message;
  return std::move(store).value();
}

void step(StateStore& store, SequenceState& sequence, int rows, bool revocable = false) {
  const RowsWanted wanted{&sequence, rows, revocable};
  auto reservation = store.reserve({&wanted, 1});
  ASSERT_TRUE(reservation.ok()) << reservation.error().message;
  reservation->apply();
}

TEST(StateStore, CountsBytes) {
  auto store = make_store();
  EXPECT_EQ(store->page_stride(), 192);
  EXPECT_EQ(store->bytes_per_token(), 48);
  EXPECT_EQ(store->bytes_per_slot(), 192);
  EXPECT_EQ(store->component_base(1), store->component_base(0) + 64);
  EXPECT_EQ(store->component_base(3), store->component_base(2) + 64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(store->component_base(2)) % 64, 0U);
}

TEST(StateStore, NewSequenceTakesNothingAndStartsFromZeros) {
  auto store = make_store();
  auto a = store->create_sequence();
  auto b = store->create_sequence();
  EXPECT_EQ(store->pages_in_use() + store->slots_in_use(), 0);
  const RowsWanted wanted{a.get(), 1, false};
  auto r = store->reserve({&wanted, 1});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->read_slots()[0], 0);
  EXPECT_NE(r->write_slots()[0], 0) << "the shared empty state must never be written";
  for (int64_t i = 0; i < store->slot_stride(); ++i) EXPECT_EQ(store->component_base(0)[i], 0);
}

TEST(StateStore, LoneSequenceIsUpdatedInPlace) {
  auto store = make_store();
  auto a = store->create_sequence();
  step(*store, *a, 3);
  EXPECT_EQ(a->position(), 3);
  const RowsWanted wanted{a.get(), 6, false};
  auto r = store->reserve({&wanted, 1});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(store->pages_in_use(), 3);
  EXPECT_EQ(r->page_table().size(), 3U);
  EXPECT_EQ(r->write_slots().size(), 6U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(r->write_slots()[static_cast<size_t>(i)], -1);
  EXPECT_EQ(r->write_slots()[5], r->read_slots()[0]);
}

TEST(StateStore, DroppedReservationChangesNothing) {
  auto store = make_store();
  auto a = store->create_sequence();
  step(*store, *a, 3);
  {
    const RowsWanted wanted{a.get(), 6, true};
    auto r = store->reserve({&wanted, 1});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(store->slots_in_use(), 1);
    EXPECT_EQ(store->pending_rows_in_use(), 6);
    EXPECT_EQ(store->pages_in_use(), 3);
  }
  EXPECT_EQ(store->pending_rows_in_use(), 0);
  EXPECT_EQ(store->slots_in_use(), 1);
  EXPECT_EQ(store->pages_in_use(), 1);
  EXPECT_EQ(a->position(), 3);
  EXPECT_EQ(a->pending_rows(), 0);
}

TEST(StateStore, SharedPartialPageIsCopiedOnAppend) {
  auto store = make_store();
  auto a = store->create_sequence();
  step(*store, *a, 6);
  store->component_base(2)[store->page_stride() * 1] = 42;  // second page, first byte
  auto b = a->fork();
  EXPECT_EQ(store->pages_in_use(), 2);
  EXPECT_EQ(store->slots_in_use(), 1);
  const RowsWanted wanted{b.get(), 1, false};
  auto r = store->reserve({&wanted, 1});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(store->pages_in_use(), 3);
  EXPECT_EQ(r->page_table()[0], 0) << "full pages stay shared";
  EXPECT_NE(r->page_table()[1], 1);
  EXPECT_EQ(store->component_base(2)[store->page_stride() * r->page_table()[1]], 42);
  EXPECT_NE(r->write_slots()[0], r->read_slots()[0]);
  r->apply();
  b.reset();
  EXPECT_EQ(store->pages_in_use(), 2);
  EXPECT_EQ(store->slots_in_use(), 1);
}

TEST(StateStore, CommitKeepsAnyNumberOfRows) {
  for (int keep = 0; keep <= 5; ++keep) {
    auto store = make_store();
    auto a = store->create_sequence();
    step(*store, *a, 3);
    const RowsWanted wanted{a.get(), 5, true};
    auto r = store->reserve({&wanted, 1});
    ASSERT_TRUE(r.ok());
    const int32_t before = r->read_slots()[0];
    const std::vector<int32_t> kept(r->keep_rows().begin(), r->keep_rows().end());
    EXPECT_EQ(r->fold_from()[0], -1);
    EXPECT_EQ(r->write_slots()[4], -1) << "a row that may be taken back writes no state";
    r->apply();
    EXPECT_EQ(a->position(), 3);
    EXPECT_EQ(a->pending_rows(), 5);
    EXPECT_EQ(store->slots_in_use(), 1);
    EXPECT_EQ(store->pending_rows_in_use(), 5);
    EXPECT_FALSE(store->reserve({&wanted, 1}).ok()) << "pending rows must be committed first";
    EXPECT_FALSE(a->commit(6).ok());
    EXPECT_FALSE(a->commit(-1).ok());
    ASSERT_TRUE(a->commit(keep).ok());
    EXPECT_EQ(a->position(), 3 + keep);
    EXPECT_EQ(a->pending_rows(), 0);
    EXPECT_EQ(store->slots_in_use(), 1);
    EXPECT_EQ(store->pages_in_use(), (3 + keep + kPageTokens - 1) / kPageTokens);
    const RowsWanted next{a.get(), 1, false};
    auto r2 = store->reserve({&next, 1});
    ASSERT_TRUE(r2.ok());
    EXPECT_EQ(store->pending_rows_in_use(), keep);
    EXPECT_EQ(r2->read_slots()[0], before) << "folded in place";
    EXPECT_EQ(r2->write_slots()[0], before);
    EXPECT_EQ(r2->fold_from()[0], keep == 0 ? -1 : before);
    ASSERT_EQ(r2->fold_rows().size(), static_cast<size_t>(keep));
    for (int i = 0; i < keep; ++i) {
      EXPECT_EQ(r2->fold_rows()[static_cast<size_t>(i)], kept[static_cast<size_t>(i)]);
    }
    r2->apply();
    EXPECT_EQ(store->pending_rows_in_use(), 0) << "folded rows are released";
  }
}

TEST(StateStore, ForksShareUnfoldedRowsAndFoldIntoSlotsOfTheirOwn) {
  auto store = make_store();
  auto a = store->create_sequence();
  step(*store, *a, 3);
  step(*store, *a, 4, true);
  ASSERT_TRUE(a->commit(2).ok());
  auto b = a->fork();
  EXPECT_EQ(b->position(), 5);
  EXPECT_EQ(store->pending_rows_in_use(), 2);
  const RowsWanted wanted{b.get(), 3, true};
  {
    auto r = store->reserve({&wanted, 1});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->fold_from()[0], 1);
    EXPECT_NE(r->read_slots()[0], 1) << "the other sequence still reads the slot";
    EXPECT_EQ(r->fold_begin().back(), 2);
    EXPECT_EQ(store->pending_rows_in_use(), 2 + 3);
    EXPECT_EQ(store->slots_in_use(), 2);
    r->apply();
  }
  EXPECT_EQ(store->pending_rows_in_use(), 2 + 3) << "the other sequence still has its rows";
  a.reset();
  EXPECT_EQ(store->pending_rows_in_use(), 3);
  EXPECT_EQ(store->slots_in_use(), 1);
  b.reset();
  EXPECT_EQ(store->pending_rows_in_use(), 0);
}

TEST(StateStore, ScratchRowsTakePagesOnly) {
  auto store = make_store();
  auto a = store->create_sequence();
  step(*store, *a, 3);
  const auto keeper = a->fork();
  for (const bool unfolded : {false, true}) {
    if (unfolded) {
      step(*store, *a, 2, true);
      ASSERT_TRUE(a->commit(2).ok());
    }
    const int64_t rows = store->pending_rows_in_use();
    const RowsWanted wanted{.sequence = a.get(), .rows = 4, .scratch = true};
    const auto r = store->reserve({&wanted, 1});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->read_slots()[0], unfolded ? -1 : 1);
    EXPECT_EQ(r->fold_rows().size(), unfolded ? 2U : 0U);
    EXPECT_EQ(store->slots_in_use(), 1);
    EXPECT_EQ(store->pending_rows_in_use(), rows);
    EXPECT_GT(store->pages_in_use(), 1);
  }
}

TEST(StateStore, ModelsWithoutRowBlocksRefuseRevocableRows) {
  StateSpec spec = small_spec();
  for (ComponentSpec& c : spec.components) c.pending_bytes = 0;
  auto store = std::move(StateStore::create(spec)).value();
  auto a = store->create_sequence();
  const RowsWanted wanted{a.get(), 2, true};
  EXPECT_FALSE(store->reserve({&wanted, 1}).ok());
}

TEST(StateStore, CheckpointOfPendingRowsIsTheCommittedState) {
  auto store = make_store();
  auto a = store->create_sequence();
  step(*store, *a, 3);
  step(*store, *a, 5, true);
  const Checkpoint c = a->checkpoint();
  EXPECT_EQ(c.position(), 3);
  ASSERT_TRUE(a->commit(5).ok());
  EXPECT_EQ(c.restore()->position(), 3);
  EXPECT_EQ(a->fork()->position(), 8);
}

TEST(StateStore, ExhaustedPoolIsAnErrorThatChangesNothing) {
  auto store = make_store(/*max_pages=*/3, /*max_slots=*/1);
  auto a = store->create_sequence();
  auto b = store->create_sequence();
  step(*store, *a, 5);
  // Too many pages, slots, and row blocks.
  for (const auto& [rows_b, revocable] : {std::pair{9, false}, {4, false}, {8, true}}) {
    const RowsWanted wanted[] = {{a.get(), 1, true}, {b.get(), rows_b, revocable}};
    auto r = store->reserve(wanted);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, Error::Code::kOutOfMemory);
    EXPECT_EQ(store->pages_in_use(), 2);
    EXPECT_EQ(store->slots_in_use(), 1);
    EXPECT_EQ(a->position(), 5);
  }
  EXPECT_EQ(store->pending_rows_in_use(), 0);
  step(*store, *a, 1);  // neither sequence is still marked as part of a step
  step(*store, *b, 1, true);
}

TEST(StateStore, RefusesInvalidSteps) {
  auto store = make_store();
  auto other = make_store();
  auto a = store->create_sequence();
  auto foreign = other->create_sequence();
  const RowsWanted twice[] = {{a.get(), 1, false}, {a.get(), 1, false}};
  EXPECT_FALSE(store->reserve(twice).ok());
  for (const RowsWanted& w : {RowsWanted{a.get(), 0, false}, RowsWanted{nullptr, 1, false},
                              RowsWanted{foreign.get(), 1, false}}) {
    EXPECT_FALSE(store->reserve({&w, 1}).ok());
  }
  step(*store, *a, 1);
}

TEST(StateStore, RefusesBadSpecs) {
  StateSpec spec = small_spec();
  spec.components[0].bytes = 65;
  EXPECT_FALSE(StateStore::create(spec).ok());
  spec = small_spec(int64_t{1} << 40);
  EXPECT_FALSE(StateStore::create(spec).ok());
  spec = small_spec();
  spec.components[2].pending_bytes = 64;
  EXPECT_FALSE(StateStore::create(spec).ok()) << "KV is not folded";
  spec = small_spec();
  spec.page_tokens = 0;
  EXPECT_FALSE(StateStore::create(spec).ok());
}

TEST(StateStore, LargeLimitsUseNoMemoryUntilNeeded) {
  StateSpec spec = small_spec(int64_t{1} << 20, 1000);
  for (ComponentSpec& c : spec.components) c.bytes = 1 << 20;
  auto store = StateStore::create(spec);
  ASSERT_TRUE(store.ok()) << store.error().message;
  auto a = (*store)->create_sequence();
  step(**store, *a, 1);
}

TEST(StateStore, OneLimitForPagesStatesAndPendingRows) {
  StateSpec spec = small_spec(1000, 1000);
  spec.max_bytes = 10 * 192;  // pages and states have 192 bytes each; one is the empty state
  auto store = std::move(StateStore::create(spec)).value();
  EXPECT_EQ(store->max_pages(), 10);
  EXPECT_EQ(store->free_pages(0), 9);
  EXPECT_EQ(store->free_pages(2), 7);
  EXPECT_EQ(store->free_pending_rows(2), 7);
  auto a = store->create_sequence();
  step(*store, *a, 8 * kPageTokens);  // 8 pages and a state: all memory is in use
  EXPECT_EQ(store->free_pages(0), 0);
  EXPECT_EQ(store->resident_bytes(), store->max_bytes());
  auto b = store->create_sequence();
  const RowsWanted one{b.get(), 1, false};
  const auto full = store->reserve({&one, 1});
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, Error::Code::kOutOfMemory);
  EXPECT_NE(full.error().message.find("--state-memory"), std::string::npos);
  // Released pages become states of other sequences; the sum stays within the limit.
  a.reset();
  EXPECT_EQ(store->free_pages(0), 9);
  std::vector<std::unique_ptr<SequenceState>> many;
  for (int i = 0; i < 3; ++i) step(*store, *many.emplace_back(store->create_sequence()), 1);
  step(*store, *many[0], 3, true);
  EXPECT_EQ(store->slots_in_use(), 3);
  EXPECT_EQ(store->pending_rows_in_use(), 3);
  EXPECT_EQ(store->pages_in_use(), 3);
  EXPECT_EQ(store->resident_bytes(), store->max_bytes());
  EXPECT_FALSE(store->reserve({&one, 1}).ok());
}

TEST(StateStore, WorksWithoutRecurrentStateAndWithoutKv) {
  for (const bool paged : {false, true}) {
    StateSpec spec = small_spec();
    std::erase_if(spec.components, [paged](const ComponentSpec& c) { return c.paged() != paged; });
    auto store = StateStore::create(spec);
    ASSERT_TRUE(store.ok());
    {
      auto a = (*store)->create_sequence();
      step(**store, *a, 5);
      step(**store, *a, 3, true);
      ASSERT_TRUE(a->commit(2).ok());
      auto back = (*store)->from_blob(a->checkpoint().to_blob());
      ASSERT_TRUE(back.ok()) << back.error().message;
      EXPECT_EQ((*back)->position(), 7);
      EXPECT_EQ((*store)->pages_in_use(), paged ? 4 : 0);
      EXPECT_EQ((*store)->slots_in_use(), paged ? 0 : 2);
    }
    EXPECT_EQ((*store)->pages_in_use() + (*store)->slots_in_use(), 0);
  }
}

TEST(StateStore, LimitsTheStatesWithPagesOfLayersWithAWindow) {
  StateSpec spec = small_spec(1000, 100);
  spec.components = {{.kind = ComponentSpec::Kind::kPagedKv, .layer = 1, .bytes = 64, .window = 8}};
  spec.max_window_states = 1;
  const auto store = StateStore::create(spec).value();
  std::vector<std::unique_ptr<SequenceState>> sequences;
  constexpr size_t kMost = 1000;
  while (sequences.size() < kMost) {
    sequences.push_back(store->create_sequence());
    const RowsWanted wanted{sequences.back().get(), kPageTokens, false};
    auto reservation = store->reserve({&wanted, 1});
    if (!reservation.ok()) {
      EXPECT_EQ(reservation.error().code, Error::Code::kOutOfMemory);
      break;
    }
    reservation->apply();
  }
  EXPECT_EQ(store->window_pages_in_use() * 64, store->bytes_per_slot());
  EXPECT_LT(sequences.size(), kMost);
  {
    const Checkpoint kept = sequences.front()->checkpoint();
    sequences.front() = store->create_sequence();
    EXPECT_EQ(store->window_pages_in_use() * 64, store->bytes_per_slot());
  }
  EXPECT_EQ(store->window_pages_in_use() * 64, store->bytes_per_slot() - 64);
}

}  // namespace
}  // namespace chimere::state
