#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "drafter_trainer.h"
#include "fused.h"
#include "gguf/writer.h"
#include "kernels/api.h"
#include "model/model.h"
#include "model_file.h"
#include "quant/quant.h"
#include "quantise.h"
#include "support/tiny_model.h"
#include "test_vocabulary.h"

namespace chimere::train {
namespace {

using torch::Tensor;

constexpr int64_t kVocab = 48, kWidth = 32, kLayers = 2, kBlock = 4;
constexpr int64_t kPrompt = 5, kLength = 40;
constexpr int32_t kMask = 47;

class Drafters : public testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);  // small tensors: more threads would only add waiting
    seed_ = fresh_seed();
    folder_ = std::filesystem::temp_directory_path() / ("chimere-drafter-" + std::to_string(seed_));
    std::filesystem::create_directories(folder_);
    torch::manual_seed(seed_);
    target_.embedding = torch::randn({kVocab, kWidth}) * 0.3;
    target_.output = target_.embedding;
    target_.norm = torch::ones({kWidth});
    hidden_of_token_ = torch::randn({kVocab, kLayers * kWidth});
    config_ = {.n_ff = 64,
               .n_head = 2,
               .n_head_kv = 1,
               .head_dim = 16,
               .block = kBlock,
               .mask_token = kMask,
               .taps = {1, 3}};
    config_.fit(target_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Texts [n, kLength], each of eight tokens in a circle, forwards or backwards from a random one:
  /// an anchor alone does not tell what follows, the row before it does.
  Tensor circles(int64_t n) const {
    std::mt19937_64 random(seed_);
    Tensor texts = torch::empty({n, kLength}, torch::kLong);
    for (int64_t i = 0; i < n; ++i) {
      const auto from = static_cast<int64_t>(random() % 8);
      const int64_t step = random() % 2 == 0 ? 1 : 7;
      texts[i].copy_((torch::arange(kLength) * step + from).remainder(8) + 3);
    }
    return texts;
  }

  /// A shard of texts [n, kLength]; `rows` [n, kLength, row size] of two layers, none if undefined.
  void write_texts(const std::string& name, const Tensor& texts, const Tensor& rows,
                   const std::vector<int32_t>& layers) const {
    gguf::Writer out;
    out.set_string("general.type", "hidden-states");
    out.set_string("hidden_states.set", "circles");
    const auto add = [&](const char* tensor, const Tensor& values) {
      const Tensor v = values.to(torch::kInt).contiguous();
      const auto n = static_cast<uint64_t>(v.numel());
      ASSERT_TRUE(out.add_tensor(tensor, {v.numel()}, DType::kI32, v.data_ptr(), n * 4).ok());
    };
    add("tokens", texts);
    add("starts", torch::arange(texts.size(0)) * kLength);
    add("prompts", torch::full({texts.size(0)}, kPrompt, torch::kLong));
    if (rows.defined()) {
      out.set_i32s("hidden_states.layers", layers);
      out.set_u32("hidden_states.embedding_length", kWidth);
      const Tensor half = rows.to(torch::kHalf).contiguous();
      ASSERT_TRUE(out.add_tensor("rows", {kLayers * kWidth, texts.numel()}, DType::kF16,
                                 half.data_ptr(), static_cast<uint64_t>(half.numel()) * 2)
                      .ok());
    }
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    ASSERT_TRUE(out.write(path.string()).ok());
  }

  /// A shard of `n` circles; rows are a function of their tokens.
  void write_shard(const std::string& name, int64_t n) const {
    const Tensor texts = circles(n);
    Tensor rows = torch::embedding(hidden_of_token_, texts);
    rows.select(1, kLength - 1).zero_();  // the target did not compute the last token
    write_texts(name, texts, rows, {1, 3});
  }

  Result<HiddenStates> open(const std::string& folder = ".") const {
    return HiddenStates::open({(folder_ / folder).string()}, kWidth, kVocab);
  }

  /// A qwen35moe of random weights, out of a file.
  struct TinyTarget {
    std::shared_ptr<const Model> model;
    DrafterTarget parts;
  };
  TinyTarget tiny_target() const {
    const ModelConfig config{.n_vocab = kVocab,
                             .n_layer = 4,
                             .n_embd = kWidth,
                             .n_head = 2,
                             .n_head_kv = 1,
                             .head_dim = 16,
                             .n_rot = 8,
                             .n_k_head = 1,
                             .n_v_head = 2,
                             .n_ff = 32};
    const std::filesystem::path folder = folder_ / "target";
    std::filesystem::create_directories(folder);
    const std::string path = (folder / "model.gguf").string();
    const auto vocabulary = test_vocabulary(kVocab, (folder / "vocabulary.gguf").string());
    EXPECT_TRUE(vocabulary.ok());
    const Model model(config, seed_, torch::kCPU, torch::kFloat);
    EXPECT_TRUE(write_model(model, **vocabulary, Mix::kF32, path).ok());
    const auto file = *gguf::Reader::open(path);
    return {*read_model(*file, torch::kCPU, torch::kFloat),
            *read_target(*file, torch::kCPU, torch::kFloat)};
  }

  uint64_t seed_ = 0;
  std::filesystem::path folder_;
  DrafterTarget target_;
  DrafterConfig config_;
  Tensor hidden_of_token_;  ///< [V, kLayers * kWidth]
};

Tensor integers(const std::vector<int64_t>& values) { return torch::tensor(values, torch::kLong); }

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

TEST_F(Drafters, AStepIsAFunctionOfItsNumber) {
  write_shard("00000.gguf", 5);
  write_shard("00001.gguf", 6);
  const auto data = *open();
  ASSERT_EQ(data.sequences().size(), 11U);
  EXPECT_EQ(data.layers(), (std::vector<int64_t>{1, 3}));
  const AnchorChoice choice{.batch = 4, .anchors = 6, .window = 16, .block = kBlock, .seed = 5};
  AnchorOrder a = *AnchorOrder::create(data, choice), b = *AnchorOrder::create(data, choice);
  for (const int64_t step : {0, 7, 3}) {
    const DrafterBatch x = *a.batch(step), y = *b.batch(step);
    EXPECT_TRUE(x.rows.equal(y.rows));
    EXPECT_TRUE(x.labels.equal(y.labels));
    EXPECT_TRUE(x.positions.equal(y.positions));
    EXPECT_GE(x.positions.min().item<int64_t>(), kPrompt - 1);
    EXPECT_LE(x.positions.max().item<int64_t>(), kLength - 2);
    // Circles: the label after a label is one step on, in one of the two directions.
    EXPECT_GE(x.labels.select(-1, 0).min().item<int64_t>(), 3);
    const Tensor way = (x.labels.select(-1, 0) - x.anchors).remainder(8);
    EXPECT_TRUE(((way == 1) | (way == 7)).all().item<bool>());
    for (int64_t i = 0; i < choice.batch; ++i) {
      const int64_t first = x.first[i].item<int64_t>();
      for (int64_t j = 0; j < choice.anchors; ++j) {
        const int64_t before = x.positions[i][j].item<int64_t>() - 1 - first;
        ASSERT_GE(before, 0);
        ASSERT_LT(before, choice.window);
        // The row before the anchor is that of the token before it.
        const int64_t token = (x.anchors[i][j] - 3 - way[i][j] + 8).remainder(8).item<int64_t>();
        const Tensor want = hidden_of_token_[token + 3];
        EXPECT_LT(largest(x.rows[i][before].to(torch::kFloat) - want), 0.01);
      }
    }
  }
}

TEST_F(Drafters, GradientsReachAllTensors) {
  BlockDrafter model(config_, target_, seed_);
  const Tensor rows = torch::randn({2, 9, kLayers * kWidth});
  const DrafterContext context = model.read(rows, integers({0, 4}));
  const Tensor hidden = model.forward(context, integers({1, 2, 3, 4}).view({2, 2}),
                                      integers({5, 9, 6, 13}).view({2, 2}), kBlock);
  ASSERT_EQ(hidden.sizes(), (torch::IntArrayRef{2, 2, kBlock, kWidth}));
  (hidden * torch::randn_like(hidden)).sum().backward();
  EXPECT_EQ(model.parameters().size(), 3U + 11U * 2U);
  for (const auto& [name, value] : model.parameters()) {
    ASSERT_TRUE(value.grad().defined()) << name;
    EXPECT_TRUE(value.grad().isfinite().all().item<bool>()) << name;
    EXPECT_GT(largest(value.grad()), 1e-8) << name;
  }
  EXPECT_FALSE(target_.embedding.requires_grad());
}

TEST_F(Drafters, TheLossInPartsIsThatOfTheWhole) {
  const Tensor hidden = torch::randn({11, kWidth}).set_requires_grad(true);
  const Tensor target = torch::randint(kVocab, {11}, torch::kLong), weight = torch::rand({11});
  Tensor choice;
  const Tensor loss = weighted_cross_entropy(hidden, target_.output, target, weight, 3, &choice);
  (loss * 2).backward();
  const Tensor got = hidden.grad().clone();
  hidden.mutable_grad() = Tensor();
  const Tensor logits = torch::linear(hidden, target_.output);
  const Tensor want =
      -(logits.log_softmax(-1).gather(1, target.unsqueeze(1)).squeeze(1) * weight).sum();
  (want * 2).backward();
  EXPECT_NEAR(loss.item<double>(), want.item<double>(), 1e-3);
  EXPECT_LT(largest(got - hidden.grad()), 1e-4);
  EXPECT_TRUE(choice.equal(logits.argmax(-1)));
}

// Several blocks of several texts at once give what each gives alone from the rows before its
// anchor: rows at and after it have no influence.
TEST_F(Drafters, ABlockSeesTheRowsBeforeItsAnchorOnly) {
  const BlockDrafter model(config_, target_, seed_);
  const torch::NoGradGuard no_grad;
  const Tensor rows = torch::randn({2, 10, kLayers * kWidth});
  const std::vector<int64_t> first{0, 30}, anchors{11, 12, 13, 14}, positions{4, 10, 31, 36};
  const auto all = [&](const Tensor& r) {
    const Tensor hidden =
        model.forward(model.read(r, integers(first)), integers(anchors).view({2, 2}),
                      integers(positions).view({2, 2}), kBlock);
    return torch::linear(hidden.narrow(2, 1, kBlock - 1), target_.output);
  };
  const Tensor together = all(rows);
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t b = i / 2, at = positions[static_cast<size_t>(i)] - first[static_cast<size_t>(b)];
    const Tensor mine = together[b][i % 2];
    const Tensor alone = model.logits(rows[b].narrow(0, 0, at), first[static_cast<size_t>(b)],
                                      anchors[static_cast<size_t>(i)], kBlock);
    EXPECT_LT(largest(alone - mine), 1e-3) << i;
    if (at < 10) {
      Tensor changed = rows.clone();
      changed[b].narrow(0, at, 10 - at).normal_();
      EXPECT_LT(largest(all(changed)[b][i % 2] - mine), 1e-5) << i;
    }
    Tensor changed = rows.clone();
    changed[b].narrow(0, at - 1, 1).normal_();
    EXPECT_GT(largest(all(changed)[b][i % 2] - mine), 1e-3) << i;
  }
  // Without context, too, and with fewer rows than in training.
  EXPECT_TRUE(model.logits(rows[0].narrow(0, 0, 0), 0, 5, kBlock).isfinite().all().item<bool>());
  EXPECT_EQ(model.logits(rows[0], 0, 5, 2).sizes(), (torch::IntArrayRef{1, kVocab}));
  // Keys turn with their distance to the block, not with their position in the text.
  const Tensor here = model.logits(rows[0], 3, 5, kBlock),
               there = model.logits(rows[0], 50, 5, kBlock);
  EXPECT_LT(largest(here - there), 1e-2);
}

