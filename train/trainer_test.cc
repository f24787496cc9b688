#include "trainer.h"

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <filesystem>
#include <iostream>
#include <random>
#include <thread>

#include "base/fresh_seed.h"
#include "delta_rule.h"
#include "gguf/reader.h"
#include "model_file.h"
#include "quant/quant.h"
#include "quantise.h"
#include "test_vocabulary.h"

namespace chimere::train {
namespace {

using torch::Tensor;

class Training : public testing::Test {
 protected:
  void SetUp() override {
    seed_ = chimere::fresh_seed();
    std::cout << "seed " << seed_ << "\n";
    torch::manual_seed(seed_);
    folder_ =
        std::filesystem::temp_directory_path() / std::to_string(seed_).insert(0, "chimere-train-");
    std::filesystem::create_directories(folder_);
    config_ = {.n_vocab = 64,
               .n_layer = 4,
               .n_embd = 32,
               .n_head = 2,
               .n_head_kv = 1,
               .head_dim = 16,
               .n_rot = 8,
               .n_k_head = 1,
               .n_v_head = 2,
               .n_ff = 32};
    recipe_ = {.steps = 30,
               .warmup = 2,
               .batch = 4,
               .window = 96,
               .seed = seed_,
               .learning_rate = 2e-2,
               .long_window = 192};
    documents_ = cyclic_text(4000);
    chats_ = cyclic_text(1000);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A text in which each token determines the next one except for some noise; documents of 50
  /// tokens.
  TokenFile cyclic_text(size_t n) {
    std::mt19937 random(seed_);
    TokenFile file{64, 63, n, {}, {0}};
    for (size_t i = 0; i < n; ++i) {
      const bool end = i % 50 == 49;
      const auto previous = file.ids.empty() ? 0 : file.ids.back();
      file.ids.push_back(end ? 63
                             : static_cast<uint16_t>(random() % 10 == 0 ? random() % 63
                                                                        : (previous * 5 + 3) % 63));
      if (end && i + 1 < n) file.starts.push_back(static_cast<int64_t>(i) + 1);
    }
    return file;
  }

  Trainer trainer(Group* group = nullptr) const {
    return {config_, recipe_, documents_, chats_, torch::kCPU, torch::kFloat, group};
  }

  std::unique_ptr<gguf::Reader> vocabulary() {
    auto reader = test_vocabulary(64, (folder_ / "vocabulary.gguf").string());
    EXPECT_TRUE(reader.ok());
    return *std::move(reader);
  }

  uint32_t seed_ = 0;
  std::filesystem::path folder_;
  ModelConfig config_;
  Recipe recipe_;
  TokenFile documents_, chats_;
};

/// Queries and keys (n_k heads each, of length 1) and values of t tokens.
Tensor mixed_heads(int64_t t, int64_t n_k, int64_t n_v) {
  const Tensor keys = torch::randn({2, t, 2 * n_k, 64});
  return torch::cat({(keys / keys.norm(2, -1, true)).flatten(2), torch::randn({2, t, n_v * 64})},
                    2);
}

TEST_F(Training, ChunkedDeltaRuleIsTheRecurrentOne) {
  const int64_t t = 150;  // two whole chunks and a part
  const Tensor mixed = mixed_heads(t, 2, 4), g = -torch::rand({2, t, 4}) * 2,
               beta = torch::rand({2, t, 4}), weight = torch::randn({2, t, 4, 64});
  std::vector<Tensor> gradients[2], outputs;
  for (int which = 0; which < 2; ++which) {
    std::vector<Tensor> in;
    for (const Tensor& x : {mixed, g, beta}) in.push_back(x.clone().set_requires_grad(true));
    outputs.push_back(which == 0 ? chunked_delta_rule(in[0], in[1], in[2], 2)
                                 : recurrent_delta_rule(in[0], in[1], in[2], 2));
    (outputs.back() * weight).sum().backward();
    for (const Tensor& x : in) gradients[which].push_back(x.grad());
  }
  const auto distance = [](const Tensor& a, const Tensor& b) {
    return ((a - b).norm() / b.norm()).item<double>();
  };
  EXPECT_LT(distance(outputs[0], outputs[1]), 1e-5);
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(distance(gradients[0][i], gradients[1][i]), 1e-4) << i;
}

TEST_F(Training, EqualKeysDoNotSpoilTheChunkInverse) {
  // All keys equal and beta near 1 is where summing powers instead of solving loses every digit.
  const Tensor mixed = torch::cat({torch::full({1, 64, 128}, 0.125), torch::randn({1, 64, 64})}, 2);
  const Tensor g = torch::zeros({1, 64, 1}), beta = torch::full({1, 64, 1}, 0.99);
  const Tensor a = chunked_delta_rule(mixed, g, beta, 1),
               b = recurrent_delta_rule(mixed, g, beta, 1);
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-4);
}

TEST_F(Training, RoundingToFourBitsIsWhatTheFileHolds) {
  const Tensor w = torch::randn({6, 64}) * 0.1;
  const Tensor rounded = rounded_to_four_bits(w);
  Tensor decoded = torch::empty_like(rounded);
  std::vector<uint8_t> bytes(static_cast<size_t>(row_bytes(DType::kQ4_0, w.numel())));
  ASSERT_TRUE(quant::encode(DType::kQ4_0, rounded.data_ptr<float>(), bytes.data(), w.numel()).ok());
  quant::decode(DType::kQ4_0, bytes.data(), decoded.data_ptr<float>(), w.numel());
  EXPECT_TRUE(torch::equal(decoded, rounded));
  EXPECT_TRUE(torch::equal(rounded_to_four_bits(rounded), rounded));
  EXPECT_LT((rounded - w).abs().max().item<double>(), 0.05);
}

TEST_F(Training, TheScaleOfFourBitsIsSearched) {
  // Against the scale that puts the largest element at -8, whatever the others are.
  const Tensor w = torch::randn({400, 32});
  const Tensor scale = w.gather(-1, w.abs().argmax(-1, true)) / -8;
  const Tensor plain = (w / scale).round().clamp(-8, 7) * scale;
  const auto error = [&](const Tensor& rounded) { return (rounded - w).norm().item<double>(); };
  EXPECT_LT(error(rounded_to_four_bits(w)), 0.985 * error(plain));
}

TEST_F(Training, TheShippedMixHoldsWhatTheLastStepsComputedWith) {
  recipe_.quantise_from = 0;
  Trainer t = trainer();
  for (int i = 0; i < 3; ++i) t.step(false);
  const std::string path = (folder_ / "shipped.gguf").string();
  ASSERT_TRUE(write_model(t.model(), *vocabulary(), Mix::kShipped, path).ok());
  const auto file = gguf::Reader::open(path);
  ASSERT_TRUE(file.ok());
  int64_t matrices = 0;
  for (const auto& [name, value] : t.model().parameters()) {
    if (!has_four_bits(name, value)) continue;
    const gguf::TensorInfo* info = (*file)->find_tensor(name);
    ASSERT_NE(info, nullptr);
    ASSERT_EQ(info->type, DType::kQ4_0) << name;
    Tensor decoded = torch::empty(value.sizes());
    quant::decode(info->type, info->data, decoded.data_ptr<float>(), decoded.numel());
    EXPECT_TRUE(torch::equal(decoded, rounded_to_four_bits(value.detach()))) << name;
    ++matrices;
  }
  EXPECT_GT(matrices, 30);
}

TEST_F(Training, PulledWeightsEndOnTheirGrid) {
  // Fraction of the distance to the grid left at the end of a run, relative to one without a pull.
  recipe_.steps = 40;
  recipe_.batch = 2;
  recipe_.window = recipe_.long_window = 64;
  recipe_.quantise_from = 0.3;
  recipe_.pull_from = 0.5;
  const auto distance = [&](double pull) {
    recipe_.pull = pull;
    Trainer t = trainer();
    Losses last;
    for (int i = 0; i < 40; ++i) last = t.step(i == 39);
    EXPECT_LT(last.next, 4.05);  // log 64 is 4.16
    double sum = 0;
    for (const auto& [name, value] : t.model().parameters()) {
      if (!has_four_bits(name, value)) continue;
      const Tensor w = value.detach();
      sum += ((rounded_to_four_bits(w) - w).norm() / w.norm()).item<double>();
    }
    return sum;
  };
  EXPECT_LT(distance(0.3), 0.4 * distance(0));
}

TEST_F(Training, SchedulesRiseStayAndFall) {
  recipe_.steps = 1000;
  recipe_.warmup = 100;
  recipe_.decay_from = 0.4;
  recipe_.learning_rate = 1;
  EXPECT_NEAR(learning_rate(recipe_, 0), 0.01, 1e-9);
  EXPECT_EQ(learning_rate(recipe_, 100), 1);
  EXPECT_EQ(learning_rate(recipe_, 400), 1);
  EXPECT_NEAR(learning_rate(recipe_, 700), 0.5, 1e-9);
  EXPECT_LT(learning_rate(recipe_, 999), 0.002);
  recipe_.quantise_from = 0.7;
  recipe_.pull_from = 0.8;
  recipe_.pull = 0.1;
  EXPECT_EQ(pull_share(recipe_, 799), 0);
  EXPECT_NEAR(pull_share(recipe_, 899), 0.05, 1e-9);
  EXPECT_NEAR(pull_share(recipe_, 999), 0.1, 1e-9);
}

TEST_F(Training, AGradientThatIsNoNumberIsDropped) {
  std::map<std::string, Tensor> parameters;
  for (const char* name : {"blk.0.attn_k.weight", "output_norm.weight"}) {
    parameters[name] = torch::randn({8, 8}).set_requires_grad(true);
  }
  Optimizer optimizer(parameters, recipe_);
  for (auto& [name, value] : parameters) value.mutable_grad() = torch::randn({8, 8});
  parameters.at("blk.0.attn_k.weight").mutable_grad()[0][0] = std::nanf("");
  EXPECT_FALSE(std::isfinite(optimizer.step(0.1).item<double>()));
  for (const auto& [name, value] : parameters) {
    EXPECT_TRUE(value.isfinite().all().item<bool>()) << name;
  }
}

TEST_F(Training, AFewStepsReduceTheLoss) {
  Trainer t = trainer();
  const Losses first = t.step(true);
  Losses last;
  for (int i = 1; i < 30; ++i) last = t.step(i == 29);
  EXPECT_NEAR(first.next, std::log(64.0), 0.7);
  EXPECT_LT(last.next, 0.8 * first.next);
  EXPECT_LT(last.after, first.after);
}

TEST_F(Training, DraftsLearnTheModelsOwnChoice) {
  const Trainer untrained = trainer();
  const Tensor hidden = torch::randn({2, 5, config_.n_embd}),
               target = torch::randint(64, {2, 5}, torch::kInt64);
  Tensor choice;
  untrained.model().cross_entropy(hidden, target, &choice);
  EXPECT_TRUE(torch::equal(choice, untrained.model().logits(hidden).argmax(-1)));

  // The model's choices have less noise than the text: their loss falls below what the text allows.
  recipe_.draft_from = 0.5;
  Trainer t = trainer();
  Losses text, own;
  for (int i = 0; i < 30; ++i) {
    const Losses now = t.step(i == 14 || i == 29);
    if (i == 14) text = now;
    if (i == 29) own = now;
  }
  EXPECT_LT(own.after, text.after);
}

TEST_F(Training, ResumingIsExact) {
  const std::string path = (folder_ / "checkpoint.pt").string();
  Trainer straight = trainer();
  for (int i = 0; i < 3; ++i) straight.step(false);
  ASSERT_TRUE(straight.save(path).ok());
  for (int i = 0; i < 3; ++i) straight.step(false);

  Trainer resumed = trainer();
  const Status loaded = resumed.load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(resumed.step_count(), 3);
  for (int i = 0; i < 3; ++i) resumed.step(false);
  for (const auto& [name, value] : straight.model().parameters()) {
    EXPECT_TRUE(torch::equal(value, resumed.model().parameters().at(name))) << name;
  }
}

/// Two members that are threads.
struct Rendezvous {
  std::barrier<> meeting{2};
  std::array<Tensor, 2> given;
};
class ThreadGroup : public Group {
 public:
  ThreadGroup(Rendezvous& rendezvous, int64_t rank) : rendezvous_(rendezvous), rank_(rank) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return 2; }
  void sum(Tensor& values) override {
    const auto all = meet(values);
    values.copy_(all[0] + all[1]);
  }
  void share(Tensor& values) override { values.copy_(meet(values)[0]); }

