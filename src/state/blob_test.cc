#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/fresh_seed.h"
#include "state/checksum.h"
#include "state/state_store.h"

namespace chimere::state {
namespace {

// The worked example of docs/state-blob.md.
StateSpec example_spec() {
  StateSpec spec;
  spec.components = {
      {.kind = ComponentSpec::Kind::kPagedKv, .layer = 1, .bytes = 64},
      {.kind = ComponentSpec::Kind::kRecurrent, .layer = 0, .bytes = 128, .pending_bytes = 64}};
  spec.max_pages = 4;
  spec.max_slots = 3;
  spec.max_pending_rows = 3;
  return spec;
}

std::unique_ptr<StateStore> make_store(const StateSpec& spec) {
  auto store = StateStore::create(spec);
  EXPECT_TRUE(store.ok());
  return std::move(store).value();
}

/// 70 tokens; every byte of the pages and of the slot is set.
std::unique_ptr<SequenceState> example_sequence(StateStore& store, uint8_t salt) {
  auto sequence = store.create_sequence();
  const RowsWanted wanted{sequence.get(), 70, false};
  auto r = store.reserve({&wanted, 1});
  EXPECT_TRUE(r.ok());
  for (int32_t page : r->page_table()) {
    std::memset(store.component_base(0) + page * store.page_stride(), salt + page, 64);
  }
  std::memset(store.component_base(1) + r->write_slots()[69] * store.slot_stride(), salt + 9, 128);
  r->apply();
  return sequence;
}

TEST(Blob, FollowsTheDocumentedLayout) {
  auto store = make_store(example_spec());
  const std::vector<uint8_t> blob = example_sequence(*store, 1)->checkpoint().to_blob();
  ASSERT_EQ(blob.size(), 376U);
  const uint8_t start[] = {0x43, 0x48, 0x49, 0x4d, 0x53, 0x54, 0x41, 0x54, 1, 0, 0, 0, 2, 0, 0, 0};
  EXPECT_EQ(std::memcmp(blob.data(), start, 16), 0);
  const uint64_t key = store->fingerprint();
  EXPECT_EQ(std::memcmp(blob.data() + 16, &key, 8), 0);
  const uint8_t rest[] = {0x46, 0, 0, 0, 2, 0, 0, 0, 1,    0, 0, 0, 0,    0, 0, 0, 0x78, 1,
                          0,    0, 0, 0, 0, 0, 0, 0, 0,    0, 1, 0, 0,    0, 0, 0, 0,    0,
                          0,    0, 0, 0, 1, 0, 0, 0, 0,    0, 0, 0, 0x40, 0, 0, 0, 0,    0,
                          0,    0, 1, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,    0, 0, 0, 0,    0,
                          1,    0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0,    0, 0, 0};
  EXPECT_EQ(std::memcmp(blob.data() + 24, rest, sizeof rest), 0);
  EXPECT_EQ(blob[112], 1);         // first page
  EXPECT_EQ(blob[112 + 64], 2);    // second page
  EXPECT_EQ(blob[112 + 128], 10);  // slot
}

/// The same with three more rows, of which two are kept; every byte that they keep is set.
std::unique_ptr<SequenceState> unfolded_sequence(StateStore& store, uint8_t salt) {
  auto sequence = example_sequence(store, salt);
  const RowsWanted wanted{sequence.get(), 3, true};
  auto r = store.reserve({&wanted, 1});
  EXPECT_TRUE(r.ok());
  for (size_t i = 0; i < 3; ++i) {
    std::memset(store.pending_base(1) + r->keep_rows()[i] * store.row_stride(),
                salt + 20 + static_cast<int>(i), 64);
  }
  r->apply();
  EXPECT_TRUE(sequence->commit(2).ok());
  return sequence;
}

TEST(Blob, HoldsUnfoldedRows) {
  StateSpec spec = example_spec();
  spec.max_pending_rows = 5;
  auto store = make_store(spec);
  const std::vector<uint8_t> blob = unfolded_sequence(*store, 1)->checkpoint().to_blob();
  ASSERT_EQ(blob.size(), 376U + 2 * 64);
  EXPECT_EQ(blob[8], 2);                // version
  EXPECT_EQ(blob[36], 2);               // unfolded rows
  EXPECT_EQ(blob[112 + 256], 21);       // the first of them
  EXPECT_EQ(blob[112 + 256 + 64], 22);  // the second
  auto other = make_store(spec);
  {
    auto back = other->from_blob(blob);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(other->pending_rows_in_use(), 2);
    EXPECT_EQ((*back)->checkpoint().to_blob(), blob);
    auto again = other->from_blob(blob);
    ASSERT_TRUE(again.ok());
    auto too_many = other->from_blob(blob);
    ASSERT_FALSE(too_many.ok());
    EXPECT_EQ(too_many.error().code, Error::Code::kOutOfMemory);
  }
  EXPECT_EQ(other->pending_rows_in_use() + other->slots_in_use() + other->pages_in_use(), 0);
}

TEST(Blob, TheVersionSaysWhetherThereAreUnfoldedRows) {
  auto store = make_store(example_spec());
  for (const bool unfolded : {false, true}) {
    auto sequence = unfolded ? unfolded_sequence(*store, 1) : example_sequence(*store, 1);
    std::vector<uint8_t> blob = sequence->checkpoint().to_blob();
    sequence.reset();
    blob.resize(blob.size() - 8);
    blob[8] ^= 3;
    append_u64(blob, checksum(blob));
    EXPECT_FALSE(store->from_blob(blob).ok());
  }
}

TEST(Blob, RestoresInAnotherStore) {
  auto store = make_store(example_spec());
  auto other = make_store(example_spec());
  auto filler = example_sequence(*other, 100);
  const std::vector<uint8_t> blob = example_sequence(*store, 1)->checkpoint().to_blob();
  EXPECT_EQ(store->pages_in_use() + store->slots_in_use(), 0);
  auto back = other->from_blob(blob);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ((*back)->checkpoint().to_blob(), blob);

  auto too_many = other->from_blob(blob);
  ASSERT_FALSE(too_many.ok());
  EXPECT_EQ(too_many.error().code, Error::Code::kOutOfMemory);
  EXPECT_EQ(other->pages_in_use(), 4);
  EXPECT_EQ(other->slots_in_use(), 2);
}

TEST(Blob, EmptySequenceHasNoBlocks) {
  auto store = make_store(example_spec());
  auto back = store->from_blob(store->create_sequence()->checkpoint().to_blob());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ((*back)->position(), 0);
  EXPECT_EQ(store->slots_in_use(), 0);
}

TEST(Blob, AnyChangedByteIsDetected) {
  auto store = make_store(example_spec());
  const std::vector<uint8_t> blob = example_sequence(*store, 1)->checkpoint().to_blob();
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  for (size_t at = 0; at < blob.size(); ++at) {
    std::vector<uint8_t> damaged = blob;
    damaged[at] ^= static_cast<uint8_t>(1 + rng() % 255);
    EXPECT_FALSE(store->from_blob(damaged).ok()) << at;
  }
  for (size_t size = 0; size < blob.size(); ++size) {
    EXPECT_FALSE(store->from_blob({blob.data(), size}).ok()) << size;
  }
  EXPECT_EQ(store->pages_in_use() + store->slots_in_use(), 0);
}

/// Appends the checksum of the content.
void seal(std::vector<uint8_t>& blob) { append_u64(blob, checksum(blob)); }

TEST(Blob, InconsistenciesWithAValidChecksumAreErrors) {
  auto store = make_store(example_spec());
  const std::vector<uint8_t> blob = example_sequence(*store, 1)->checkpoint().to_blob();
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  const size_t fields[] = {12, 24, 28, 32, 36};
  for (int i = 0; i < 4000; ++i) {
    std::vector<uint8_t> forged(blob.begin(), blob.end() - 8);
    const uint32_t value =
        i % 2 == 0 ? static_cast<uint32_t>(rng()) : static_cast<uint32_t>(rng() % 5);
    const size_t at = fields[rng() % 5];
    if (std::memcmp(forged.data() + at, &value, 4) == 0) continue;
    std::memcpy(forged.data() + at, &value, 4);
    seal(forged);
    auto back = store->from_blob(forged);
    // A position that needs the same number of pages gives a valid state.
    if (at == 24 && value > 64 && value <= 128) continue;
    EXPECT_FALSE(back.ok()) << "field " << at << " value " << value;
  }
  EXPECT_EQ(store->pages_in_use() + store->slots_in_use(), 0);
}

TEST(Blob, OtherModelsAndLayoutsAreRefused) {
  auto store = make_store(example_spec());
  const std::vector<uint8_t> blob = example_sequence(*store, 1)->checkpoint().to_blob();
  auto refused_by = [&blob](auto change) {
    StateSpec spec = example_spec();
    change(spec);
    auto changed = make_store(spec);
    auto back = changed->from_blob(blob);
    return !back.ok() && back.error().code == Error::Code::kUnsupported;
  };
  EXPECT_TRUE(refused_by([](StateSpec& s) { s.model_key = 1; }));
  EXPECT_TRUE(refused_by([](StateSpec& s) { s.page_tokens = 32; }));
  EXPECT_TRUE(refused_by([](StateSpec& s) { s.components[0].k_type = DType::kF16; }));
  EXPECT_TRUE(refused_by([](StateSpec& s) { s.components[1].layout_version = 2; }));
  EXPECT_TRUE(refused_by([](StateSpec& s) { s.components[1].layer = 2; }));
  EXPECT_TRUE(refused_by([](StateSpec& s) { std::swap(s.components[0], s.components[1]); }));
  EXPECT_FALSE(refused_by([](StateSpec& s) { s.max_pages = 100; }))
      << "limits are not part of the fingerprint";
}

TEST(Blob, ErrorsSayHowToContinueWithOrWithoutAnMtpHead) {
  StateSpec with = example_spec();
  with.components.push_back({.kind = ComponentSpec::Kind::kPagedKv, .layer = 2, .bytes = 64});
  with.components.push_back({.kind = ComponentSpec::Kind::kRecurrent, .layer = 2, .bytes = 64});
  auto drafting = make_store(with);
  auto plain = make_store(example_spec());
  const auto kept = example_sequence(*plain, 1)->checkpoint().to_blob();
  const auto refused = drafting->from_blob(kept);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("--speculate off"), std::string::npos)
      << refused.error().message;
  const auto kept_drafting = drafting->create_sequence()->checkpoint().to_blob();
  const auto other_way = plain->from_blob(kept_drafting);
  ASSERT_FALSE(other_way.ok());
  EXPECT_NE(other_way.error().message.find("--speculate auto"), std::string::npos)
      << other_way.error().message;
}

}  // namespace
}  // namespace chimere::state