/// Steps of replay(), one block at a time.
int64_t replayed_steps(const BlockDrafter& model, const HiddenStates& data, int64_t block) {
  int64_t steps = 0;
  for (const HiddenSequence& s : data.sequences()) {
    Tensor rows = torch::empty({s.size, data.row_size()}, torch::kHalf);
    data.copy_rows(s, 0, s.size, rows.data_ptr());
    const auto text = data.tokens(s);
    for (int64_t at = s.prompt; at < s.size - 1; ++steps) {
      const Tensor drafts =
          model.logits(rows.narrow(0, 0, at), 0, text[static_cast<size_t>(at)], block).argmax(-1);
      int64_t right = 0;
      while (right < block - 1 && at + 1 + right < s.size &&
             drafts[right].item<int64_t>() == text[static_cast<size_t>(at + 1 + right)]) {
        ++right;
      }
      at += right + 1;
    }
  }
  return steps;
}

TEST_F(Drafters, LearnCircles) {
  write_shard("00000.gguf", 24);
  const auto data = *open();
  Recipe recipe;
  recipe.steps = 300;
  recipe.warmup = 10;
  recipe.batch = 8;
  recipe.window = 24;
  recipe.seed = seed_;
  recipe.learning_rate = 1e-2;
  recipe.quantise_from = 0.8;
  BlockDrafter model(config_, target_, seed_);
  AnchorOrder order = *AnchorOrder::create(data, {.batch = recipe.batch,
                                                  .anchors = 8,
                                                  .window = recipe.window,
                                                  .block = kBlock,
                                                  .seed = seed_});
  DrafterTrainer trainer(model, order, recipe, {{kBlock, default_gamma(kBlock)}});
  double first_loss = 0, length = 0, first_right = 0;
  while (trainer.step_count() < trainer.steps()) {
    const Tensor now = *trainer.step();
    if (trainer.step_count() == 1) first_loss = now[0].item<double>();
    if (trainer.step_count() > trainer.steps() - 10) {
      first_right += now[1].item<double>() / 10;
      length += now[2].item<double>() / 10;
    }
  }
  const torch::NoGradGuard no_grad;
  const Replay result = *replay(model, data, data.sequences(), kBlock);
  std::cout << "first loss " << first_loss << ", first drafts right " << first_right
            << ", accepted length " << length << ", tau " << result.tau() << "\n";
  EXPECT_GT(first_right, 0.9);  // 0.5 without context
  EXPECT_GT(length, 3.2);       // of 4, and less at the ends of texts
  EXPECT_GT(result.tau(), 3.2);
  EXPECT_EQ(result.sequences, 24);
  EXPECT_EQ(result.tokens, 24 * (kLength - 1 - kPrompt));
  EXPECT_EQ(result.steps, replayed_steps(model, data, kBlock));
  const Replay shorter = *replay(model, data, data.sequences(), 2);
  EXPECT_EQ(shorter.steps, replayed_steps(model, data, 2));
  EXPECT_LE(shorter.tau(), 2.0);
  ASSERT_EQ(shorter.places.size(), 1U);
  EXPECT_LE(shorter.accepted[0], shorter.places[0]);
}