 private:
  std::array<Tensor, 2> meet(const Tensor& values) {
    rendezvous_.given[static_cast<size_t>(rank_)] = values.detach().clone();
    rendezvous_.meeting.arrive_and_wait();
    std::array<Tensor, 2> all = rendezvous_.given;
    rendezvous_.meeting.arrive_and_wait();
    return all;
  }
  Rendezvous& rendezvous_;
  int64_t rank_;
};

TEST_F(Training, AGroupTakesTheStepsOfOne) {
  recipe_.balance_weight = 0;  // of each member's own windows: the only thing that differs
  Trainer alone = trainer();
  Rendezvous rendezvous;
  ThreadGroup first(rendezvous, 0), second(rendezvous, 1);
  Trainer a = trainer(&first);
  recipe_.seed += 1;  // other weights, until the first member shares its own
  const Model other(config_, recipe_.seed, torch::kCPU, torch::kFloat);
  recipe_.seed -= 1;
  Trainer b = trainer(&second);
  for (auto& [name, value] : b.model().parameters()) {
    const torch::NoGradGuard no_grad;
    value.copy_(other.parameters().at(name));
  }
  for (int i = 0; i < 3; ++i) {
    Losses two;
    std::thread member([&] { two = b.step(true); });
    const Losses one = a.step(true);
    member.join();
    const Losses whole = alone.step(true);
    EXPECT_NEAR((one.next + two.next) / 2, whole.next, 1e-4);
    EXPECT_NEAR((one.after + two.after) / 2, whole.after, 1e-4);
    EXPECT_NEAR(one.gradient, whole.gradient, 1e-3 * whole.gradient);
    EXPECT_EQ(one.gradient, two.gradient);
  }
  for (const auto& [name, value] : a.model().parameters()) {
    EXPECT_TRUE(torch::equal(value, b.model().parameters().at(name))) << name;
  }
}

TEST_F(Training, DamagedCheckpointIsAnError) {
  const std::string path = (folder_ / "checkpoint.pt").string();
  ASSERT_TRUE(documents_.write(path).ok());
  EXPECT_FALSE(trainer().load(path).ok());
}

TEST_F(Training, ExportIsReadAndComputesTheSame) {
  Trainer t = trainer();
  for (int i = 0; i < 5; ++i) t.step(false);
  const auto tokenizer = vocabulary();
  const std::string path = (folder_ / "model.gguf").string();
  const Status written = write_model(t.model(), *tokenizer, Mix::kF32, path);
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto file = gguf::Reader::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*(*file)->get_int("qwen35moe.block_count"), config_.n_layer + 1);
  EXPECT_EQ((*file)->find_tensor("blk.0.ffn_down_exps.weight")->dims,
            (std::vector<int64_t>{config_.n_ff, config_.n_embd, config_.n_expert}));
  const auto back = read_model(**file, torch::kCPU, torch::kFloat);
  ASSERT_TRUE(back.ok());
  const torch::NoGradGuard no_grad;
  const Tensor tokens = torch::randint(64, {1, 70}, torch::kInt64);
  const Tensor a = t.model().logits(t.model().forward(tokens).hidden);
  const Tensor b = (*back)->logits((*back)->forward(tokens).hidden);
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-4);
}

