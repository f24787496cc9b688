// A block drafter (support/block_drafter.h) in an engine, by the scalar ops, on the CPU and on a
// device. Any drafter leaves the generation as it is.
#include "support/block_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "engine/engine.h"
#include "engine/speculation/drafter.h"
#include "gguf/reader.h"
#include "model/model.h"
#include "step_runner.h"
#include "support/fake_model.h"
#include "support/tiny_drafter.h"
#include "support/tiny_model.h"

namespace chimere::engine {
namespace {

using test::StepRunner;

test::BlockDrafterCounts counts;

constexpr DrafterType kBlockDrafter = {
    .name = "blocks",
    .mode = "blocks",
    .computes = true,
    .expected_rates = test::block_drafter_rates,
    .create = [](const DrafterModels& models) -> std::unique_ptr<Drafter> {
      return test::make_block_drafter(models, {1, 3}, counts);
    },
};

struct Outputs {
  std::vector<Outcome> outcomes;
  int64_t steps = 0;
};

Outputs generate(const StepRunner& target, const StepRunner& draft,
                 const std::vector<Request>& requests,
                 const std::vector<const DrafterType*>& types) {
  const test::FakeTokenizer tokenizer;
  EngineOptions options;
  options.max_running = 8;
  options.max_step_rows = 192;
  options.drafters = types;
  options.draft_model = draft.model.get();
  const auto engine = Engine::create(*target.model, tokenizer, options).value();
  Outputs out;
  out.outcomes.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    Request r = requests[i];
    r.on_finish = [&out, i](Outcome o) { out.outcomes[i] = std::move(o); };
    EXPECT_TRUE(engine->submit(std::move(r)).ok());
    engine->step();  // requests arrive one by one
  }
  while (engine->step()) {
  }
  out.steps = engine->counters().steps;
  return out;
}

TEST(BlockDrafter, LeavesTheGenerationAsItIs) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto target_file =
      test::make_tiny_model(
          {.seed = seed, .n_mtp_layers = 1, .experts = DType::kQ8_0, .mixers = DType::kQ8_0})
          .value()
          .bytes();
  const auto draft_file = test::make_tiny_model({.architecture = "qwen3",
                                                 .seed = seed + 1,
                                                 .n_layers = 2,
                                                 .n_embd = 32,
                                                 .n_heads = 2,
                                                 .n_kv_heads = 1})
                              .value()
                              .bytes();
  const auto target = gguf::Reader::from_bytes(target_file.data(), target_file.size()).value();
  const auto draft = gguf::Reader::from_bytes(draft_file.data(), draft_file.size()).value();
  std::vector<const DrafterType*> types(drafter_types().begin(), drafter_types().end());
  const Speculation block = {uint32_t{1} << types.size(), true};
  const Speculation block_or_lookup = {block.drafters | Speculation::named("ngram")->drafters,
                                       true};
  types.push_back(&kBlockDrafter);