TEST_F(Drafters, LayerOutputsAreThoseOfAForwardPass) {
  const TinyTarget target = tiny_target();
  const Model& model = *target.model;
  const torch::NoGradGuard no_grad;
  const Tensor tokens = torch::randint(kVocab, {2, 70}, torch::kLong);
  const Tensor all = model.layer_outputs(tokens, {0, 1, 2, 3});
  ASSERT_EQ(all.sizes(), (torch::IntArrayRef{2, 70, 4 * kWidth}));
  const auto output = [&](int64_t layer) { return all.narrow(-1, layer * kWidth, kWidth); };
  const Tensor hidden = rms_norm(output(3), model.parameters().at("output_norm.weight"),
                                 model.config().eps, torch::kFloat);
  EXPECT_LT(largest(hidden - model.forward(tokens).hidden), 1e-5);
  const Tensor some = model.layer_outputs(tokens, {0, 2});
  EXPECT_LT(largest(some - torch::cat({output(0), output(2)}, -1)), 1e-5);
  const Tensor begin = model.layer_outputs(tokens.narrow(1, 0, 9), {2});
  EXPECT_LT(largest(begin - output(2).narrow(1, 0, 9)), 1e-4);
}

TEST_F(Drafters, RowsThatTheTargetComputesGiveTheSameLoss) {
  const TinyTarget target = tiny_target();
  const Tensor texts = torch::randint(kVocab, {12, kLength}, torch::kLong);
  {
    const torch::NoGradGuard no_grad;
    write_texts("rows/00000.gguf", texts, target.model->layer_outputs(texts, {0, 2}), {0, 2});
    write_texts("tokens/00000.gguf", texts, {}, {});
  }
  const auto stored = *open("rows");
  auto computed = *open("tokens");
  ASSERT_FALSE(computed.has_rows());
  AnchorChoice choice{.batch = 4, .anchors = 6, .window = kLength, .block = kBlock, .seed = seed_};
  EXPECT_FALSE(AnchorOrder::create(computed, choice).ok());  // nothing computes rows
  EXPECT_FALSE(computed.set_target(target.model, {0, 4}).ok());
  ASSERT_TRUE(computed.set_target(target.model, {0, 2}).ok());
  ASSERT_EQ(computed.row_size(), stored.row_size());

  AnchorOrder with_rows = *AnchorOrder::create(stored, choice),
              with_tokens = *AnchorOrder::create(computed, choice);
  const DrafterBatch x = *with_rows.batch(3), y = *with_tokens.batch(3);
  EXPECT_TRUE(x.labels.equal(y.labels));
  EXPECT_TRUE(x.positions.equal(y.positions));
  EXPECT_FALSE(y.rows.defined());
  const Tensor rows = computed.compute_rows(y.tokens);
  EXPECT_FALSE(rows.requires_grad());
  for (int64_t i = 0; i < choice.batch; ++i) {
    const int64_t n = x.positions[i].max().item<int64_t>();
    const Tensor want = x.rows[i].narrow(0, 0, n).to(torch::kFloat);
    EXPECT_LT(largest(rows[i].narrow(0, 0, n) - want), 2e-3 * (1 + largest(want)));
  }

  DrafterConfig config = config_;
  config.fit(target.parts);
  config.taps = {0, 2};
  const auto losses = [&](AnchorOrder& order) {
    Recipe recipe;
    recipe.steps = 4;
    recipe.seed = seed_;
    recipe.learning_rate = 0;  // the same weights in all steps
    BlockDrafter model(config, target.parts, seed_);
    DrafterTrainer trainer(model, order, recipe, {{kBlock, default_gamma(kBlock)}});
    std::vector<Tensor> all;
    while (trainer.step_count() < trainer.steps()) all.push_back((*trainer.step())[0]);
    return torch::stack(all);
  };
  EXPECT_LT(largest(losses(with_rows) - losses(with_tokens)), 3e-3);
  const BlockDrafter model(config, target.parts, seed_);
  const Replay a = *replay(model, stored, stored.sequences(), kBlock),
               b = *replay(model, computed, computed.sequences(), kBlock);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_NEAR(double(a.steps), double(b.steps), 3);  // two nearly equal logits may change places

  // A window has the beginning of its text.
  choice.window = 16;
  AnchorOrder cut = *AnchorOrder::create(computed, choice);
  const DrafterBatch z = *cut.batch(0);
  EXPECT_EQ(z.first.abs().max().item<int64_t>(), 0);
  EXPECT_LE(z.tokens.size(1), choice.window);
  EXPECT_LE(z.positions.max().item<int64_t>(), choice.window);
  for (int64_t i = 0; i < choice.batch; ++i) {
    const int64_t n = z.positions[i].max().item<int64_t>();
    EXPECT_TRUE((texts.narrow(1, 0, n) == z.tokens[i].narrow(0, 0, n)).all(1).any().item<bool>());
  }
  choice.window = kPrompt - 2;
  EXPECT_FALSE(AnchorOrder::create(computed, choice).ok());  // no anchor in any window

  write_texts("rows/00001.gguf", texts, {}, {});
  const auto mixed = open("rows");
  ASSERT_FALSE(mixed.ok());
  EXPECT_NE(mixed.error().message.find("has no rows"), std::string::npos) << mixed.error().message;
}

