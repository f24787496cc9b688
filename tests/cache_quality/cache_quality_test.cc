// Accuracy of quantised KV caches: the mean Kullback-Leibler divergence of the shipped model's
// next-token distributions from those with f16 keys and values, over real text. The weights are
// decoded to f32, so that no activation is rounded: with rounded activations any change, even f32
// instead of f16, costs more than the cache does (docs/quality.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/chunking.h"
#include "model/model.h"
#include "model/vocabulary.h"
#include "support/decoded_model.h"
#include "text/tokenizer.h"

namespace chimere::model {
namespace {

constexpr size_t kWindow = 1024;
constexpr size_t kTokens = 2 * kWindow;

std::string text() {
  std::string all;
  for (const char* name : {"docs/architecture.md", "docs/model-card.md", "docs/formats.md"}) {
    std::ifstream in(std::string(CHIMERE_SOURCE_FOLDER "/") + name, std::ios::binary);
    all.append(std::istreambuf_iterator<char>(in), {});
  }
  return all;
}

/// Log-probabilities [window tokens, n_vocab] of one window, written to `out`.
void log_probabilities(Model& model, const std::vector<int32_t>& tokens, std::vector<float>& out) {
  out.clear();
  const auto sequence = model.states().create_sequence();
  size_t at = 0;
  for (const int32_t size : chunk_sizes(tokens, {})) {
    SequenceRows rows;
    rows.state = sequence.get();
    rows.row_class = RowClass::kPrefill;
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    rows.tokens.assign(begin, begin + size);
    rows.chunks = {size};
    rows.logits_of.resize(static_cast<size_t>(size));
    std::iota(rows.logits_of.begin(), rows.logits_of.end(), 0);
    const auto result = model.forward({{std::move(rows)}});
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (int64_t r = 0; r < result->logits.rows; ++r) {
      const float* logits = result->logits.row(r);
      const float most = *std::max_element(logits, logits + result->logits.cols);
      float sum = 0;
      for (int64_t i = 0; i < result->logits.cols; ++i) sum += std::exp(logits[i] - most);
      const float normaliser = most + std::log(sum);
      for (int64_t i = 0; i < result->logits.cols; ++i) out.push_back(logits[i] - normaliser);
    }
    at += static_cast<size_t>(size);
  }
}

double divergence(const std::vector<float>& from, const std::vector<float>& to) {
  double sum = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    sum += std::exp(from[i]) * (static_cast<double>(from[i]) - to[i]);
  }
  return sum;
}

struct Types {
  DType k;
  DType v;
  double limit;  ///< mean divergence, in nats
};

TEST(CacheQuality, RoundedKeysAndValuesStayNearHalfPrecision) {
  const auto file = gguf::Reader::open(CHIMERE_SOURCE_FOLDER "/models/chimere-mini.gguf");
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto vocabulary = vocabulary_from_gguf(**file);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  const auto tokenizer = text::Tokenizer::create(*std::move(vocabulary));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  std::vector<int32_t> tokens = (*tokenizer)->encode(text(), false);
  ASSERT_GE(tokens.size(), kTokens);
  tokens.resize(kTokens);

  const auto decoded = test::decode_model(**file);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  const std::vector<uint8_t> bytes = decoded->bytes();
  const auto exact_file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
  ASSERT_TRUE(exact_file.ok()) << exact_file.error().message;

  ThreadPool pool(available_cpus());
  const auto ops = kernels::make_cpu_ops(pool);
  const auto load = [&](DType k, DType v) {
    auto model = load_model(**exact_file, *ops, {.cache_k = k, .cache_v = v});
    EXPECT_TRUE(model.ok()) << model.error().message;
    return std::move(model).value();
  };
  constexpr Types kTypes[] = {
      {DType::kBF16, DType::kBF16, 1e-4},
      {DType::kQ8_0, DType::kF16, 5e-4},
      {DType::kQ8_0, DType::kQ4_0, 3e-3},
      {DType::kQ4_0, DType::kQ4_0, 2e-2},
  };
  const auto half = load(DType::kF16, DType::kF16);
  std::vector<std::unique_ptr<Model>> models;
  for (const Types& t : kTypes) models.push_back(load(t.k, t.v));
  std::vector<double> sums(models.size(), 0.0);
  std::vector<float> exact;
  std::vector<float> rounded;
  for (size_t begin = 0; begin < kTokens; begin += kWindow) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<int32_t> window(first, first + kWindow);
    log_probabilities(*half, window, exact);
    for (size_t i = 0; i < models.size(); ++i) {
      log_probabilities(*models[i], window, rounded);
      ASSERT_EQ(rounded.size(), exact.size());
      sums[i] += divergence(exact, rounded);
    }
  }
  for (size_t i = 0; i < models.size(); ++i) {
    const double mean = sums[i] / static_cast<double>(kTokens);
    std::printf("keys %-4s values %-4s: mean KL %.2e, limit %.0e\n", dtype_name(kTypes[i].k).data(),
                dtype_name(kTypes[i].v).data(), mean, kTypes[i].limit);
    EXPECT_LT(mean, kTypes[i].limit);
    EXPECT_GT(mean, 0) << "the type changed nothing";
  }
}

}  // namespace
}  // namespace chimere::model