  std::vector<Request> requests(4);
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& r = requests[i];
    const size_t n = 1 + random() % 70;
    for (size_t t = 0; t < n; ++t) r.prompt.push_back(static_cast<int32_t>(2 + random() % 62));
    r.sampling.logit_bias = test::only_block_tokens(64);
    r.sampling.temperature = i % 2 == 0 ? 0 : 1;
    r.sampling.seed = random();
    r.sampling.logprobs = 2;
    r.max_tokens = 24;
    r.speculation = i < 3 ? block : block_or_lookup;
  }
  for (const test::BackEnd& back_end : test::back_ends()) {
    SCOPED_TRACE(back_end.name);
    const StepRunner of_target(*target, back_end, {.drafts = true});
    const StepRunner of_draft(*draft, back_end);
    counts = {};
    const Outputs fast = generate(of_target, of_draft, requests, types);
    std::vector<Request> plain = requests;
    for (Request& r : plain) r.speculation = Speculation::off();
    const Outputs expected = generate(of_target, of_draft, plain, types);
    int64_t drafted = 0;
    int64_t accepted = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const Outcome& a = fast.outcomes[i];
      const Outcome& b = expected.outcomes[i];
      ASSERT_EQ(a.reason, FinishReason::kLength) << a.error.message;
      ASSERT_EQ(a.tokens.size(), b.tokens.size());
      for (size_t t = 0; t < a.tokens.size(); ++t) {
        ASSERT_EQ(a.tokens[t].id, b.tokens[t].id) << "request " << i << ", token " << t;
        ASSERT_EQ(a.tokens[t].logprob, b.tokens[t].logprob);
      }
      if (requests[i].speculation != block) continue;
      drafted += a.speculation.drafted();
      accepted += a.speculation.accepted();
    }
    EXPECT_EQ(counts.fault, "");
    EXPECT_GT(counts.proposals, 0);
    EXPECT_EQ(counts.incomplete, 0) << "every row is observed";
    EXPECT_GT(accepted, 0);
    EXPECT_LT(accepted, drafted);
    EXPECT_LE(fast.steps, expected.steps);
    EXPECT_EQ(of_target.model->states().slots_in_use(), 0);
    EXPECT_EQ(of_draft.model->states().pages_in_use(), 0);
  }
}

/// How context rows are given.
enum class Context : uint8_t {
  kVectors,
  kTapped,       ///< as a target gives them: the outputs of a row follow one another
  kTappedApart,  ///< those of each layer for themselves
};

/// Moves the vectors of context rows, [rows, 2 n], to memory of the device; they become
/// SequenceRows::tapped.
std::unique_ptr<MemoryRange> move_to_device(Memory& memory, int64_t n, bool apart,
                                            model::SequenceRows& rows) {
  const auto count = static_cast<int64_t>(rows.tokens.size());
  test::Floats values = rows.embeddings;
  for (int64_t r = 0; apart && r < count; ++r) {
    for (int64_t tap = 0; tap < 2; ++tap) {
      std::copy_n(rows.embeddings.begin() + (2 * r + tap) * n, n,
                  values.begin() + (tap * count + r) * n);
    }
  }
  const size_t bytes = values.size() * sizeof(float);
  auto range = memory.reserve(bytes).value();
  EXPECT_TRUE(range->commit(bytes).ok());
  EXPECT_TRUE(memory.write(range->data(), values.data(), bytes).ok());
  const auto* const data = reinterpret_cast<const float*>(range->data());
  for (int64_t tap = 0; tap < 2; ++tap) {
    rows.tapped.emplace_back(data + tap * (apart ? count * n : n), count, n, apart ? n : 2 * n);
  }
  rows.embeddings.clear();
  return range;
}

/// Logits of blocks after 3, 4, 5 and 73 context rows, the last 68 of them prefill rows.
std::vector<test::Floats> dflash_logits(const gguf::Reader& target, const gguf::Reader& drafter,
                                        const test::BackEnd& back_end, Context context) {
  ThreadPool pool(2);
  const auto ops = back_end.make_ops(pool);
  const auto model = model::load_block_drafter(drafter, target, *ops, {}).value();
  const model::BlockDraft& draft = *model->block_draft();
  const auto state = model->states().create_sequence();
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<test::Floats> all;
  std::vector<std::unique_ptr<MemoryRange>> ranges;  // outlive the steps that read them
  int32_t before = 0;
  for (const int32_t count : {3, 1, 1, 68}) {
    model::StepPlan append;
    model::SequenceRows& rows = append.sequences.emplace_back();
    rows.state = state.get();
    rows.tokens.assign(static_cast<size_t>(count), model::SequenceRows::kEmbeddingRow);
    rows.embeddings.resize(static_cast<size_t>(count * 2 * model->n_embd()));
    for (float& v : rows.embeddings) v = uniform(random);
    if (count > 64) {
      rows.row_class = model::RowClass::kPrefill;
      rows.chunks = {64, count - 64};
    }
    if (context != Context::kVectors) {
      ranges.push_back(
          move_to_device(model->memory(), model->n_embd(), context == Context::kTappedApart, rows));
    }
    EXPECT_TRUE(model->forward(append).ok());
    EXPECT_EQ(state->position(), count + before);
    before += count;
    model::StepPlan plan;
    model::SequenceRows& block = plan.sequences.emplace_back();
    block.state = state.get();
    block.tokens.assign(static_cast<size_t>(draft.block_size), draft.mask_token);
    block.tokens[0] = 5 + count % 7;
    block.logits_of = {1, 2, 3};
    block.revocable = true;
    block.block = draft.block_size;
    const auto result = model->forward(plan);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    if (!result.ok()) break;
    const ConstMatrixView& l = result->logits;
    all.emplace_back(l.data, l.data + l.rows * l.cols);
    EXPECT_TRUE(state->commit(0).ok());
  }
  return all;
}

