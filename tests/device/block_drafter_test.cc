// A drafter of a block of tokens with a model of its own, in an engine, by the scalar ops, on the
// CPU and on a device: outputs of the target's layers become its input vectors, and one forward
// pass of non-causal rows gives all drafts. Any drafter leaves the generation as it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "engine/engine.h"
#include "engine/speculation/drafter.h"
#include "gguf/reader.h"
#include "model/model.h"
#include "step_runner.h"
#include "support/fake_model.h"
#include "support/tiny_model.h"

namespace chimere::engine {
namespace {

using test::Floats;
using test::StepRunner;
using test::Tokens;

/// The generations consist of these tokens, so that one draft in three is right by chance.
constexpr int32_t kAlphabet[] = {5, 6, 7};
constexpr int32_t kLayers[] = {1, 3};  ///< of the target, whose outputs the drafter reads
constexpr int32_t kBlock = 4;          ///< the newest token and three masks
constexpr size_t kMaxContext = 24;     ///< rows for one proposal; older ones are dropped

class BlockState final : public DrafterState {
 public:
  explicit BlockState(model::Model& model) : sequence(model.states().create_sequence()) {}

  std::unique_ptr<state::SequenceState> sequence;  ///< of the drafter's model
  Floats context;                                  ///< input vectors that it has not seen
  Tokens observed;                                 ///< all tokens
};

class BlockDrafter final : public Drafter {
 public:
  explicit BlockDrafter(const DrafterModels& models)
      : model_(*models.draft),
        n_embd_(static_cast<size_t>(models.draft->n_embd())),
        target_embd_(static_cast<size_t>(models.target.n_embd())) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-0.2F, 0.2F);
    projection_.resize(n_embd_ * target_embd_);
    for (float& v : projection_) v = uniform(random);
    mask_.resize(n_embd_);
    for (float& v : mask_) v = uniform(random);
  }

  std::unique_ptr<DrafterState> start(const sampling::SamplingParams& /*sampling*/) override {
    return std::make_unique<BlockState>(model_);
  }

  std::span<const int32_t> taps() const override { return kLayers; }

  void observe(std::span<const ObservedRows> rows) override {
    for (const ObservedRows& o : rows) {
      auto& state = static_cast<BlockState&>(*o.state);
      ASSERT_EQ(static_cast<size_t>(o.position), state.observed.size()) << "every row, once";
      ASSERT_EQ(o.taps.size(), std::size(kLayers));
      for (size_t r = 0; r < o.tokens.size(); ++r) {
        state.observed.push_back(o.tokens[r]);
        append(o.taps, static_cast<int64_t>(r), state.context);
      }
      const size_t most = kMaxContext * n_embd_;
      if (state.context.size() > most) {
        state.context.erase(state.context.begin(),
                            state.context.end() - static_cast<std::ptrdiff_t>(most));
      }
    }
  }

  Status propose(std::span<const DraftTarget> targets) override {
    model::StepPlan plan;
    for (const DraftTarget& t : targets) {
      auto& state = static_cast<BlockState&>(*t.state);
      EXPECT_TRUE(std::ranges::equal(state.observed, t.history.first(t.history.size() - 1)));
      plan.sequences.push_back(rows_of(state, t.history.back()));
      t.proposal->count_pass();
    }
    CHIMERE_TRY(const model::StepResult result, model_.forward(plan));
    int64_t row = 0;
    for (const DraftTarget& t : targets) {
      auto& state = static_cast<BlockState&>(*t.state);
      CHIMERE_CHECK_OK(
          state.sequence->commit(static_cast<int32_t>(state.context.size() / n_embd_)));
      state.context.clear();
      bool more = true;
      for (int32_t i = 1; i < kBlock; ++i, ++row) {
        more = more && t.proposal->add({choose(result.logits.row(row)), 0});
      }
    }
    return {};
  }

 private:
  /// The mean of the layers' outputs, projected.
  void append(std::span<const ConstMatrixView> taps, int64_t row, Floats& to) const {
    for (size_t i = 0; i < n_embd_; ++i) {
      float sum = 0;
      for (const ConstMatrixView& tap : taps) {
        for (size_t k = 0; k < target_embd_; ++k) {
          sum += projection_[i * target_embd_ + k] * tap.row(row)[k];
        }
      }
      to.push_back(sum / static_cast<float>(taps.size()));
    }
  }

  model::SequenceRows rows_of(const BlockState& state, int32_t newest) const {
    model::SequenceRows rows;
    rows.state = state.sequence.get();
    const size_t context = state.context.size() / n_embd_;
    rows.tokens.assign(context, model::SequenceRows::kEmbeddingRow);
    rows.tokens.push_back(newest);
    rows.embeddings = state.context;
    for (int32_t i = 1; i < kBlock; ++i) {
      rows.logits_of.push_back(static_cast<int32_t>(rows.tokens.size()));
      rows.tokens.push_back(model::SequenceRows::kEmbeddingRow);
      rows.embeddings.insert(rows.embeddings.end(), mask_.begin(), mask_.end());
    }
    rows.revocable = true;
    rows.block = kBlock;
    return rows;
  }

  /// Depends on the pass, and is evenly distributed whatever the models prefer.
  static int32_t choose(const float* logits) {
    return kAlphabet[std::bit_cast<uint32_t>(logits[0]) % std::size(kAlphabet)];
  }

  model::Model& model_;
  size_t n_embd_;
  size_t target_embd_;
  Floats projection_;  ///< [n_embd, target_embd]
  Floats mask_;        ///< [n_embd]
};

constexpr DrafterType kBlockDrafter = {
    .name = "blocks",
    .mode = "blocks",
    .computes = true,
    .expected_rates = [](bool /*greedy*/) { return std::vector<double>{0.4}; },
    .create = [](const DrafterModels& models) -> std::unique_ptr<Drafter> {
      return std::make_unique<BlockDrafter>(models);
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
    for (int32_t id = 0; id < 64; ++id) {
      const bool used = std::ranges::find(kAlphabet, id) != std::end(kAlphabet);
      if (!used) r.sampling.logit_bias.push_back({id, -1e9F});
    }
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
      drafted += a.speculation.drafted;
      accepted += a.speculation.accepted;
    }
    EXPECT_GT(accepted, 0);
    EXPECT_LT(accepted, drafted);
    EXPECT_LE(fast.steps, expected.steps);
    EXPECT_EQ(of_target.model->states().slots_in_use(), 0);
    EXPECT_EQ(of_draft.model->states().pages_in_use(), 0);
  }
}

}  // namespace
}  // namespace chimere::engine
