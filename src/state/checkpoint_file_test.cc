#include "state/checkpoint_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "base/fresh_seed.h"
#include "state/checksum.h"

namespace chimere::state {
namespace {

constexpr Hash128 kWeights = {1, 2};

StateSpec spec() {
  StateSpec s;
  s.components = {{.kind = ComponentSpec::Kind::kPagedKv,
                   .layer = 1,
                   .k_type = DType::kQ8_0,
                   .v_type = DType::kQ4_0,
                   .bytes = 128},
                  {.kind = ComponentSpec::Kind::kRecurrent, .layer = 0, .bytes = 192}};
  s.page_tokens = 4;
  s.max_pages = 8;
  s.max_slots = 4;
  return s;
}

std::unique_ptr<StateStore> make_store(const StateSpec& s = spec()) {
  auto store = StateStore::create(s);
  EXPECT_TRUE(store.ok());
  return std::move(store).value();
}

class CheckpointFile : public testing::Test {
 protected:
  CheckpointFile() { std::cout << "seed " << seed_ << "\n"; }
  ~CheckpointFile() override { std::filesystem::remove(path_); }

  /// 10 tokens, three pages, random bytes.
  std::unique_ptr<SequenceState> sequence(StateStore& store) {
    auto s = store.create_sequence();
    const RowsWanted wanted{s.get(), 10, false};
    auto r = store.reserve({&wanted, 1});
    EXPECT_TRUE(r.ok());
    auto fill = [this](uint8_t* p, int64_t n) {
      for (int64_t i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(rng_());
    };
    for (const int32_t page : r->page_table()) {
      fill(store.component_base(0) + page * store.page_stride(), store.page_stride());
    }
    fill(store.component_base(1) + r->write_slots()[9] * store.slot_stride(), store.slot_stride());
    r->apply();
    return s;
  }
  std::vector<char> content() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void replace(const std::vector<char>& bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }

  const unsigned seed_ = fresh_seed();
  std::mt19937 rng_{seed_};
  const std::vector<int32_t> tokens_ = {5, 4, 3, 2, 1, 0, 7, 8, 9, 1000000};
  const std::string path_ = testing::TempDir() + "checkpoint_" + std::to_string(seed_);
};

TEST_F(CheckpointFile, RestoresInAnotherStore) {
  auto store = make_store();
  auto other = make_store();
  const auto s = sequence(*store);
  ASSERT_TRUE(save_checkpoint(path_, s->checkpoint(), tokens_, "a note", kWeights).ok());
  EXPECT_EQ(content().size(), 48 + 40 + 6 + 8 + s->checkpoint().stored_bytes());
  const auto back = load_checkpoint(path_, *other, kWeights);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->tokens, tokens_);
  EXPECT_EQ(back->note, "a note");
  EXPECT_EQ(back->state->checkpoint().to_blob(), s->checkpoint().to_blob());
}

TEST_F(CheckpointFile, AnEmptySequenceAndNoNote) {
  auto store = make_store();
  ASSERT_TRUE(
      save_checkpoint(path_, store->create_sequence()->checkpoint(), {}, "", kWeights).ok());
  const auto back = load_checkpoint(path_, *store, kWeights);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->state->position(), 0);
  EXPECT_TRUE(back->tokens.empty());
}

TEST_F(CheckpointFile, TokensMustMatchTheState) {
  auto store = make_store();
  const auto s = sequence(*store);
  const auto saved = save_checkpoint(path_, s->checkpoint(), {tokens_.data(), 9}, "", kWeights);
  EXPECT_EQ(saved.error().code, Error::Code::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(CheckpointFile, AnyDamageIsDetectedAndChangesNothing) {
  auto store = make_store();
  ASSERT_TRUE(
      save_checkpoint(path_, sequence(*store)->checkpoint(), tokens_, "note", kWeights).ok());
  const std::vector<char> whole = content();
  auto refused = [&](const std::vector<char>& bytes) {
    SpanSource source({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    const auto back = read_checkpoint(source, *store, kWeights);
    return !back.ok() && !back.error().message.empty() &&
           store->pages_in_use() + store->slots_in_use() == 0;
  };
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<char> damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + rng_() % 255));
    EXPECT_TRUE(refused(damaged)) << at;
    EXPECT_TRUE(refused({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at)})) << at;
  }
  std::vector<char> longer = whole;
  longer.push_back(0);
  EXPECT_TRUE(refused(longer));
  EXPECT_FALSE(refused(whole));
}

TEST_F(CheckpointFile, ErrorsNameTheFileAndTheReason) {
  auto store = make_store();
  ASSERT_TRUE(save_checkpoint(path_, sequence(*store)->checkpoint(), tokens_, "", kWeights).ok());
  auto complaint = [&](StateStore& other, Error::Code code) {
    const auto back = load_checkpoint(path_, other, kWeights);
    if (back.ok()) return std::string("no error");
    EXPECT_EQ(back.error().code, code);
    EXPECT_NE(back.error().message.find(path_), std::string::npos);
    return back.error().message;
  };
  auto changed = [](auto change) {
    StateSpec s = spec();
    change(s);
    return make_store(s);
  };
  using testing::HasSubstr;
  const auto unsupported = Error::Code::kUnsupported;
  EXPECT_THAT(
      complaint(*changed([](auto& s) { s.components[0].k_type = DType::kF16; }), unsupported),
      HasSubstr("keys of type q8_0 and values of type q4_0"));
  EXPECT_THAT(complaint(*changed([](auto& s) { s.components[0].layout_version = 9; }), unsupported),
              HasSubstr("back end"));
  EXPECT_THAT(complaint(*changed([](auto& s) { s.model_key = 9; }), unsupported),
              HasSubstr("another model"));
  EXPECT_THAT(complaint(*changed([](auto& s) { s.components.pop_back(); }), unsupported),
              HasSubstr("other layers"));
  const auto reweighted = load_checkpoint(path_, *store, {1, 3});
  ASSERT_FALSE(reweighted.ok());
  EXPECT_EQ(reweighted.error().code, unsupported);
  EXPECT_THAT(reweighted.error().message, HasSubstr("other weights"));
  EXPECT_THAT(reweighted.error().message, HasSubstr(path_));
  EXPECT_EQ(store->pages_in_use() + store->slots_in_use(), 0);
  EXPECT_THAT(complaint(*changed([](auto& s) { s.max_pages = 2; }), Error::Code::kOutOfMemory),
              HasSubstr("pages"));
  std::vector<char> bytes = content();
  bytes.resize(bytes.size() - 1);
  replace(bytes);
  EXPECT_THAT(complaint(*store, Error::Code::kInvalidData), HasSubstr("truncated"));
  replace({'h', 'i'});
  EXPECT_THAT(complaint(*store, Error::Code::kInvalidData), HasSubstr("not a stored conversation"));
  std::filesystem::remove(path_);
  complaint(*store, Error::Code::kNotFound);
}

}  // namespace
}  // namespace chimere::state