TEST(BlockDrafter, DflashComputesTheSameOnEveryBackEnd) {
  test::TinyModel shape;
  shape.embedding = DType::kQ8_0;
  shape.head = DType::kQ8_0;
  const auto target_file = test::make_tiny_model(shape).value().bytes();
  const auto drafter_file =
      test::make_tiny_drafter({.n_ff = 64, .mask_token = 3, .window = 40, .weights = DType::kQ8_0},
                              shape)
          .value()
          .bytes();
  const auto target = gguf::Reader::from_bytes(target_file.data(), target_file.size()).value();
  const auto drafter = gguf::Reader::from_bytes(drafter_file.data(), drafter_file.size()).value();
  const auto want = dflash_logits(*target, *drafter, test::scalar_back_end(), Context::kVectors);
  ASSERT_EQ(want.size(), 4U);
  for (const test::BackEnd& back_end : test::back_ends()) {
    SCOPED_TRACE(back_end.name);
    const auto got = dflash_logits(*target, *drafter, back_end, Context::kVectors);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(got[i], want[i]) << "decode rows have the same bits";
    for (size_t k = 0; k < want[3].size(); ++k) EXPECT_NEAR(got[3][k], want[3][k], 0.15);
    EXPECT_EQ(dflash_logits(*target, *drafter, back_end, Context::kTapped), got);
    EXPECT_EQ(dflash_logits(*target, *drafter, back_end, Context::kTappedApart), got);
  }
}

TEST(BlockDrafter, TappedRowsMustBeComplete) {
  const test::TinyModel shape;
  const auto target_file = test::make_tiny_model(shape).value().bytes();
  const auto drafter_file = test::make_tiny_drafter({}, shape).value().bytes();
  const auto target = gguf::Reader::from_bytes(target_file.data(), target_file.size()).value();
  const auto drafter = gguf::Reader::from_bytes(drafter_file.data(), drafter_file.size()).value();
  const auto ops = kernels::make_ref_ops();
  const auto model = model::load_block_drafter(*drafter, *target, *ops, {}).value();
  const auto state = model->states().create_sequence();
  const int64_t n = model->n_embd();
  const test::Floats values(static_cast<size_t>(4 * n));
  const ConstMatrixView tap(values.data(), 2, n, n);
  const auto complaint = [&](std::vector<ConstMatrixView> tapped, int32_t token) {
    model::StepPlan plan;
    model::SequenceRows& rows = plan.sequences.emplace_back();
    rows.state = state.get();
    rows.tokens = {token, token};
    rows.tapped = std::move(tapped);
    const auto result = model->forward(plan);
    return result.ok() ? "" : result.error().message;
  };
  constexpr int32_t kVector = model::SequenceRows::kEmbeddingRow;
  const std::string incomplete = "outputs of tapped layers";
  EXPECT_NE(complaint({tap}, kVector).find(incomplete), std::string::npos);
  EXPECT_NE(complaint({tap, {values.data(), 1, n, n}}, kVector).find(incomplete),
            std::string::npos);
  EXPECT_NE(complaint({tap, tap}, 1).find(incomplete), std::string::npos) << "rows of a block";
  EXPECT_EQ(complaint({tap, tap}, kVector), "");
}

}  // namespace
}  // namespace chimere::engine
