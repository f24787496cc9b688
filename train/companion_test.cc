#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <random>
#include <set>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "companion_trainer.h"
#include "engine/embedder.h"
#include "model/vocabulary.h"
#include "support/tiny_model.h"

namespace chimere::train {
namespace {

using torch::Tensor;

constexpr Marks kMarks{298, 299, 7, 8};

/// A record's passage is twelve random words; a question is four of them.
TokenFile random_pairs(size_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  TokenFile file{300, 297, 0, {}, {0}};
  for (size_t i = 0; i < n; ++i) {
    std::vector<uint16_t> passage(12);
    for (uint16_t& id : passage) id = static_cast<uint16_t>(rng() % 290);
    file.ids.insert(file.ids.end(), passage.begin(), passage.end());
    for (int question = 0; question < 2; ++question) {
      file.ids.push_back(kMarks.passage_end);
      std::shuffle(passage.begin(), passage.end(), rng);
      file.ids.insert(file.ids.end(), passage.begin(), passage.begin() + 4);
    }
    file.ids.push_back(static_cast<uint16_t>(file.end));
  }
  return file;
}

class Companions : public testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);  // small tensors: more threads would only add waiting
    seed_ = fresh_seed();
    folder_ =
        std::filesystem::temp_directory_path() / ("chimere-companion-" + std::to_string(seed_));
    std::filesystem::create_directories(folder_);
    test::TinyModel shape;
    shape.architecture = "qwen3";
    shape.n_vocab = 300;
    bytes_ = test::make_tiny_model(shape)->bytes();
    vocabulary_ = *gguf::Reader::from_bytes(bytes_.data(), bytes_.size());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::vector<uint16_t>> random_texts(size_t n, size_t longest,
                                                  uint64_t n_vocab = 300) const {
    std::mt19937_64 rng(seed_);
    std::vector<std::vector<uint16_t>> texts(n);
    for (auto& text : texts) {
      text.resize(1 + rng() % longest);
      for (uint16_t& id : text) id = static_cast<uint16_t>(rng() % n_vocab);
    }
    return texts;
  }

  /// Fraction of the questions answered correctly over the last ten of `steps`.
  double learn(CompanionKind kind, int64_t steps) const {
    const TokenFile file = random_pairs(400, seed_);
    const auto records = read_records(file, kMarks);
    Companion model(config_, seed_, torch::kCPU);
    Recipe recipe;
    recipe.steps = steps;
    recipe.warmup = 5;
    recipe.batch = 32;
    recipe.window = 20;
    recipe.learning_rate = 1e-2;
    CompanionTrainer trainer(model, kind, kMarks, recipe, records);
    double right = 0;
    while (trainer.step_count() < steps) {
      const CompanionLosses now = trainer.step();
      if (trainer.step_count() > steps - 10) right += now.right / 10;
    }
    return right;
  }

  uint64_t seed_ = 0;
  std::filesystem::path folder_;
  std::vector<uint8_t> bytes_;
  std::unique_ptr<gguf::Reader> vocabulary_;
  CompanionConfig config_{
      .n_vocab = 300, .n_layer = 2, .n_embd = 64, .n_ff = 64, .n_head = 2, .n_head_kv = 1};
};

TEST_F(Companions, AStepIsAFunctionOfItsNumber) {
  const TokenFile file = random_pairs(40, seed_);
  const auto records = read_records(file, kMarks);
  ASSERT_EQ(records.size(), 40U);
  ASSERT_EQ(records[3].size(), 3U);
  PairOrder a(records, 5), b(records, 5);
  std::set<const uint16_t*> seen;
  for (int64_t step = 0; step < 5; ++step) {
    for (const auto& pair : a.pairs(step, 2)) seen.insert(pair.passage.data());
  }
  EXPECT_EQ(seen.size(), 40U);  // an epoch sees each record once
  const auto again = a.pairs(3, 2), other = b.pairs(3, 2);
  for (size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].passage.data(), other[i].passage.data());
    EXPECT_EQ(again[i].question.data(), other[i].question.data());
  }
}

TEST_F(Companions, WhatATextGivesDoesNotDependOnItsBatch) {
  const Companion model(config_, seed_, torch::kCPU);
  const torch::NoGradGuard no_grad;
  const auto texts = random_texts(9, 30);
  const Batch all = make_batch(texts, 30, torch::kCPU);
  const Tensor vectors = model.embed(all), next = model.next_token(all);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Batch one = make_batch({texts[i]}, 30, torch::kCPU);
    const auto row = static_cast<int64_t>(i);
    EXPECT_LT((model.embed(one)[0] - vectors[row]).abs().max().item<double>(), 1e-5);
    EXPECT_LT((model.next_token(one)[0] - next[row]).abs().max().item<double>(), 1e-4);
  }
}

