// What drafters need of a step, by the scalar ops, on the CPU and on a device: outputs of layers,
// input vectors in place of tokens, and blocks of non-causal rows. Decode rows have the scalar ops'
// bits everywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/model.h"
#include "step_runner.h"
#include "support/tiny_model.h"

namespace chimere::model {
namespace {

using test::Floats;
using test::StepRunner;
using test::Tokens;
using testing::HasSubstr;

/// A file in memory, with its embedding table and output head for the scalar ops.
struct Weights {
  explicit Weights(const test::TinyModel& shape)
      : bytes(test::make_tiny_model(shape).value().bytes()),
        file(gguf::Reader::from_bytes(bytes.data(), bytes.size()).value()),
        ops(kernels::make_ref_ops()) {}

  WeightView matrix(const char* name) const {
    const gguf::TensorInfo& t = *file->find_tensor(name);
    return {t.type, t.dims[1], t.dims[0], t.data};
  }
  Floats embedding(const Tokens& tokens) const {
    const WeightView table = matrix("token_embd.weight");
    Floats rows(tokens.size() * static_cast<size_t>(table.n_in));
    ops->embed(kernels::PlacedTable(table), tokens, {},
               {rows.data(), static_cast<int64_t>(tokens.size()), table.n_in, table.n_in});
    return rows;
  }
  /// The output head of rows of the residual stream.
  Floats logits(Floats x) const {
    const WeightView output = matrix("output.weight");
    const auto rows = static_cast<int64_t>(x.size()) / output.n_in;
    const MatrixView h = {x.data(), rows, output.n_in, output.n_in};
    ops->rms_norm(h, static_cast<const float*>(file->find_tensor("output_norm.weight")->data),
                  1e-6F, h, kernels::StepRows::kAll);
    Floats out(static_cast<size_t>(rows * output.n_out));
    const kernels::LinearJob job[] = {{output, {out.data(), rows, output.n_out, output.n_out}}};
    ops->linear(h, job);
    return out;
  }

