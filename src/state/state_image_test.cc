#include "state/state_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/fresh_seed.h"
#include "state/state_store.h"

namespace chimere::state {
namespace {

constexpr int kPageTokens = 4;

std::unique_ptr<StateStore> make_store(int64_t max_pages = 64) {
  StateSpec s;
  s.components = {
      {.kind = ComponentSpec::Kind::kPagedKv, .layer = 1, .bytes = 64},
      {.kind = ComponentSpec::Kind::kRecurrent, .layer = 0, .bytes = 128, .pending_bytes = 64}};
  s.page_tokens = kPageTokens;
  s.max_pages = max_pages;
  s.max_slots = 16;
  s.max_pending_rows = 128;
  return StateStore::create(s).value();
}

/// Advances by n rows that write random bytes, each row to its place in its page; some are pending,
/// and remain unfolded. (What folding would compute does not matter here.)
void advance(StateStore& store, SequenceState& sequence, int32_t n, std::mt19937& random) {
  const RowsWanted wanted{&sequence, n, random() % 2 == 0};
  Reservation r = store.reserve({&wanted, 1}).value();
  constexpr int64_t kRowBytes = 64 / kPageTokens;
  for (int32_t row = sequence.position(); row < sequence.position() + n; ++row) {
    uint8_t* page = store.component_base(0) +
                    r.page_table()[static_cast<size_t>(row / kPageTokens)] * store.page_stride();
    for (int64_t i = 0; i < kRowBytes; ++i)
      page[row % kPageTokens * kRowBytes + i] = static_cast<uint8_t>(random());
  }
  for (const int32_t block : r.keep_rows()) {
    if (block < 0) continue;
    uint8_t* kept = store.pending_base(1) + block * store.row_stride();
    for (int64_t i = 0; i < 64; ++i) kept[i] = static_cast<uint8_t>(random());
  }
  const int32_t folded = r.fold_from()[0] < 0 ? -1 : r.read_slots()[0];
  for (const int32_t written : {folded, r.write_slots().back()}) {
    if (written < 0) continue;
    uint8_t* slot = store.component_base(1) + written * store.slot_stride();
    for (int64_t i = 0; i < 128; ++i) slot[i] = static_cast<uint8_t>(random());
  }
  r.apply();
  if (wanted.revocable) {
    ASSERT_TRUE(sequence.commit(n).ok());
  }
}

TEST(StateImage, AChainRestoresEveryState) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const auto store = make_store();
    const auto sequence = store->create_sequence();
    std::vector<Checkpoint> points;
    std::vector<StateImage> images;
    const size_t n = 1 + random() % 5;
    for (size_t i = 0; i < n; ++i) {
      advance(*store, *sequence, static_cast<int32_t>(1 + random() % 11), random);
      points.push_back(sequence->checkpoint());
      // The pages after the whole pages of the previous one.
      const int32_t first = i == 0 ? 0 : points[i - 1].position() / kPageTokens;
      images.push_back(points.back().image(first));
    }
    const auto elsewhere = make_store();
    for (size_t i = 0; i < n; ++i) {
      const auto whole = elsewhere->assemble(nullptr, std::span(images).first(i + 1));
      ASSERT_TRUE(whole.ok()) << whole.error().message;
      EXPECT_EQ(whole->to_blob(), points[i].to_blob());
      if (i == 0) continue;
      // Based on the shorter state in the store, whose whole pages it shares.
      const int64_t before = store->pages_in_use();
      const auto shared = store->assemble(&points[i - 1], std::span(images).subspan(i, 1));
      ASSERT_TRUE(shared.ok()) << shared.error().message;
      EXPECT_EQ(shared->to_blob(), points[i].to_blob());
      EXPECT_EQ(store->pages_in_use() - before,
                static_cast<int64_t>(images[i].pages->size()) / store->page_stride());
    }
    EXPECT_EQ(elsewhere->pages_in_use(), 0);
  }
}

TEST(StateImage, IncompatibleImagesAreRefusedAndChangeNothing) {
  std::mt19937 random(1);
  const auto store = make_store();
  const auto sequence = store->create_sequence();
  advance(*store, *sequence, 10, random);
  const Checkpoint point = sequence->checkpoint();
  const int64_t pages = store->pages_in_use();
  const auto code = [&](StateImage image, StateStore& into) {
    const auto result = into.assemble(nullptr, {&image, 1});
    return result.ok() ? Error::Code::kCancelled : result.error().code;
  };
  EXPECT_EQ(code(point.image(0), *store), Error::Code::kCancelled);    // it fits
  EXPECT_EQ(code(point.image(1), *store), Error::Code::kInvalidData);  // page 0 is nowhere
  StateImage image = point.image(0);
  image.slot = nullptr;
  EXPECT_EQ(code(image, *store), Error::Code::kInvalidData);
  image = point.image(0);
  image.position = 13;
  EXPECT_EQ(code(image, *store), Error::Code::kInvalidData);
  image.position = -1;
  EXPECT_EQ(code(image, *store), Error::Code::kInvalidData);
  EXPECT_EQ(code(point.image(0), *make_store(2)), Error::Code::kOutOfMemory);
  EXPECT_EQ(store->pages_in_use(), pages);
}

}  // namespace
}  // namespace chimere::state