TEST_F(Companions, Learn) {
  const double embedder = learn(CompanionKind::kEmbedder, 100);
  const double reranker = learn(CompanionKind::kReranker, 150);
  std::cout << "right: embedder " << embedder << ", reranker " << reranker << "\n";
  EXPECT_GT(embedder, 0.7);  // 1 of 32 by chance
  EXPECT_GT(reranker, 0.7);  // 1 of 4
}

/// A file in the runtime.
struct Loaded {
  explicit Loaded(const std::string& path) {
    file = *gguf::Reader::open(path);
    tokenizer = *text::Tokenizer::create(*model::vocabulary_from_gguf(*file));
    model::ModelOptions options;
    options.max_tokens = 8192;
    options.max_step_rows = 128;
    model = *model::load_model(*file, *ops, options);
  }
  /// Logits of the token after a text.
  std::vector<float> next(const std::vector<int32_t>& tokens) const {
    auto state = model->states().create_sequence();
    model::StepPlan plan;
    plan.sequences.resize(1);
    plan.sequences[0].state = state.get();
    plan.sequences[0].row_class = model::RowClass::kPrefill;
    plan.sequences[0].tokens = tokens;
    plan.sequences[0].chunks = {static_cast<int32_t>(tokens.size())};
    plan.sequences[0].logits_of = {static_cast<int32_t>(tokens.size()) - 1};
    const auto result = model->forward(plan);
    const float* row = result->logits.row(0);
    return {row, row + result->logits.cols};
  }

  std::unique_ptr<gguf::Reader> file;
  std::unique_ptr<text::Tokenizer> tokenizer;
  ThreadPool pool{1};
  std::unique_ptr<kernels::Ops> ops = kernels::make_cpu_ops(pool);
  std::unique_ptr<model::Model> model;
};

std::vector<int32_t> widened(const std::vector<uint16_t>& text) {
  return {text.begin(), text.end()};
}

void expect_same_vectors(const std::string& path, const std::vector<std::vector<uint16_t>>& texts,
                         double cosine) {
  const Loaded runtime(path);
  auto embedder = *engine::Embedder::create(*runtime.model, *runtime.tokenizer, 128, 512);
  const auto model = *read_companion(*runtime.file, torch::kCPU);
  const torch::NoGradGuard no_grad;
  const Tensor want = model->embed(make_batch(texts, 512, torch::kCPU));
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<std::vector<int32_t>> one{widened(texts[i])};
    const auto got = embedder->embed(one);
    ASSERT_TRUE(got.ok()) << got.error().message;
    const Tensor mine = torch::tensor((*got)[0]);
    EXPECT_GE(mine.dot(want[static_cast<int64_t>(i)]).item<double>(), cosine) << "text " << i;
  }
}

void expect_same_scores(const std::string& path, const std::vector<std::vector<uint16_t>>& texts,
                        const Marks& marks, double tolerance) {
  const Loaded runtime(path);
  const auto model = *read_companion(*runtime.file, torch::kCPU);
  const torch::NoGradGuard no_grad;
  const Tensor p = model->next_token(make_batch(texts, 512, torch::kCPU));
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<float> logits = runtime.next(widened(texts[i]));
    const double mine =
        logits[static_cast<size_t>(marks.yes)] - logits[static_cast<size_t>(marks.no)];
    const Tensor row = p[static_cast<int64_t>(i)];
    EXPECT_NEAR(mine, (row[marks.yes] - row[marks.no]).item<double>(), tolerance) << "text " << i;
  }
}

// The runtime keeps keys and values in f16 and, beside q8_0 weights, rounds activations to 8 bits;
// scores of two random models are about 0.7 apart.
TEST_F(Companions, TheRuntimeComputesTheSame) {
  const Companion model(config_, seed_, torch::kCPU);
  const auto texts = random_texts(12, 60);
  const std::string path = (folder_ / "model.gguf").string();
  for (const Mix mix : {Mix::kF32, Mix::kQ8_0}) {
    const bool exact = mix == Mix::kF32;
    ASSERT_TRUE(write_companion(model, CompanionKind::kEmbedder, *vocabulary_, mix, path).ok());
    expect_same_vectors(path, texts, exact ? 0.999999 : 0.999);
    ASSERT_TRUE(write_companion(model, CompanionKind::kReranker, *vocabulary_, mix, path).ok());
    expect_same_scores(path, texts, kMarks, exact ? 0.02 : 0.15);
  }
}

TEST_F(Companions, TheRuntimeComputesTheSameOfTheShippedEmbedder) {
  expect_same_vectors(CHIMERE_SOURCE_FOLDER "/models/chimere-embed.gguf",
                      random_texts(20, 100, 8192), 0.999);
}

}  // namespace
}  // namespace chimere::train
