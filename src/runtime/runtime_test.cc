#include "runtime/runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/fresh_seed.h"
#include "runtime/text_model.h"
#include "support/tiny_model.h"

namespace chimere::runtime {
namespace {

/// A tiny model in a file that the destructor removes.
class TinyFile {
 public:
  explicit TinyFile(const char* architecture, uint64_t seed = 1)
      : path_(::testing::TempDir() + "runtime-" + std::to_string(std::random_device{}()) +
              ".gguf") {
    test::TinyModel shape;
    shape.architecture = architecture;
    shape.seed = seed;
    shape.n_vocab = 300;
    shape.mixers = DType::kQ8_0;
    auto writer = test::make_tiny_model(shape);
    EXPECT_TRUE(writer.ok());
    EXPECT_TRUE(writer->write(path_).ok());
  }
  ~TinyFile() { std::filesystem::remove(path_); }
  TinyFile(const TinyFile&) = delete;
  TinyFile& operator=(const TinyFile&) = delete;

  Result<std::unique_ptr<TextModel>> load(const Runtime& runtime,
                                          const std::string& state_memory = "64MiB") const {
    Settings settings;
    EXPECT_TRUE(settings.set(settings::kBackend, "cpu", "test").ok());
    EXPECT_TRUE(settings.set(settings::kCacheDisk, "0", "test").ok());
    EXPECT_TRUE(settings.set(settings::kStateMemory, state_memory, "test").ok());
    CHIMERE_TRY(auto file, gguf::Reader::open(path_));
    return TextModel::load(std::move(file), settings, runtime, {});
  }

 private:
  std::string path_;
};

std::vector<int32_t> random_tokens(std::mt19937& random, size_t n) {
  std::vector<int32_t> out(n);
  for (int32_t& token : out) token = static_cast<int32_t>(random() % 256);
  return out;
}

Settings sampling(uint32_t seed, int tokens) {
  Settings out;
  EXPECT_TRUE(out.set(settings::kSeed, std::to_string(seed), "test").ok());
  EXPECT_TRUE(out.set(settings::kMaxTokens, std::to_string(tokens), "test").ok());
  EXPECT_TRUE(out.set(settings::kTemperature, "1", "test").ok());
  return out;
}

/// Generates from the prompt; the logits' bits show in the log-probabilities.
struct Tokens {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  bool operator==(const Tokens&) const = default;
};

Tokens generate(TextModel& model, Sequence& sequence, uint32_t seed, int tokens) {
  Tokens run;
  const auto outcome =
      model.generate(sequence, sampling(seed, tokens), {.stop = {}, .logprobs = true},
                     [&](const TextModel::Piece& piece) {
                       if (piece.token >= 0) {
                         run.tokens.push_back(piece.token);
                         run.logprobs.push_back(piece.logprob);
                       }
                       return true;
                     });
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  return run;
}

TEST(Runtime, TwoModelsOnOneThreadPoolComputeTheBitsOfEachAlone) {
  std::mt19937 random(fresh_seed());
  const TinyFile files[] = {TinyFile("qwen35moe"), TinyFile("qwen3", 2)};
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < 6; ++i) prompts.push_back(random_tokens(random, 1 + random() % 150));
  const auto seed = static_cast<uint32_t>(random() >> 1);

  std::vector<Tokens> alone[2];
  std::vector<float> scores[2];
  for (size_t m = 0; m < 2; ++m) {
    const auto model = files[m].load(Runtime(Runtime::Options{.threads = 1})).value();
    for (const auto& prompt : prompts) {
      Sequence sequence{prompt, {}, {}};
      alone[m].push_back(generate(*model, sequence, seed, 20));
    }
    scores[m] = model->log_probabilities(prompts[0]).value();
  }

  std::vector<Tokens> together[2];
  std::vector<float> scores_together[2];
  {
    std::unique_ptr<TextModel> models[2];
    {
      const Runtime runtime(Runtime::Options{.threads = 3});  // models outlive it
      for (size_t m = 0; m < 2; ++m) models[m] = files[m].load(runtime).value();
      EXPECT_EQ(models[0]->loaded().pool, models[1]->loaded().pool);
    }
    std::vector<std::thread> threads;
    for (size_t m = 0; m < 2; ++m) {
      threads.emplace_back([&, m] {
        for (const auto& prompt : prompts) {
          Sequence sequence{prompt, {}, {}};
          together[m].push_back(generate(*models[m], sequence, seed, 20));
        }
        scores_together[m] = models[m]->log_probabilities(prompts[0]).value();
      });
    }
    for (std::thread& t : threads) t.join();
  }
  for (size_t m = 0; m < 2; ++m) {
    EXPECT_EQ(together[m], alone[m]);
    EXPECT_EQ(scores_together[m], scores[m]);
  }
  EXPECT_NE(alone[0], alone[1]);
}

TEST(Runtime, ModelsShareTheMemoryBudget) {
  const TinyFile file("qwen3");
  const Runtime runtime(Runtime::Options{.threads = 1, .state_bytes = int64_t{100} << 20});
  auto first = file.load(runtime, "64MiB");
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(runtime.host_memory().taken(), int64_t{64} << 20);
  ASSERT_TRUE(file.load(runtime, "32MiB").ok());
  EXPECT_EQ(runtime.host_memory().taken(), int64_t{64} << 20);  // the second one is gone
  const auto too_much = runtime.host_memory().take(int64_t{37} << 20);
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.error().code, Error::Code::kOutOfMemory);
  EXPECT_TRUE(runtime.host_memory().take(int64_t{36} << 20).ok());
  first->reset();
  EXPECT_EQ(runtime.host_memory().taken(), 0);
}