TEST_F(Training, WeightsAreReadIntoAnOrderedVocabulary) {
  const Trainer t = trainer();
  const auto tokenizer = vocabulary();
  const std::string path = (folder_ / "model.gguf").string();
  ASSERT_TRUE(write_model(t.model(), *tokenizer, Mix::kF32, path).ok());
  const auto file = gguf::Reader::open(path);
  ASSERT_TRUE(file.ok());
  std::vector<std::string> tokens = *tokenizer->find_strings("tokenizer.ggml.tokens");
  std::reverse(tokens.begin(), tokens.end());
  tokens[5] = "new";
  ++recipe_.seed;  // other weights
  Trainer other = trainer();
  const Tensor before = other.model().parameters().at("token_embd.weight").detach().clone();
  ASSERT_TRUE(read_weights(**file, other.model(), &tokens).ok());
  const Tensor &a = t.model().parameters().at("token_embd.weight"),
               &b = other.model().parameters().at("token_embd.weight");
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(torch::equal(b[i], i == 5 ? before[5] : a[63 - i])) << i;
  }
  EXPECT_TRUE(torch::equal(t.model().parameters().at("blk.0.attn_qkv.weight"),
                           other.model().parameters().at("blk.0.attn_qkv.weight")));
}

TEST_F(Training, TokenFilesRoundTripAndWindowsCoverTheText) {
  const std::string path = (folder_ / "a.tok").string();
  ASSERT_TRUE(documents_.write(path).ok());
  const auto back = TokenFile::read(path);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->ids, documents_.ids);
  EXPECT_EQ(back->starts, documents_.starts);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_FALSE(TokenFile::read(path).ok());

  WindowOrder a(documents_, chats_, recipe_), b(documents_, chats_, recipe_);
  const Tensor fifth = a.windows(5);
  a.windows(9);
  EXPECT_TRUE(
      torch::equal(fifth, a.windows(5)));  // a function of the step, not of the calls before
  EXPECT_TRUE(torch::equal(fifth, b.windows(5)));
  EXPECT_FALSE(torch::equal(fifth, b.windows(6)));
}

TEST_F(Training, AnyLengthGivesTheSameStart) {
  // Chunks are padded: what comes after a position must not matter to it.
  const Trainer t = trainer();
  const torch::NoGradGuard no_grad;
  const Tensor tokens = torch::randint(64, {2, 150}, torch::kInt64);
  const Tensor whole = t.model().forward(tokens).hidden;
  for (const int64_t n : {1, 3, 64, 65, 149}) {
    const Tensor part = t.model().forward(tokens.narrow(1, 0, n)).hidden;
    EXPECT_LT((part - whole.narrow(1, 0, n)).abs().max().item<double>(), 1e-4) << n;
  }
}

}  // namespace
}  // namespace chimere::train
