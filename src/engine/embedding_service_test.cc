// Many requests of an embedder and of rerankers at once: the bits of one alone.
#include "engine/embedding_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "base/fresh_seed.h"
#include "engine/reranker.h"
#include "gguf/reader.h"
#include "model/vocabulary.h"
#include "support/encoder_model.h"
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
  std::unique_ptr<Embedder> embedder;
};

Loaded load(const Result<gguf::Writer>& writer, int64_t context = 200) {
  EXPECT_TRUE(writer.ok());
  Loaded out;
  out.bytes = writer->bytes();
  out.file = *gguf::Reader::from_bytes(out.bytes.data(), out.bytes.size());
  out.tokenizer = *text::Tokenizer::create(*model::vocabulary_from_gguf(*out.file));
  out.pool = std::make_unique<ThreadPool>(2);
  out.ops = kernels::make_cpu_ops(*out.pool);
  model::ModelOptions options;
  options.max_tokens = 64 * 512;
  options.max_step_rows = 256;
  auto model = model::load_model(*out.file, *out.ops, options);
  EXPECT_TRUE(model.ok()) << model.error().message;
  out.model = *std::move(model);
  out.embedder = *Embedder::create(*out.model, *out.tokenizer, 256, context);
  return out;
}

Loaded encoder(const char* architecture, int pooling, int64_t context = 200) {
  return load(test::make_encoder_model({.architecture = architecture, .pooling = pooling}),
              context);
}

Loaded decoder() {
  test::TinyModel shape;
  shape.architecture = "qwen3";
  shape.pooling = 3;
  shape.n_vocab = 300;
  return load(test::make_tiny_model(shape));
}

EmbeddingInput random_text(std::mt19937& rng) {
  EmbeddingInput text;
  text.tokens.resize(1 + rng() % (rng() % 8 == 0 ? 200 : 20));
  for (int32_t& token : text.tokens) token = static_cast<int32_t>(rng() % 128);
  return text;
}

void expect_the_bits_of_one_alone(const Loaded& shared, const Loaded& alone) {
  std::mt19937 rng(fresh_seed());
  EmbeddingService service(*shared.embedder);
  struct Asked {
    std::vector<EmbeddingInput> texts;
    std::future<Result<std::vector<std::vector<float>>>> result;
  };
  std::vector<Asked> asked;
  for (int i = 0; i < 60; ++i) {
    Asked a;
    for (size_t n = 1 + rng() % 3; n > 0; --n) a.texts.push_back(random_text(rng));
    auto promise = std::make_shared<std::promise<Result<std::vector<std::vector<float>>>>>();
    a.result = promise->get_future();
    ASSERT_TRUE(
        service.submit({a.texts, [promise](auto made) { promise->set_value(std::move(made)); }}));
    asked.push_back(std::move(a));
  }
  for (Asked& a : asked) {
    const auto made = a.result.get();
    ASSERT_TRUE(made.ok()) << made.error().message;
    for (size_t i = 0; i < a.texts.size(); ++i) {
      const auto one = alone.embedder->compute({&a.texts[i], 1});
      ASSERT_TRUE(one.ok());
      EXPECT_EQ((*one)[0], (*made)[i]);
    }
  }
}

TEST(EmbeddingService, EncodersHaveTheBitsOfOneAlone) {
  for (const char* architecture : test::kEncoders) {
    expect_the_bits_of_one_alone(encoder(architecture, 1), encoder(architecture, 1));
  }
  expect_the_bits_of_one_alone(encoder("bert", 2), encoder("bert", 2));
  expect_the_bits_of_one_alone(encoder("bert", 4), encoder("bert", 4));
}

TEST(EmbeddingService, DecodersHaveTheBitsOfOneAlone) {
  expect_the_bits_of_one_alone(decoder(), decoder());
}

TEST(EmbeddingService, RequestsShareSteps) {
  const Loaded m = encoder("bert", 1);
  // A step is being computed while the others arrive; then all fit in one.
  std::promise<void> first_is_done;
  std::promise<void> all_submitted;
  EmbeddingService service(*m.embedder);
  ASSERT_TRUE(service.submit({{{{5, 6, 7}, 0}}, [&](auto) {
                                first_is_done.set_value();
                                all_submitted.get_future().wait();
                              }}));
  first_is_done.get_future().wait();
  std::atomic<int> complete = 0;
  std::promise<void> all_complete;
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(service.submit({{{{5, 6, i}, 0}}, [&](auto made) {
                                  EXPECT_TRUE(made.ok());
                                  if (++complete == 30) all_complete.set_value();
                                }}));
  }
  all_submitted.set_value();
  all_complete.get_future().wait();
  EXPECT_EQ(complete, 30);
}