TEST_F(Drafters, BlocksOfSeveralSizesAreEquallyLikely) {
  constexpr int64_t kSteps = 3000;
  std::vector<int64_t> drawn(3);
  int64_t differ = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    const size_t size = block_of_step(3, seed_, step);
    ++drawn.at(size);
    EXPECT_EQ(size, block_of_step(3, seed_, step));
    differ += size != block_of_step(3, seed_ + 1, step) ? 1 : 0;
    EXPECT_EQ(block_of_step(1, seed_, step), 0U);
  }
  for (const int64_t n : drawn) EXPECT_NEAR(double(n), kSteps / 3.0, 200);
  EXPECT_GT(differ, kSteps / 2);

  write_shard("00000.gguf", 6);
  const auto data = *open();
  Recipe recipe;
  recipe.steps = 12;
  recipe.seed = seed_;
  BlockDrafter model(config_, target_, seed_);
  AnchorOrder order = *AnchorOrder::create(
      data, {.batch = 4, .anchors = 6, .window = 24, .block = kBlock, .seed = seed_});
  const std::vector<TrainedBlock> blocks{{2, default_gamma(2)}, {kBlock, default_gamma(kBlock)}};
  DrafterTrainer trainer(model, order, recipe, blocks);
  for (int64_t step = 0; step < recipe.steps; ++step) {
    const Tensor now = *trainer.step();
    EXPECT_TRUE(now.isfinite().all().item<bool>());
    EXPECT_LE(now[2].item<double>(), double(blocks[block_of_step(2, seed_, step)].rows) + 1e-4);
  }
}

