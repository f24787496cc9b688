// Block drafters (DFlash) beside a plain computation of the same formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/model.h"
#include "support/tiny_drafter.h"
#include "support/tiny_model.h"

namespace chimere::model {
namespace {

using Row = std::vector<double>;

constexpr int kEmbd = 64;
constexpr int kVocabulary = 64;

/// The formulas, in double precision, for f32 files.
class Plain {
 public:
  Plain(const gguf::Reader& drafter, const gguf::Reader& target, const test::TinyDrafter& shape)
      : file_(drafter), target_(target), shape_(shape) {}

  /// Logits of the masks after `context` and the newest token. `context`: input vectors.
  std::vector<Row> logits(const std::vector<Row>& context, int newest) const {
    std::vector<Row> fused;
    for (const Row& c : context) {
      fused.push_back(norm(product("fc.weight", c), "enc.output_norm.weight"));
    }
    const auto first = static_cast<int>(context.size());
    std::vector<Row> x;
    for (int i = 0; i < shape_.block_size; ++i) {
      x.push_back(target_row(i == 0 ? newest : shape_.mask_token));
    }
    for (int layer = 0; layer < shape_.n_layers; ++layer) {
      const std::string b = "blk." + std::to_string(layer) + ".";
      std::vector<Row> h;
      for (const Row& row : x) h.push_back(norm(row, b + "attn_norm.weight"));
      std::vector<Row> keys;
      std::vector<Row> values;
      const auto append = [&](const Row& row) {
        const auto position = static_cast<int>(keys.size());
        keys.push_back(
            heads(product(b + "attn_k.weight", row), b + "attn_k_norm.weight", position));
        values.push_back(product(b + "attn_v.weight", row));
      };
      for (const Row& row : fused) append(row);
      for (const Row& row : h) append(row);
      for (size_t i = 0; i < x.size(); ++i) {
        const int position = first + static_cast<int>(i);
        const Row q = heads(product(b + "attn_q.weight", h[i]), b + "attn_q_norm.weight", position);
        const int window = shape_.window > 0 ? shape_.window : position + 1;
        add(x[i], product(b + "attn_output.weight",
                          attend(q, keys, values, std::max(0, position + 1 - window))));
        const Row n = norm(x[i], b + "ffn_norm.weight");
        Row gate = product(b + "ffn_gate.weight", n);
        const Row up = product(b + "ffn_up.weight", n);
        for (size_t j = 0; j < gate.size(); ++j) gate[j] *= up[j] / (1 + std::exp(-gate[j]));
        add(x[i], product(b + "ffn_down.weight", gate));
      }
    }
    std::vector<Row> out;
    for (size_t i = 1; i < x.size(); ++i) {
      out.push_back(product(target_, "output.weight", norm(x[i], "output_norm.weight")));
    }
    return out;
  }