TEST(TextModel, AGenerationInPartsHasTheBitsOfOneAtOnce) {
  std::mt19937 random(fresh_seed());
  for (const char* architecture : {"qwen35moe", "qwen3"}) {
    const TinyFile file(architecture);
    const Runtime runtime(Runtime::Options{.threads = 2});
    const auto model = file.load(runtime).value();
    const std::vector<int32_t> prompt = random_tokens(random, 1 + random() % 150);
    const auto seed = static_cast<uint32_t>(random() >> 1);
    Sequence whole{prompt, {}, {}};
    const Tokens at_once = generate(*model, whole, seed, 30);

    Sequence parts{prompt, {}, {}};
    Tokens joined;
    // Another model of the same file continues what the first one saved.
    const auto other = file.load(runtime).value();
    const state::Hash128 weights = model->weights_hash().value();
    EXPECT_EQ(weights, other->weights_hash().value());
    for (size_t part = 0; joined.tokens.size() < at_once.tokens.size(); ++part) {
      const auto left = static_cast<int>(at_once.tokens.size() - joined.tokens.size());
      const int n = std::min(left, static_cast<int>(1 + random() % 7));
      const Tokens run = generate(part % 2 == 0 ? *model : *other, parts, seed, n);
      joined.tokens.insert(joined.tokens.end(), run.tokens.begin(), run.tokens.end());
      joined.logprobs.insert(joined.logprobs.end(), run.logprobs.begin(), run.logprobs.end());
      std::vector<uint8_t> bytes;
      VectorSink sink(bytes);
      ASSERT_TRUE(write_sequence(sink, parts, weights).ok());
      SpanSource source(bytes);
      parts = read_sequence(source, weights).value();
    }
    EXPECT_EQ(joined, at_once) << architecture;
    EXPECT_EQ(parts.generated, whole.generated);
  }
}

TEST(TextModel, ACancelledGenerationContinues) {
  const TinyFile file("qwen35moe");
  const auto model = file.load(Runtime(Runtime::Options{.threads = 1})).value();
  Sequence whole{{1, 2, 3}, {}, {}};
  const Tokens at_once = generate(*model, whole, 5, 40);
  Sequence stopped{{1, 2, 3}, {}, {}};
  const auto outcome = model->generate(stopped, sampling(5, 40), {},
                                       [](const TextModel::Piece& /*piece*/) { return false; });
  ASSERT_TRUE(outcome.ok());
  if (outcome->reason == engine::FinishReason::kCancelled) {  // a fast engine may have ended it
    ASSERT_FALSE(stopped.generated.empty());
    const auto left = static_cast<int>(40 - stopped.generated.size());
    generate(*model, stopped, 5, left);
  }
  EXPECT_EQ(stopped.generated, whole.generated);
}

TEST(TextModel, RefusesWhatItCannotContinue) {
  const TinyFile file("qwen3");
  const auto model = file.load(Runtime(Runtime::Options{.threads = 1})).value();
  Sequence sequence{{1, 2, 3}, {}, {}};
  generate(*model, sequence, 5, 4);
  Sequence wrong = sequence;
  wrong.generated.pop_back();  // the state has seen one token more
  const auto other_tokens = model->generate(wrong, sampling(5, 4), {}, {});
  ASSERT_FALSE(other_tokens.ok());
  EXPECT_EQ(other_tokens.error().code, Error::Code::kInvalidData);
  Sequence damaged = sequence;
  damaged.state[damaged.state.size() / 2] ^= 1;
  EXPECT_FALSE(model->generate(damaged, sampling(5, 4), {}, {}).ok());
  Sequence unknown{{1, 300}, {}, {}};
  EXPECT_FALSE(model->generate(unknown, sampling(5, 4), {}, {}).ok());
  Settings mirostat = sampling(5, 4);
  ASSERT_TRUE(mirostat.set(settings::kMirostat, "2", "test").ok());
  const auto kept = model->generate(sequence, mirostat, {}, {});
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().code, Error::Code::kUnsupported);
  EXPECT_EQ(sequence.generated.size(), 4U);
  generate(*model, sequence, 5, 4);  // still usable
  EXPECT_EQ(sequence.generated.size(), 8U);
  EXPECT_FALSE(model->log_probabilities({}).ok());
  EXPECT_FALSE(model->log_probabilities(unknown.prompt).ok());
}

TEST(TextModel, DamagedSequencesAreRefused) {
  std::mt19937 random(fresh_seed());
  const state::Hash128 weights = {1, 2};
  const Sequence sequence{{1, 2, 3}, {4, 5}, std::vector<uint8_t>(100, 7)};
  std::vector<uint8_t> bytes;
  VectorSink sink(bytes);
  ASSERT_TRUE(write_sequence(sink, sequence, weights).ok());
  const auto read = [](std::span<const uint8_t> from, const state::Hash128& w) {
    SpanSource source(from);
    return read_sequence(source, w);
  };
  EXPECT_EQ(read(bytes, weights).value().state, sequence.state);
  EXPECT_EQ(read(bytes, {1, 3}).error().code, Error::Code::kUnsupported);
  for (int i = 0; i < 500; ++i) {
    std::vector<uint8_t> damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<uint8_t>(1 + random() % 255);
    EXPECT_FALSE(read(damaged, weights).ok());
    damaged = bytes;
    damaged.resize(random() % bytes.size());
    EXPECT_FALSE(read(damaged, weights).ok());
  }
}

}  // namespace
}  // namespace chimere::runtime