TEST_F(Drafters, ShapesThatTheEngineRefusesAreErrors) {
  ASSERT_TRUE(config_.check().ok()) << config_.check().error().message;
  const auto complaint = [&](int64_t head_dim, int64_t block) {
    DrafterConfig config = config_;
    config.head_dim = head_dim;
    config.block = block;
    const Status status = config.check_shape();
    return status.ok() ? "accepted" : status.error().message;
  };
  EXPECT_EQ(complaint(16, 2), "accepted");
  EXPECT_EQ(complaint(256, 64), "accepted");
  for (const int64_t head_dim : {0, 8, 24, 272}) {
    EXPECT_NE(complaint(head_dim, 16).find("a multiple of 16, at most 256"), std::string::npos);
  }
  for (const int64_t block : {1, 65}) {
    EXPECT_NE(complaint(16, block).find("blocks of 2 to 64"), std::string::npos);
  }
}

TEST_F(Drafters, AFileHasTheSameWeights) {
  const BlockDrafter model(config_, target_, seed_);
  const torch::NoGradGuard no_grad;
  const std::string path = (folder_ / "drafter.gguf").string();
  for (const Mix mix : {Mix::kF32, Mix::kQ8_0, Mix::kShipped}) {
    ASSERT_TRUE(write_drafter(model, mix, path).ok());
    const auto file = *gguf::Reader::open(path);
    const auto again = read_drafter(*file, target_);
    ASSERT_TRUE(again.ok()) << again.error().message;
    const DrafterConfig& c = (*again)->config();
    EXPECT_EQ(c.taps, config_.taps);
    EXPECT_EQ(c.block, config_.block);
    EXPECT_EQ(c.mask_token, config_.mask_token);
    EXPECT_EQ(c.n_vocab, config_.n_vocab);
    EXPECT_EQ(file->tensors().size(), model.parameters().size());
    EXPECT_EQ(*file->get_int_array("dflash.target_layers"), (std::vector<int64_t>{2, 4}));
    for (const auto& [name, value] : model.parameters()) {
      const Tensor& got = (*again)->parameters().at(name);
      if (mix == Mix::kQ8_0) {
        EXPECT_LT(largest(got - value), 0.01 * largest(value)) << name;
      } else {
        const bool rounded = mix == Mix::kShipped && has_four_bits(name, value);
        EXPECT_TRUE(got.equal(rounded ? rounded_to_four_bits(value) : value)) << name;
      }
    }
  }
  DrafterTarget other = target_;
  other.embedding = torch::randn({kVocab + 1, kWidth});
  EXPECT_FALSE(read_drafter(**gguf::Reader::open(path), other).ok());
}