  std::vector<uint8_t> bytes;
  std::unique_ptr<gguf::Reader> file;
  std::unique_ptr<kernels::Ops> ops;
};

test::TinyModel mixed_layers(uint64_t seed) {
  test::TinyModel shape;  // layers 1 and 3 are attention
  shape.seed = seed;
  shape.attention_interval = 2;
  shape.experts = shape.mixers = shape.head = shape.embedding = DType::kQ8_0;
  return shape;
}

test::TinyModel attention_only(uint64_t seed) {
  test::TinyModel shape = mixed_layers(seed);
  shape.architecture = "qwen3";
  return shape;
}

SequenceRows decode_rows(state::SequenceState& s, Tokens tokens) {
  SequenceRows rows;
  rows.state = &s;
  rows.tokens = std::move(tokens);
  rows.logits_of.resize(rows.tokens.size());
  std::iota(rows.logits_of.begin(), rows.logits_of.end(), 0);
  return rows;
}

SequenceRows prefill_rows(state::SequenceState& s, Tokens tokens) {
  SequenceRows rows = decode_rows(s, std::move(tokens));
  rows.row_class = RowClass::kPrefill;
  rows.chunks = {static_cast<int32_t>(rows.tokens.size())};
  rows.logits_of = {static_cast<int32_t>(rows.tokens.size()) - 1};
  return rows;
}

class StepInputs : public testing::Test {
 protected:
  StepInputs() : seed_(fresh_seed()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {}

  Tokens tokens(size_t n) {
    Tokens t(n);
    for (int32_t& id : t) id = static_cast<int32_t>(random_() % 64);
    return t;
  }
  size_t below(size_t n) { return random_() % n; }

  unsigned seed_;
  testing::ScopedTrace trace_;
  std::mt19937 random_;
};

/// The output of layer l gives, through the output head, the logits of a model with the layers up
/// to l only. The list of taps changes from step to step, so that captured graphs are told apart.
TEST_F(StepInputs, TapsAreTheLayersOutputs) {
  const test::TinyModel shape = mixed_layers(seed_);
  const Weights whole(shape);
  std::vector<std::unique_ptr<Weights>> cut;
  for (int n = 1; n <= shape.n_layers; ++n) {
    test::TinyModel first = shape;
    first.n_layers = n;
    cut.push_back(std::make_unique<Weights>(first));
  }
  const Tokens text = tokens(40);
  std::vector<Floats> expected;  // logits of all rows by the first n layers
  for (const auto& w : cut) {
    const StepRunner ref(*w->file, test::scalar_back_end());
    const auto s = ref.model->states().create_sequence();
    expected.push_back(ref.forward({{decode_rows(*s, text)}}));
  }
  const std::vector<std::vector<int32_t>> tap_sets = {{1, 3}, {}, {0}, {3}, {0, 1, 2, 3}, {2}};
  for (const test::BackEnd& back_end : test::back_ends()) {
    SCOPED_TRACE(back_end.name);
    const StepRunner run(*whole.file, back_end);
    const auto a = run.model->states().create_sequence();
    const auto b = run.model->states().create_sequence();
    size_t at = 0;
    for (int step = 0; at + 2 < text.size(); ++step) {
      // The same rows in two sequences: `a` has one or two, `b` lags behind by a row at times.
      const size_t n = 1 + static_cast<size_t>(step / 12 % 2);
      const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at);
      const Tokens now(begin, begin + static_cast<std::ptrdiff_t>(n));
      StepPlan plan = {{decode_rows(*a, now), decode_rows(*b, now)}};
      plan.sequences[1].logits_of.clear();
      plan.taps = tap_sets[below(tap_sets.size())];
      const auto result = run.model->forward(plan);
      ASSERT_TRUE(result.ok()) << result.error().message;
      ASSERT_EQ(result->taps.size(), plan.taps.size());
      const auto row_of = [&](const Floats& all, size_t row) {
        return Floats(all.begin() + static_cast<std::ptrdiff_t>(row * 64),
                      all.begin() + static_cast<std::ptrdiff_t>((row + 1) * 64));
      };
      for (size_t r = 0; r < n; ++r) {
        ASSERT_EQ(Floats(result->logits.row(static_cast<int64_t>(r)),
                         result->logits.row(static_cast<int64_t>(r)) + 64),
                  row_of(expected.back(), at + r))
            << "taps change no logit";
      }
      for (size_t t = 0; t < plan.taps.size(); ++t) {
        ASSERT_EQ(result->taps[t].rows, static_cast<int64_t>(2 * n));
        for (size_t r = 0; r < 2 * n; ++r) {
          const auto n_embd = static_cast<size_t>(shape.n_embd);
          Floats all(plan.taps.size() * n_embd);
          ASSERT_TRUE(run.model->read_taps(static_cast<int64_t>(r), all).ok());
          const auto first = all.begin() + static_cast<std::ptrdiff_t>(t * n_embd);
          const Floats x(first, first + shape.n_embd);
          const auto layer = static_cast<size_t>(plan.taps[t]);
          ASSERT_EQ(whole.logits(x), row_of(expected[layer], at + r % n))
              << "step " << step << ", layer " << layer << ", row " << r;
        }
      }
      at += n;
    }
  }
}

/// Prompts: the rows of a chunk have the outputs that they have as the last layer of a shorter
/// model on the same back end.
TEST_F(StepInputs, TapsOfChunks) {
  const test::TinyModel shape = mixed_layers(seed_);
  test::TinyModel first = shape;
  first.n_layers = 2;
  const Weights whole(shape);
  const Weights half(first);
  const Tokens text = tokens(1 + below(64));
  for (const test::BackEnd& back_end : test::back_ends()) {
    SCOPED_TRACE(back_end.name);
    const auto outputs = [&](const Weights& w, std::vector<int32_t> taps, bool logits) {
      const StepRunner run(*w.file, back_end);
      const auto s = run.model->states().create_sequence();
      StepPlan plan = {{prefill_rows(*s, text)}};
      if (!logits) plan.sequences[0].logits_of.clear();
      plan.taps = std::move(taps);
      const auto result = run.model->forward(plan);
      EXPECT_TRUE(result.ok());
      const auto n_embd = static_cast<size_t>(shape.n_embd);
      Floats all(text.size() * plan.taps.size() * n_embd);
      EXPECT_TRUE(run.model->read_taps(0, all).ok());
      Floats x;  // of the first tap
      for (size_t r = 0; r < text.size(); ++r) {
        const auto row = all.begin() + static_cast<std::ptrdiff_t>(r * plan.taps.size() * n_embd);
        x.insert(x.end(), row, row + shape.n_embd);
      }
      return x;
    };
    const Floats expected = outputs(half, {1}, true);
    EXPECT_EQ(outputs(whole, {1}, false), expected);
    EXPECT_EQ(outputs(whole, {1, 3}, true), expected);
    EXPECT_EQ(outputs(whole, {3}, true), outputs(whole, {3}, false)) << "without logits";
  }
}

/// A row with its token's row of the embedding table as input vector has the bits of the token.
TEST_F(StepInputs, EmbeddingRowsReplaceTokens) {
  const Weights w(mixed_layers(seed_));
  const Tokens text = tokens(60);
  for (const test::BackEnd& back_end : test::back_ends()) {
    SCOPED_TRACE(back_end.name);
    const StepRunner run(*w.file, back_end);
    const auto plain = run.model->states().create_sequence();
    const auto vectors = run.model->states().create_sequence();
    const auto replace = [&](SequenceRows rows) {
      for (int32_t& token : rows.tokens) {
        if (below(2) == 0) continue;
        const Floats row = w.embedding({token});
        rows.embeddings.insert(rows.embeddings.end(), row.begin(), row.end());
        token = SequenceRows::kEmbeddingRow;
      }
      return rows;
    };
    for (size_t at = 0; at < text.size();) {
      const size_t n = at == 0 ? 30 : 1 + below(2);
      const Tokens now(text.begin() + static_cast<std::ptrdiff_t>(at),
                       text.begin() + static_cast<std::ptrdiff_t>(std::min(at + n, text.size())));
      const auto rows = at == 0 ? prefill_rows : decode_rows;
      const Floats expected = run.forward({{rows(*plain, now)}});
      ASSERT_EQ(run.forward({{replace(rows(*vectors, now))}}), expected) << "from row " << at;
      at += now.size();
    }
  }
}

/// Rows of a block see each other; rows before it do not see the block. Once it is taken back, the
/// sequence continues as if the block had never been.
TEST_F(StepInputs, ABlockOfRowsIsNotCausal) {
  test::TinyModel one_layer = attention_only(seed_);
  one_layer.n_layers = 1;
  for (const test::TinyModel& shape : {one_layer, attention_only(seed_)}) {
    const Weights w(shape);
    const StepRunner ref(*w.file, test::scalar_back_end());
    for (const test::BackEnd& back_end : test::back_ends()) {
      SCOPED_TRACE(back_end.name);
      const StepRunner run(*w.file, back_end);
      const auto s = run.model->states().create_sequence();
      const auto r = ref.model->states().create_sequence();
      const auto other = run.model->states().create_sequence();
      for (int round = 0; round < 8; ++round) {
        const Tokens context = tokens(1 + below(2));
        const Tokens block = tokens(2 + below(5));
        Tokens all = context;
        all.insert(all.end(), block.begin(), block.end());
        const auto plan = [&](state::SequenceState& state, bool causal) {
          SequenceRows rows = decode_rows(state, all);
          rows.revocable = true;
          rows.block = causal ? 0 : static_cast<int32_t>(block.size());
          return rows;
        };
        const auto take_back = [&](state::SequenceState& state, size_t rows) {
          ASSERT_TRUE(state.commit(static_cast<int32_t>(rows)).ok());
        };
        const Floats causal = ref.forward({{plan(*r, true)}});
        take_back(*r, 0);
        const Floats expected = ref.forward({{plan(*r, false)}});
        take_back(*r, context.size());
        // Beside a causal sequence.
        const Floats got = run.forward({{plan(*s, false), decode_rows(*other, context)}});
        take_back(*s, context.size());
        ASSERT_EQ(Floats(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(expected.size())),
                  expected);
        const auto row = [](const Floats& logits, size_t i) {
          return Floats(logits.begin() + static_cast<std::ptrdiff_t>(i * 64),
                        logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * 64));
        };
        for (size_t i = 0; i < context.size(); ++i) ASSERT_EQ(row(got, i), row(causal, i));
        ASSERT_NE(row(got, context.size()), row(causal, context.size()));
        // With one layer, the keys and values are those of causal rows, and the last row sees as
        // much as a causal one.
        if (shape.n_layers == 1) {
          ASSERT_EQ(row(got, all.size() - 1), row(causal, all.size() - 1));
        }
        // `other` has seen the same context without blocks.
        const Tokens next = tokens(1);
        ASSERT_EQ(run.forward({{decode_rows(*s, next)}}),
                  run.forward({{decode_rows(*other, next)}}));
        ASSERT_FALSE(ref.forward({{decode_rows(*r, next)}}).empty());
      }
    }
  }
}

/// Every row of a block depends on every token of it.
TEST_F(StepInputs, EveryRowOfABlockSeesItsTokens) {
  const Weights w(attention_only(seed_));
  const StepRunner run(*w.file, test::scalar_back_end());
  const auto s = run.model->states().create_sequence();
  const Tokens block = tokens(4);
  const auto logits = [&](const Tokens& of) {
    SequenceRows rows = decode_rows(*s, of);
    rows.revocable = true;
    rows.block = 4;
    Floats all = run.forward({{rows}});
    EXPECT_TRUE(s->commit(0).ok());
    return all;
  };
  const Floats before = logits(block);
  for (size_t changed = 0; changed < 4; ++changed) {
    Tokens other = block;
    other[changed] = (other[changed] + 1) % 64;
    const Floats after = logits(other);
    for (size_t r = 0; r < 4; ++r) {
      const auto at = static_cast<std::ptrdiff_t>(r * 64);
      EXPECT_FALSE(std::equal(before.begin() + at, before.begin() + at + 64, after.begin() + at))
          << "row " << r << ", token " << changed;
    }
  }
}

TEST_F(StepInputs, BadPlansAreRefused) {
  const Weights w(attention_only(seed_));
  const Weights recurrent(mixed_layers(seed_));
  const StepRunner run(*w.file, test::scalar_back_end());
  const StepRunner run_recurrent(*recurrent.file, test::scalar_back_end());
  const auto s = run.model->states().create_sequence();
  const auto refuses = [&](const StepRunner& runner, const StepPlan& plan, Error::Code code,
                           const char* what) {
    const auto result = runner.model->forward(plan);
    ASSERT_FALSE(result.ok()) << what;
    EXPECT_EQ(result.error().code, code) << what;
    EXPECT_THAT(result.error().message, HasSubstr(what));
    EXPECT_EQ(s->position(), 0);
    EXPECT_EQ(s->pending_rows(), 0);
  };
  constexpr auto kInvalid = Error::Code::kInvalidArgument;
  const int32_t vector = SequenceRows::kEmbeddingRow;
  SequenceRows rows = decode_rows(*s, {1, vector, 2});
  refuses(run, {{rows}}, kInvalid, "input vectors");
  rows.embeddings.assign(128, 0.5F);
  refuses(run, {{rows}}, kInvalid, "input vectors");
  rows.embeddings.resize(64);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    rows.embeddings[below(64)] = bad;
    refuses(run, {{rows}}, kInvalid, "not finite");
    rows.embeddings.assign(64, 0.5F);
  }
  SequenceRows block = decode_rows(*s, {1, 2, 3});
  block.block = 2;
  refuses(run, {{block}}, kInvalid, "revocable");
  block.revocable = true;
  block.block = 4;
  refuses(run, {{block}}, kInvalid, "a block of 4 rows");
  block.block = -1;
  refuses(run, {{block}}, kInvalid, "a block of -1 rows");
  SequenceRows chunk = prefill_rows(*s, {1, 2});
  chunk.block = 2;
  refuses(run, {{chunk}}, kInvalid, "revocable decode rows");
  const auto other = run_recurrent.model->states().create_sequence();
  SequenceRows of_recurrent = decode_rows(*other, {1, 2});
  of_recurrent.revocable = true;
  of_recurrent.block = 2;
  refuses(run_recurrent, {{of_recurrent}}, Error::Code::kUnsupported, "recurrent layers");
  for (const std::vector<int32_t>& taps : {Tokens{4}, Tokens{-1}, Tokens{1, 1}, Tokens{2, 0}}) {
    StepPlan plan = {{decode_rows(*s, {1})}};
    plan.taps = taps;
    refuses(run, plan, kInvalid, "tapped layer");
  }
  StepPlan plan = {{decode_rows(*s, {1})}};
  plan.taps = {2};
  ASSERT_TRUE(run.model->forward(plan).ok());
  Floats x(64);
  EXPECT_TRUE(run.model->read_taps(0, x).ok());
  EXPECT_FALSE(run.model->read_taps(1, x).ok());
  x.resize(63);
  EXPECT_FALSE(run.model->read_taps(0, x).ok());
  x.resize(128);
  EXPECT_FALSE(run.model->read_taps(0, x).ok()) << "the step had one row";
  ASSERT_TRUE(run.model->forward({{decode_rows(*s, {1})}}).ok());
  x.resize(64);
  EXPECT_FALSE(run.model->read_taps(0, x).ok()) << "the last step had no taps";
}

}  // namespace
}  // namespace chimere::model
