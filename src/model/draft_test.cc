// The MTP head: its state does not depend on how the rows were split into steps, and running it
// changes no state of the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <span>
#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "model/model.h"
#include "support/tiny_model.h"

namespace chimere::model {
namespace {

using testing::HasSubstr;

struct Machine {
  explicit Machine(const test::TinyModel& shape, bool drafts = true, bool oracle = false)
      : bytes(test::make_tiny_model(shape).value().bytes()),
        file(gguf::Reader::from_bytes(bytes.data(), bytes.size()).value()),
        ops(oracle ? kernels::make_ref_ops() : kernels::make_cpu_ops(pool)),
        model(load_model(*file, *ops, {.drafts = drafts}).value()) {}

  /// Runs a step; returns the logits of its rows.
  std::vector<float> step(state::SequenceState& state, std::vector<int32_t> tokens,
                          bool revocable = false, bool update_draft_kv = true) {
    StepPlan plan;
    plan.update_draft_kv = update_draft_kv;
    SequenceRows& rows = plan.sequences.emplace_back();
    rows.state = &state;
    rows.revocable = revocable;
    for (size_t i = 0; i < tokens.size(); ++i) rows.logits_of.push_back(static_cast<int32_t>(i));
    rows.tokens = std::move(tokens);
    const auto result = model->forward(plan);
    EXPECT_TRUE(result.ok()) << result.error().message;
    return {result->logits.data, result->logits.data + result->logits.rows * result->logits.cols};
  }

  ThreadPool pool{2};
  std::vector<uint8_t> bytes;
  std::unique_ptr<gguf::Reader> file;
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<Model> model;
};

test::TinyModel shape_with_block(uint64_t seed, const char* architecture = "qwen35moe") {
  test::TinyModel shape;
  shape.architecture = architecture;
  shape.seed = seed;
  shape.n_mtp_layers = 1;
  shape.experts = shape.mixers = DType::kQ8_0;
  return shape;
}

/// Logits of all drafts of a chain that follows the tokens `follow` whatever the logits are.
std::vector<float> draft_logits(Model& model, state::SequenceState& state, int32_t token,
                                const std::vector<int32_t>& follow) {
  std::vector<float> all;
  const DraftStart start[] = {{&state, token}};
  size_t depth = 0;
  const Status status = model.draft(start, static_cast<int>(follow.size()),
                                    [&](size_t i, std::span<const float> logits) {
                                      EXPECT_EQ(i, 0U);
                                      all.insert(all.end(), logits.begin(), logits.end());
                                      return follow[depth++];
                                    });
  EXPECT_TRUE(status.ok()) << status.error().message;
  return all;
}

std::vector<int32_t> random_tokens(std::mt19937& random, size_t n) {
  std::vector<int32_t> tokens(n);
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % 64);
  return tokens;
}

TEST(Draft, DoesNotDependOnHowRowsWereSplit) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const char* architecture : {"qwen35moe", "qwen35", "qwen3next"}) {
    Machine m(shape_with_block(seed, architecture));
    // Past a page boundary, so that a chain also writes to pages that do not exist yet.
    const auto tokens = random_tokens(random, 62 + random() % 5);
    const std::vector<int32_t> follow = random_tokens(random, 3);
    const auto one_by_one = m.model->states().create_sequence();
    for (const int32_t t : tokens) m.step(*one_by_one, {t});
    const auto expected = draft_logits(*m.model, *one_by_one, 7, follow);
    ASSERT_EQ(expected.size(), 3U * 64U);

    const auto in_pieces = m.model->states().create_sequence();
    for (size_t at = 0; at < tokens.size();) {
      const size_t n = std::min(tokens.size() - at, 1 + random() % 6);
      std::vector<int32_t> rows(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                                tokens.begin() + static_cast<std::ptrdiff_t>(at + n));
      const bool revocable = random() % 2 == 0;
      if (revocable) {
        for (const int32_t wrong : random_tokens(random, random() % 3)) rows.push_back(wrong);
      }
      // A chain in between changes nothing.
      draft_logits(*m.model, *in_pieces, rows[0], random_tokens(random, 2));
      m.step(*in_pieces, rows, revocable);
      if (revocable) {
        ASSERT_TRUE(in_pieces->commit(static_cast<int32_t>(n)).ok());
      }
      at += n;
    }
    EXPECT_EQ(draft_logits(*m.model, *in_pieces, 7, follow), expected);
    // A fork shares the last page; drafting gives it a copy of its own.
    const auto fork = in_pieces->fork();
    draft_logits(*m.model, *fork, 9, random_tokens(random, 3));
    EXPECT_EQ(draft_logits(*m.model, *in_pieces, 7, follow), expected);
    const auto blob = in_pieces->checkpoint().to_blob();
    const auto back = m.model->states().from_blob(blob).value();
    EXPECT_EQ(draft_logits(*m.model, *back, 7, follow), expected);

    Machine oracle(shape_with_block(seed, architecture), true, true);
    const auto slow = oracle.model->states().create_sequence();
    oracle.step(*slow, tokens);
    EXPECT_EQ(draft_logits(*oracle.model, *slow, 7, follow), expected);
  }
}

