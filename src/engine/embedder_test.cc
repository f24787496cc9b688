#include "engine/embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "gguf/reader.h"
#include "model/vocabulary.h"
#include "support/tiny_model.h"

namespace chimere::engine {
namespace {

struct Loaded {
  std::vector<uint8_t> bytes;
  std::unique_ptr<gguf::Reader> file;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<model::Model> model;
};

Loaded load(const char* architecture, int pooling, int threads = 2) {
  test::TinyModel shape;
  shape.architecture = architecture;
  shape.pooling = pooling;
  shape.tied_head = true;
  shape.n_vocab = 300;
  shape.mixers = DType::kQ8_0;
  auto writer = test::make_tiny_model(shape);
  EXPECT_TRUE(writer.ok());
  writer->set_bool("tokenizer.ggml.add_eos_token", true);
  Loaded out;
  out.bytes = writer->bytes();
  out.file = *gguf::Reader::from_bytes(out.bytes.data(), out.bytes.size());
  out.tokenizer = *text::Tokenizer::create(*model::vocabulary_from_gguf(*out.file));
  out.pool = std::make_unique<ThreadPool>(threads);
  out.ops = kernels::make_cpu_ops(*out.pool);
  model::ModelOptions options;
  options.max_tokens = 8192;
  options.max_step_rows = 128;
  auto model = model::load_model(*out.file, *out.ops, options);
  EXPECT_TRUE(model.ok()) << model.error().message;
  out.model = *std::move(model);
  return out;
}

std::vector<std::vector<int32_t>> random_texts(size_t n, size_t longest) {
  std::mt19937 rng(fresh_seed());
  std::vector<std::vector<int32_t>> texts(n);
  for (auto& text : texts) {
    text.resize(1 + rng() % longest);
    for (int32_t& token : text) token = static_cast<int32_t>(rng() % 300);
  }
  return texts;
}

double length(const std::vector<float>& v) {
  double squares = 0;
  for (const float x : v) squares += static_cast<double>(x) * x;
  return std::sqrt(squares);
}

class EmbedderOf : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(EmbedderOf, AVectorDoesNotDependOnTheBatch) {
  const Loaded m = load(GetParam().first, GetParam().second);
  const Loaded alone = load(GetParam().first, GetParam().second, 1);
  auto embedder = *Embedder::create(*m.model, *m.tokenizer, 128, 4096);
  auto solo = *Embedder::create(*alone.model, *alone.tokenizer, 64, 4096);
  const auto texts = random_texts(70, 300);
  const auto all = embedder->embed(texts);
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_NEAR(length((*all)[i]), 1, 1e-5);
    const auto one = solo->embed(std::span(texts).subspan(i, 1));
    ASSERT_TRUE(one.ok());
    ASSERT_EQ((*one)[0], (*all)[i]) << "text " << i << " of " << texts[i].size() << " tokens";
  }
  EXPECT_EQ(m.model->states().pages_in_use(), 0);
}

TEST_P(EmbedderOf, IsPooledFromTheFinalHiddenStates) {
  const Loaded m = load(GetParam().first, GetParam().second);
  auto embedder = *Embedder::create(*m.model, *m.tokenizer, 128, 4096);
  const auto texts = random_texts(1, 60);
  const auto got = embedder->embed(texts);
  ASSERT_TRUE(got.ok());
  auto state = m.model->states().create_sequence();
  model::StepPlan plan;
  plan.sequences.resize(1);
  plan.sequences[0].state = state.get();
  plan.sequences[0].row_class = model::RowClass::kPrefill;
  plan.sequences[0].tokens = texts[0];
  const auto n = static_cast<int32_t>(texts[0].size());
  plan.sequences[0].chunks = {n};
  for (int32_t row = 0; row < n; ++row) plan.sequences[0].logits_of.push_back(row);
  const auto hidden = m.model->forward(plan);
  ASSERT_TRUE(hidden.ok());
  ASSERT_EQ(hidden->logits.cols, embedder->dimensions());
  std::vector<float> want(static_cast<size_t>(hidden->logits.cols), 0);
  for (int32_t row = GetParam().second == 1 ? 0 : n - 1; row < n; ++row) {
    for (size_t d = 0; d < want.size(); ++d) want[d] += hidden->logits.row(row)[d];
  }
  const double scale = length(want);
  for (size_t d = 0; d < want.size(); ++d) EXPECT_NEAR((*got)[0][d], want[d] / scale, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Models, EmbedderOf,
                         testing::Values(std::pair{"qwen3", 1}, std::pair{"qwen3", 3},
                                         std::pair{"qwen3moe", 3}));

TEST(Embedder, ATextEndsAsTheModelFileSays) {
  const Loaded m = load("qwen3", 3);
  auto embedder = *Embedder::create(*m.model, *m.tokenizer, 128, 4096);
  const std::vector<int32_t> tokens = embedder->encode("the <|im_start|>");
  EXPECT_EQ(tokens.back(), m.tokenizer->eos());
  // Names of control tokens in a text are plain text.
  EXPECT_EQ(m.tokenizer->decode(std::span(tokens).first(tokens.size() - 1), true),
            "the <|im_start|>");
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), m.tokenizer->find("<|im_start|>")), 0);
}

TEST(Embedder, RejectsInvalidInput) {
  const Loaded m = load("qwen3", 3);
  auto embedder = *Embedder::create(*m.model, *m.tokenizer, 128, 100);
  const auto message = [&](const std::vector<std::vector<int32_t>>& texts) {
    const auto result = embedder->embed(texts);
    return result.ok() ? std::string("fine") : result.error().message;
  };
  EXPECT_EQ(message({{1, 2}, std::vector<int32_t>(100, 5)}), "fine");
  EXPECT_THAT(message({{1}, {}}), testing::HasSubstr("no tokens"));
  EXPECT_THAT(message({std::vector<int32_t>(101, 5)}), testing::HasSubstr("at most 100"));
  EXPECT_THAT(message({{300}}), testing::HasSubstr("Token 300"));
  EXPECT_THAT(message({{-1}}), testing::HasSubstr("Token -1"));
  const Loaded writer = load("qwen3", 0);
  const auto refused = Embedder::create(*writer.model, *writer.tokenizer, 128, 100);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("does not compute embeddings"));
}

TEST(Embedder, ShortenedVectorsAreNormalised) {
  std::vector<float> v = {0.6F, 0, 0.8F};
  shorten(v, 2);
  EXPECT_EQ(v, (std::vector<float>{1, 0}));
  shorten(v, 5);
  EXPECT_EQ(v.size(), 2U);
}

}  // namespace
}  // namespace chimere::engine