 private:
  static const float* data(const gguf::Reader& file, const std::string& name) {
    return static_cast<const float*>(file.find_tensor(name)->data);
  }
  static Row product(const gguf::Reader& file, const std::string& name, const Row& x) {
    const int64_t n_out = file.find_tensor(name)->dims[1];
    const float* w = data(file, name);
    Row y(static_cast<size_t>(n_out), 0.0);
    for (double& v : y) {
      for (const double e : x) v += e * static_cast<double>(*w++);
    }
    return y;
  }
  Row product(const std::string& name, const Row& x) const { return product(file_, name, x); }
  Row target_row(int token) const {
    const float* row = data(target_, "token_embd.weight") + static_cast<ptrdiff_t>(token) * kEmbd;
    return {row, row + kEmbd};
  }
  static void add(Row& x, const Row& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  Row norm(const Row& x, const std::string& weight) const {
    return norm(x.data(), x.size(), weight);
  }
  Row norm(const double* x, size_t n, const std::string& weight) const {
    const float* w = data(file_, weight);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += x[i] * x[i];
    Row y(n);
    for (size_t i = 0; i < n; ++i) {
      y[i] = x[i] / std::sqrt(sum / static_cast<double>(n) + 1e-6) * static_cast<double>(w[i]);
    }
    return y;
  }
  /// Each head normalised, then rotated: elements i and i + half together.
  Row heads(const Row& all, const std::string& weight, int position) const {
    const auto dim = static_cast<size_t>(shape_.head_dim);
    Row out;
    for (size_t begin = 0; begin < all.size(); begin += dim) {
      Row head = norm(all.data() + begin, dim, weight);
      for (size_t i = 0; i < dim / 2; ++i) {
        const double angle =
            position * std::pow(1e5, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        const double a = head[i];
        const double b = head[i + dim / 2];
        head[i] = a * std::cos(angle) - b * std::sin(angle);
        head[i + dim / 2] = a * std::sin(angle) + b * std::cos(angle);
      }
      out.insert(out.end(), head.begin(), head.end());
    }
    return out;
  }
  /// Rows from `begin` on are seen.
  Row attend(const Row& q, const std::vector<Row>& keys, const std::vector<Row>& values,
             int begin) const {
    const auto dim = static_cast<size_t>(shape_.head_dim);
    const int group = shape_.n_heads / shape_.n_kv_heads;
    Row out;
    for (int head = 0; head < shape_.n_heads; ++head) {
      const size_t from = static_cast<size_t>(head) * dim;
      const size_t kv = static_cast<size_t>(head / group) * dim;
      Row weights;
      double total = 0;
      for (size_t r = static_cast<size_t>(begin); r < keys.size(); ++r) {
        double score = 0;
        for (size_t i = 0; i < dim; ++i) score += q[from + i] * keys[r][kv + i];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
        total += weights.back();
      }
      for (size_t i = 0; i < dim; ++i) {
        double sum = 0;
        for (size_t r = 0; r < weights.size(); ++r) {
          sum += weights[r] / total * values[static_cast<size_t>(begin) + r][kv + i];
        }
        out.push_back(sum);
      }
    }
    return out;
  }

  const gguf::Reader& file_;
  const gguf::Reader& target_;
  test::TinyDrafter shape_;
};

/// A target's file, a drafter's, and the drafter on the CPU.
struct Drafting {
  explicit Drafting(const test::TinyDrafter& d, const ModelOptions& options = {}) : shape(d) {
    test::TinyModel t;
    t.seed = 5;
    target_bytes = make_tiny_model(t).value().bytes();
    drafter_bytes = make_tiny_drafter(d, t).value().bytes();
    target = gguf::Reader::from_bytes(target_bytes.data(), target_bytes.size()).value();
    file = gguf::Reader::from_bytes(drafter_bytes.data(), drafter_bytes.size()).value();
    auto loaded = load_block_drafter(*file, *target, *ops, options);
    if (loaded.ok()) {
      model = *std::move(loaded);
    } else {
      error = loaded.error();
    }
  }

  test::TinyDrafter shape;
  std::vector<uint8_t> target_bytes, drafter_bytes;
  std::unique_ptr<gguf::Reader> target, file;
  ThreadPool pool{2};
  std::unique_ptr<kernels::Ops> ops = kernels::make_cpu_ops(pool);
  std::unique_ptr<Model> model;
  Error error;
};

SequenceRows context_rows(state::SequenceState& state, const std::vector<Row>& context, size_t from,
                          size_t count) {
  SequenceRows rows;
  rows.state = &state;
  rows.tokens.assign(count, SequenceRows::kEmbeddingRow);
  for (size_t r = from; r < from + count; ++r) {
    for (const double v : context[r]) rows.embeddings.push_back(static_cast<float>(v));
  }
  if (count >= 16) {
    rows.row_class = RowClass::kPrefill;
    rows.chunks = {static_cast<int32_t>(count)};
  }
  return rows;
}

SequenceRows block_rows(state::SequenceState& state, const BlockDraft& draft, int newest) {
  SequenceRows rows;
  rows.state = &state;
  rows.tokens.assign(static_cast<size_t>(draft.block_size), draft.mask_token);
  rows.tokens[0] = newest;
  for (int i = 1; i < draft.block_size; ++i) rows.logits_of.push_back(i);
  rows.revocable = true;
  rows.block = draft.block_size;
  return rows;
}

std::vector<Row> random_context(size_t n, size_t width) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Row> rows(n, Row(width));
  for (Row& row : rows) {
    for (double& v : row) v = static_cast<double>(uniform(random));
  }
  return rows;
}

std::vector<float> values(const ConstMatrixView& m) {
  std::vector<float> out;
  for (int64_t r = 0; r < m.rows; ++r) out.insert(out.end(), m.row(r), m.row(r) + m.cols);
  return out;
}

TEST(BlockDrafter, ComputesTheFormulas) {
  for (const int window : {0, 7}) {
    SCOPED_TRACE(window);
    const Drafting d({.mask_token = 9, .window = window});
    ASSERT_NE(d.model, nullptr) << d.error.message;
    const BlockDraft* draft = d.model->block_draft();
    ASSERT_NE(draft, nullptr);
    EXPECT_EQ(draft->taps, (std::vector<int32_t>{1, 3}));
    EXPECT_EQ(draft->block_size, 4);
    const std::vector<Row> context = random_context(24, 2 * kEmbd);
    const Plain plain(*d.file, *d.target, d.shape);
    const auto state = d.model->states().create_sequence();
    size_t done = 0;
    for (const size_t count : {size_t{3}, size_t{1}, size_t{20}}) {
      StepPlan append;
      append.sequences = {context_rows(*state, context, done, count)};
      ASSERT_TRUE(d.model->forward(append).ok());
      done += count;
      // A block is taken back; the next one of the same rows has the same bits.
      std::vector<float> before;
      for (int again = 0; again < 2; ++again) {
        StepPlan plan;
        plan.sequences = {block_rows(*state, *draft, 7)};
        const auto result = d.model->forward(plan);
        ASSERT_TRUE(result.ok()) << result.error().message;
        const std::vector<float> got = values(result->logits);
        const std::vector<Row> want =
            plain.logits({context.begin(), context.begin() + static_cast<ptrdiff_t>(done)}, 7);
        ASSERT_EQ(got.size(), 3U * kVocabulary);
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_NEAR(static_cast<double>(got[i]), want[i / kVocabulary][i % kVocabulary], 2e-2);
        }
        if (again == 0) before = got;
        EXPECT_EQ(got, before);
        ASSERT_TRUE(state->commit(0).ok());
      }
    }
  }
}

TEST(BlockDrafter, HasLogitsOfTheFirstTokens) {
  const Drafting d({}, {.draft_tokens = 16});
  ASSERT_NE(d.model, nullptr) << d.error.message;
  const auto state = d.model->states().create_sequence();
  StepPlan plan;
  plan.sequences = {block_rows(*state, *d.model->block_draft(), 1)};
  const auto result = d.model->forward(plan);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(d.model->n_outputs(), 16);
  EXPECT_EQ(result->logits.cols, 16);
}

TEST(BlockDrafter, RefusesWhatDoesNotFit) {
  const Drafting fits({});
  const auto alone = load_model(*fits.file, *fits.ops, {});
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.error().message.find("--draft-model"), std::string::npos);
  const auto whole = load_block_drafter(*fits.target, *fits.target, *fits.ops, {});
  ASSERT_FALSE(whole.ok());
  EXPECT_NE(whole.error().message.find("a model of its own"), std::string::npos);
  const Drafting beyond({.taps = {1, 4}});  // the target has layers 0 to 3
  EXPECT_NE(beyond.error.message.find("dflash.target_layers has 5"), std::string::npos);
  const Drafting mask({.mask_token = kVocabulary});
  EXPECT_NE(mask.error.message.find("mask_token_id"), std::string::npos);
  const auto wide = test::make_tiny_drafter({}, {.n_embd = 128}).value().bytes();
  const auto other = gguf::Reader::from_bytes(wide.data(), wide.size()).value();
  const auto mismatch = load_block_drafter(*other, *fits.target, *fits.ops, {});
  ASSERT_FALSE(mismatch.ok());
  EXPECT_EQ(mismatch.error().code, Error::Code::kUnsupported);
  EXPECT_NE(mismatch.error().message.find("embedding length 128; this model has 64"),
            std::string::npos);
  EXPECT_EQ(check_block_drafter(*other, *fits.target).error().message, mismatch.error().message);
  EXPECT_FALSE(check_block_drafter(*fits.target, *fits.target).ok());
  EXPECT_TRUE(check_block_drafter(*fits.file, *fits.target).ok());
  EXPECT_TRUE(is_block_drafter(*fits.file));
  EXPECT_FALSE(is_block_drafter(*fits.target));
}

TEST(BlockDrafter, RefusesContextRowsWithOutputs) {
  const Drafting d({});
  const auto state = d.model->states().create_sequence();
  StepPlan plan;
  plan.sequences = {context_rows(*state, random_context(2, 2 * kEmbd), 0, 2)};
  plan.sequences[0].logits_of = {1};
  EXPECT_EQ(d.model->forward(plan).error().code, Error::Code::kInvalidArgument);
  EXPECT_EQ(state->position(), 0);
}

}  // namespace
}  // namespace chimere::model
