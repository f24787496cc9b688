// Random operations on a store, checked against a reference in which every state is a list of
// tokens.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/fresh_seed.h"
#include "state/state_store.h"

namespace chimere::state {
namespace {

constexpr int kPageTokens = 4;
constexpr size_t kHeaderBytes = 48 + 3 * 32;  // docs/state-blob.md
/// A page of the system: memory that is given back is lost.
constexpr int64_t kPieceBytes = 4096;

StateSpec spec(int64_t max_bytes) {
  StateSpec s;
  s.components = {{.kind = ComponentSpec::Kind::kPagedKv, .layer = 1, .bytes = kPieceBytes},
                  {.kind = ComponentSpec::Kind::kRecurrent,
                   .layer = 0,
                   .bytes = kPieceBytes,
                   .pending_bytes = kPieceBytes},
                  {.kind = ComponentSpec::Kind::kPagedKv, .layer = 2, .bytes = kPieceBytes}};
  s.page_tokens = kPageTokens;
  s.max_pages = 24;
  s.max_slots = 8;
  s.max_pending_rows = 20;
  s.max_bytes = max_bytes;
  return s;
}

using Tokens = std::vector<uint32_t>;

uint64_t advance(uint64_t state, uint32_t token) {
  return (state + token + 1) * 0x9E3779B97F4A7C15U;
}

/// Checks that the pages, slot and unfolded rows of to_blob() hold the state of these tokens.
void expect_holds(const Checkpoint& checkpoint, const Tokens& tokens) {
  ASSERT_EQ(checkpoint.position(), static_cast<int32_t>(tokens.size()));
  const std::vector<uint8_t> blob = checkpoint.to_blob();
  uint64_t recurrent = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (size_t piece = 0; piece < 2; ++piece) {
      uint32_t stored;
      const size_t page_at = kHeaderBytes + (i / kPageTokens) * 2 * kPieceBytes;
      std::memcpy(&stored, blob.data() + page_at + piece * kPieceBytes + i % kPageTokens * 4, 4);
      ASSERT_EQ(stored, tokens[i] + piece) << "position " << i;
    }
    recurrent = advance(recurrent, tokens[i]);
  }
  if (tokens.empty()) return;
  uint32_t slots;
  uint32_t unfolded;
  std::memcpy(&slots, blob.data() + 32, 4);
  std::memcpy(&unfolded, blob.data() + 36, 4);
  const size_t pages = (tokens.size() + kPageTokens - 1) / kPageTokens;
  const uint8_t* at = blob.data() + kHeaderBytes + pages * 2 * kPieceBytes;
  uint64_t stored = 0;
  if (slots == 1) {
    std::memcpy(&stored, at, 8);
    at += kPieceBytes;
  }
  for (uint32_t i = 0; i < unfolded; ++i, at += kPieceBytes) {
    uint32_t token;
    std::memcpy(&token, at, 4);
    stored = advance(stored, token);
  }
  ASSERT_EQ(stored, recurrent);
}

struct Sequence {
  std::unique_ptr<SequenceState> state;
  Tokens tokens;
  Tokens pending;
};

struct Snapshot {
  Checkpoint checkpoint;
  Tokens tokens;
};

struct Evicted {
  std::vector<uint8_t> blob;
  Tokens tokens;
};

class World {
 public:
  World(unsigned seed, int64_t max_bytes)
      : rng_(seed), store_(std::move(StateStore::create(spec(max_bytes))).value()) {}

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      operate();
      if (store_->max_bytes() > 0) {
        ASSERT_LE(store_->resident_bytes(), store_->max_bytes());
      }
    }
    EXPECT_GT(steps_, operations / 20);
    EXPECT_GT(refused_, 0) << "the limits were never reached";
    sequences_.clear();
    snapshots_.clear();
    EXPECT_EQ(store_->pages_in_use(), 0);
    EXPECT_EQ(store_->slots_in_use(), 0);
    EXPECT_EQ(store_->pending_rows_in_use(), 0);
    EXPECT_GT(folded_, 0);
  }

 private:
  uint32_t below(size_t n) { return static_cast<uint32_t>(rng_() % n); }
  template <typename T>
  T& any(std::vector<T>& v) {
    return v[below(v.size())];
  }
  template <typename T>
  void drop_any(std::vector<T>& v) {
    std::swap(any(v), v.back());
    v.pop_back();
  }

  void operate() {
    const uint32_t what = below(100);
    if (sequences_.empty() || (what < 8 && sequences_.size() < 6)) {
      sequences_.push_back({store_->create_sequence(), {}, {}});
    } else if (what < 55) {
      step();
    } else if (what < 62) {
      Sequence& from = any(sequences_);
      Sequence twin{from.state->fork(), from.tokens, {}};
      if (sequences_.size() < 8) sequences_.push_back(std::move(twin));
    } else if (what < 69) {
      Sequence& from = any(sequences_);
      snapshots_.push_back({from.state->checkpoint(), from.tokens});
      if (snapshots_.size() > 4) drop_any(snapshots_);
    } else if (what < 76 && !snapshots_.empty()) {
      const Snapshot& from = any(snapshots_);
      any(sequences_) = {from.checkpoint.restore(), from.tokens, {}};
    } else if (what < 83) {
      evict();
    } else if (what < 88 && !evicted_.empty()) {
      come_back();
    } else if (what < 95) {
      const Sequence& s = any(sequences_);
      expect_holds(s.state->checkpoint(), s.tokens);
      if (!snapshots_.empty()) {
        const Snapshot& p = any(snapshots_);
        expect_holds(p.checkpoint, p.tokens);
      }
    } else {
      drop_any(sequences_);
    }
  }

  void commit(Sequence& s) {
    const size_t keep = below(s.pending.size() + 1);
    ASSERT_TRUE(s.state->commit(static_cast<int32_t>(keep)).ok());
    s.tokens.insert(s.tokens.end(), s.pending.begin(),
                    s.pending.begin() + static_cast<std::ptrdiff_t>(keep));
    s.pending.clear();
  }

  void step() {
    std::vector<RowsWanted> wanted;
    std::vector<Sequence*> members;
    for (Sequence& s : sequences_) {
      if (below(2) == 0) continue;
      if (!s.pending.empty()) commit(s);
      wanted.push_back({s.state.get(), 1 + static_cast<int32_t>(below(7)), below(3) == 0});
      members.push_back(&s);
    }
    const int64_t pages = store_->pages_in_use();
    const int64_t slots = store_->slots_in_use();
    const int64_t row_blocks = store_->pending_rows_in_use();
    {
      auto reservation = store_->reserve(wanted);
      if (reservation.ok() && below(10) > 0) {
        compute(*reservation, wanted, members);
        reservation->apply();
        ++steps_;
        return;
      }
      if (!reservation.ok()) {
        EXPECT_EQ(reservation.error().code, Error::Code::kOutOfMemory);
        ++refused_;
      }
    }
    EXPECT_EQ(store_->pages_in_use(), pages);
    EXPECT_EQ(store_->slots_in_use(), slots);
    EXPECT_EQ(store_->pending_rows_in_use(), row_blocks);
    for (const Sequence* s : members) expect_holds(s->state->checkpoint(), s->tokens);
  }

  uint8_t* slot(int32_t s) { return store_->component_base(1) + s * store_->slot_stride(); }
  uint8_t* row_block(int32_t b) { return store_->pending_base(1) + b * store_->row_stride(); }

  void fold(const Reservation& r, size_t i) {
    if (r.fold_from()[i] < 0) return;
    uint64_t recurrent;
    std::memcpy(&recurrent, slot(r.fold_from()[i]), 8);
    for (int32_t at = r.fold_begin()[i]; at < r.fold_begin()[i + 1]; ++at, ++folded_) {
      uint32_t token;
      std::memcpy(&token, row_block(r.fold_rows()[static_cast<size_t>(at)]), 4);
      recurrent = advance(recurrent, token);
    }
    std::memcpy(slot(r.read_slots()[i]), &recurrent, 8);
  }

  /// Stands in for a model: keys and values are the token, the recurrent state is a hash of all
  /// tokens; a revocable row keeps its token.
  void compute(const Reservation& r, const std::vector<RowsWanted>& wanted,
               const std::vector<Sequence*>& members) {
    size_t row = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      Sequence& s = *members[i];
      const auto begin = static_cast<size_t>(r.page_begin()[i]);
      uint64_t recurrent;
      fold(r, i);
      std::memcpy(&recurrent, slot(r.read_slots()[i]), 8);
      for (int32_t k = 0; k < wanted[i].rows; ++k, ++row) {
        const uint32_t token = below(1000);
        const auto position = s.tokens.size() + (wanted[i].revocable ? s.pending.size() : 0);
        const int32_t page = r.page_table()[begin + position / kPageTokens];
        for (const size_t component : {size_t{0}, size_t{2}}) {
          const uint32_t value = token + (component == 2 ? 1 : 0);
          std::memcpy(store_->component_base(component) + page * store_->page_stride() +
                          position % kPageTokens * 4,
                      &value, 4);
        }
        recurrent = advance(recurrent, token);
        if (r.write_slots()[row] >= 0) std::memcpy(slot(r.write_slots()[row]), &recurrent, 8);
        if (r.keep_rows()[row] >= 0) std::memcpy(row_block(r.keep_rows()[row]), &token, 4);
        (wanted[i].revocable ? s.pending : s.tokens).push_back(token);
      }
    }
  }

  void evict() {
    if (evicted_.size() > 5) drop_any(evicted_);
    const Sequence& s = any(sequences_);
    evicted_.push_back({s.state->checkpoint().to_blob(), s.tokens});
    std::swap(sequences_[static_cast<size_t>(&s - sequences_.data())], sequences_.back());
    sequences_.pop_back();
  }

  void come_back() {
    const Evicted& e = any(evicted_);
    auto state = store_->from_blob(e.blob);
    if (!state.ok()) {
      EXPECT_EQ(state.error().code, Error::Code::kOutOfMemory) << state.error().message;
      ++refused_;
      return;
    }
    expect_holds((*state)->checkpoint(), e.tokens);
    sequences_.push_back({std::move(state).value(), e.tokens, {}});
  }

  std::mt19937 rng_;
  std::unique_ptr<StateStore> store_;
  std::vector<Sequence> sequences_;
  std::vector<Snapshot> snapshots_;
  std::vector<Evicted> evicted_;
  int steps_ = 0;
  int refused_ = 0;
  int folded_ = 0;
};

TEST(StateRandom, HoldsWhatWasWrittenAndLeaksNothing) {
  const unsigned first = fresh_seed();
  for (unsigned seed = first; seed < first + 50 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World(seed, 0).run(2000);
    World(seed, 30 * kPieceBytes).run(2000);  // 11 pages and 8 states, or less of one of them
  }
}

}  // namespace
}  // namespace chimere::state