TEST_F(Drafters, DamagedShardsAreErrors) {
  EXPECT_FALSE(open().ok());  // an empty folder
  write_shard("00000.gguf", 2);
  EXPECT_TRUE(open().ok());
  EXPECT_FALSE(HiddenStates::open({folder_.string()}, kWidth, 9).ok());  // tokens up to 10
  EXPECT_FALSE(HiddenStates::open({folder_.string()}, kWidth / 2, kVocab).ok());
  gguf::Writer out;
  out.set_string("general.type", "model");
  ASSERT_TRUE(out.write((folder_ / "00001.gguf").string()).ok());
  EXPECT_FALSE(open().ok());
}

TEST_F(Drafters, TheEngineComputesTheSame) {
  const auto target_path = (folder_ / "target").string();
  const auto drafter_path = (folder_ / "drafter").string();
  ASSERT_TRUE(test::make_tiny_model({.seed = seed_})->write(target_path).ok());
  const auto target_file = gguf::Reader::open(target_path).value();
  DrafterTarget target = *read_target(*target_file, torch::kCPU, torch::kFloat);
  DrafterConfig config = {.n_layer = 2,
                          .n_ff = 48,
                          .n_head = 4,
                          .n_head_kv = 2,
                          .head_dim = 16,
                          .block = 6,
                          .window = 8,
                          .mask_token = 7,
                          .taps = {0, 2, 3}};
  config.fit(target);
  BlockDrafter drafter(config, target, seed_);
  for (auto& [name, value] : drafter.parameters()) {
    const torch::NoGradGuard no_grad;
    if (value.dim() == 1) value.add_(torch::randn_like(value) * 0.2);
  }
  ASSERT_TRUE(write_drafter(drafter, Mix::kF32, drafter_path).ok());
  const auto file = gguf::Reader::open(drafter_path).value();
  ThreadPool pool(1);
  const auto ops = kernels::make_cpu_ops(pool);
  const auto loaded = model::load_block_drafter(*file, *target_file, *ops, {});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  model::Model& engine = **loaded;
  EXPECT_EQ(engine.block_draft()->taps, (std::vector<int32_t>{0, 2, 3}));

  constexpr int64_t kRows = 9;
  const Tensor rows = torch::randn({kRows, 3 * 64});
  const auto state = engine.states().create_sequence();
  model::StepPlan append;
  model::SequenceRows& context = append.sequences.emplace_back();
  context.state = state.get();
  context.tokens.assign(kRows, model::SequenceRows::kEmbeddingRow);
  context.embeddings.assign(rows.data_ptr<float>(), rows.data_ptr<float>() + rows.numel());
  ASSERT_TRUE(engine.forward(append).ok());
  model::StepPlan draft;
  model::SequenceRows& block = draft.sequences.emplace_back();
  block.state = state.get();
  block.tokens = {11, 7, 7, 7, 7, 7};
  block.logits_of = {1, 2, 3, 4, 5};
  block.revocable = true;
  block.block = 6;
  const auto result = engine.forward(draft);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const torch::NoGradGuard no_grad;
  const Tensor want = drafter.logits(rows, 0, 11, 6);
  for (int64_t r = 0; r < 5; ++r) {
    const Tensor got = torch::from_blob(const_cast<float*>(result->logits.row(r)),
                                        {result->logits.cols}, torch::kFloat);
    // The engine rounds what it multiplies with quantised weights; these are f32.
    EXPECT_LT(largest(got - want[r]), 0.02 * largest(want)) << "row " << r;
  }
}

}  // namespace
}  // namespace chimere::train