TEST(Draft, ChangesNoBitOfTheModel) {
  Machine with(shape_with_block(3));
  Machine without(shape_with_block(3), false);
  EXPECT_TRUE(with.model->has_drafts());
  EXPECT_FALSE(without.model->has_drafts());
  std::mt19937 random(3);
  const auto a = with.model->states().create_sequence();
  const auto b = without.model->states().create_sequence();
  for (int i = 0; i < 40; ++i) {
    const auto tokens = random_tokens(random, 1 + random() % 4);
    ASSERT_EQ(with.step(*a, tokens, false, i % 3 != 0), without.step(*b, tokens));
    draft_logits(*with.model, *a, 5, {1, 2, 3});
    ASSERT_EQ(a->position(), b->position());
    ASSERT_EQ(with.model->states().pages_in_use(), without.model->states().pages_in_use());
    ASSERT_EQ(with.model->states().slots_in_use(), without.model->states().slots_in_use());
  }
}

TEST(Draft, ChainsEndWhenChooseReturnsMinusOne) {
  Machine m(shape_with_block(4));
  std::mt19937 random(4);
  std::vector<std::unique_ptr<state::SequenceState>> states;
  std::vector<DraftStart> starts;
  std::vector<std::vector<float>> alone;
  for (int i = 0; i < 3; ++i) {
    states.push_back(m.model->states().create_sequence());
    m.step(*states.back(), random_tokens(random, 5 + static_cast<size_t>(i)));
    starts.push_back({states.back().get(), 10 + i});
    alone.push_back(draft_logits(*m.model, *states.back(), 10 + i, {1, 2, 3}));
  }
  std::vector<std::vector<float>> together(3);
  const Status status = m.model->draft(starts, 3, [&](size_t i, std::span<const float> logits) {
    together[i].insert(together[i].end(), logits.begin(), logits.end());
    const auto depth = static_cast<int32_t>(together[i].size() / logits.size());
    return i == 1 ? -1 : depth;  // the middle one ends at once
  });
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[1], std::vector<float>(alone[1].begin(), alone[1].begin() + 64));
  EXPECT_EQ(together[2], alone[2]);
}

TEST(Draft, RefusesInvalidArguments) {
  Machine m(shape_with_block(5));
  const auto state = m.model->states().create_sequence();
  m.step(*state, {1, 2});
  const ChooseDraft none = [](size_t, std::span<const float>) { return -1; };
  const DraftStart bad_token[] = {{state.get(), 64}};
  EXPECT_THAT(m.model->draft(bad_token, 1, none).error().message, HasSubstr("vocabulary"));
  const DraftStart twice[] = {{state.get(), 1}, {state.get(), 2}};
  EXPECT_THAT(m.model->draft(twice, 1, none).error().message, HasSubstr("twice"));
  EXPECT_EQ(m.model->draft({}, 1, none).error().code, Error::Code::kInvalidArgument);
  m.step(*state, {3}, true);
  const DraftStart pending[] = {{state.get(), 1}};
  EXPECT_THAT(m.model->draft(pending, 1, none).error().message, HasSubstr("pending"));

  Machine without(shape_with_block(5), false);
  EXPECT_EQ(without.model->draft(pending, 1, none).error().code, Error::Code::kUnsupported);
}

}  // namespace
}  // namespace chimere::model