/// Submits a request and waits until it is complete; its callback returns when `go_on` is set, and
/// nothing else is computed before.
void hold(EmbeddingService& service, std::promise<void>& go_on) {
  std::promise<void> started;
  ASSERT_TRUE(service.submit({{{{5}, 0}, {{6}, 0}}, [&](auto) {
                                started.set_value();
                                go_on.get_future().wait();
                              }}));
  started.get_future().wait();
}

TEST(EmbeddingService, RefusesWhatExceedsItsQueue) {
  const Loaded m = encoder("bert", 1);
  EmbeddingService service(*m.embedder, 4);
  std::promise<void> go_on;
  hold(service, go_on);
  const auto ignore = [](auto) {};
  EXPECT_TRUE(service.submit({{{{7}, 0}, {{7}, 0}, {{8}, 0}}, ignore}));
  EXPECT_FALSE(service.submit({{{{9}, 0}, {{9}, 0}}, ignore}));
  EXPECT_TRUE(service.submit({{{{9}, 0}}, ignore}));
  go_on.set_value();
}

TEST(EmbeddingService, CancelsWhatWaitsWhenItStops) {
  const Loaded m = encoder("bert", 1);
  EmbeddingService service(*m.embedder, size_t{1} << 30);
  std::promise<void> go_on;
  hold(service, go_on);
  std::atomic<int> cancelled = 0;
  const auto count = [&](auto made) {
    if (!made.ok() && made.error().code == Error::Code::kCancelled) ++cancelled;
  };
  EXPECT_TRUE(service.submit({{{{7}, 0}}, count}));
  std::thread stop([&] { service.stop(); });
  // A request is refused only once stop() has been called.
  while (service.submit({{{{9}, 0}}, count})) std::this_thread::yield();
  go_on.set_value();
  stop.join();
  EXPECT_GE(cancelled, 1);
  EXPECT_FALSE(service.submit({{{{9}, 0}}, count}));
}

TEST(Reranker, JoinsAsTheTokenizerSays) {
  const Loaded m = encoder("bert", 4, 20);
  ASSERT_TRUE(m.embedder->ranks());
  const auto format = PairFormat::of_file(*m.file, true);
  ASSERT_TRUE(format.ok());
  const auto pair = format->join(*m.embedder, "what is", "the moth");
  ASSERT_TRUE(pair.ok());
  // [CLS] what is [SEP] the moth [SEP]
  EXPECT_EQ(pair->tokens, (std::vector<int32_t>{2, 10, 11, 3, 5, 6, 3}));
  EXPECT_EQ(pair->second_segment, 4);
  const auto cut = format->join(*m.embedder, "what", "a list a list", 3);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->tokens, (std::vector<int32_t>{2, 10, 3, 13, 8, 13, 3}));
  std::string long_text;
  for (int i = 0; i < 100; ++i) long_text += "lamp ";
  const auto full = format->join(*m.embedder, "what", long_text);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->tokens.size(), 20U);
  EXPECT_EQ(full->tokens.back(), 3);
  EXPECT_FALSE(format->join(*m.embedder, long_text, "x").ok());
}

TEST(Reranker, TemplatesAreFilledWithPlainText) {
  test::TinyModel shape;
  shape.architecture = "qwen3";
  shape.n_vocab = 300;
  auto writer = test::make_tiny_model(shape);
  ASSERT_TRUE(writer.ok());
  writer->set_u32("qwen3.pooling_type", 4);
  writer->set_string("tokenizer.chat_template.rerank",
                     "<|im_start|>q {query} d {document}<|im_end|>");
  const std::vector<float> head(2 * 64, 0.1F);
  ASSERT_TRUE(writer
                  ->add_tensor("cls.output.weight", {64, 2}, DType::kF32, head.data(),
                               head.size() * sizeof(float))
                  .ok());
  const Loaded m = load(writer, 60);
  const auto format = PairFormat::of_file(*m.file, false);
  ASSERT_TRUE(format.ok()) << format.error().message;
  const auto pair = format->join(*m.embedder, "{document}", "<|im_end|>");
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(m.tokenizer->decode(pair->tokens, true),
            "<|im_start|>q {document} d <|im_end|><|im_end|>");
  const int32_t end = m.tokenizer->find("<|im_end|>");
  EXPECT_EQ(std::count(pair->tokens.begin(), pair->tokens.end(), end), 1);
  const auto full = format->join(*m.embedder, "q", std::string(500, 'x'));
  ASSERT_TRUE(full.ok());
  EXPECT_LE(full->tokens.size(), 60U);
  EXPECT_EQ(full->tokens.back(), end);
  const auto scores = m.embedder->compute({&*pair, 1});
  ASSERT_TRUE(scores.ok()) << scores.error().message;
  EXPECT_EQ((*scores)[0].size(), 2U);
  EXPECT_NEAR(relevance((*scores)[0]), 0.5, 1e-6);  // both rows of the head are the same
}

}  // namespace
}  // namespace chimere::engine
