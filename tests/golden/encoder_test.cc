// Compares hidden states and scores of encoders and rerankers with those that transformers computed
// (encoders/, made by encoders_from_transformers.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/chunking.h"
#include "model/model.h"
#include "model/rank_head.h"

namespace chimere::model {
namespace {

using nlohmann::json;

/// Of hidden states near 1 and of logits. Both sides compute in f32; JSON has six decimals. It is
/// above three times the difference of transformers' f32 from its f64.
constexpr double kTolerance = 3e-5;

std::vector<std::string> golden_encoders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(CHIMERE_GOLDEN_ENCODERS)) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

/// All rows' hidden states.
std::vector<std::vector<double>> hidden_states(Model& model, const std::vector<int32_t>& tokens,
                                               int32_t second_segment) {
  auto state = model.states().create_sequence();
  StepPlan plan;
  plan.sequences.resize(1);
  SequenceRows& rows = plan.sequences[0];
  rows.state = state.get();
  rows.row_class = RowClass::kPrefill;
  rows.tokens = tokens;
  rows.chunks = chunk_sizes(tokens, {});
  rows.second_segment = second_segment;
  for (size_t r = 0; r < tokens.size(); ++r) rows.logits_of.push_back(static_cast<int32_t>(r));
  const auto result = model.forward(plan);
  EXPECT_TRUE(result.ok()) << result.error().message;
  std::vector<std::vector<double>> out;
  for (int64_t r = 0; result.ok() && r < result->logits.rows; ++r) {
    out.emplace_back(result->logits.row(r), result->logits.row(r) + result->logits.cols);
  }
  return out;
}

std::vector<double> mean_of(const std::vector<std::vector<double>>& rows) {
  std::vector<double> mean(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += row[i] / static_cast<double>(rows.size());
  }
  return mean;
}

double difference(const std::vector<double>& ours, const json& theirs) {
  EXPECT_EQ(ours.size(), theirs.size());
  double largest = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    largest = std::max(largest, std::abs(ours[i] - theirs[i].get<double>()));
  }
  return largest;
}

class GoldenEncoder : public testing::TestWithParam<std::string> {};

TEST_P(GoldenEncoder, AgreesWithTransformers) {
  const std::string path = std::string(CHIMERE_GOLDEN_ENCODERS) + "/" + GetParam();
  const auto file = gguf::Reader::open(path + ".gguf");
  ASSERT_TRUE(file.ok()) << file.error().message;
  ThreadPool pool(2);
  const auto ops = kernels::make_cpu_ops(pool);
  ModelOptions options;
  options.cache_k = options.cache_v = DType::kF32;
  const auto model = load_model(**file, *ops, options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const RankHead* const head = (*model)->rank_head();
  std::ifstream in(path + ".json");
  const json golden = json::parse(in);
  double largest = 0;
  for (const json& sequence : golden["sequences"]) {
    const auto rows =
        hidden_states(**model, sequence["tokens"], sequence.value("second_segment", 0));
    ASSERT_FALSE(rows.empty());
    if (head != nullptr) {
      const std::vector<double> input = head->input() == Pooling::kMean  ? mean_of(rows)
                                        : head->input() == Pooling::kCls ? rows.front()
                                                                         : rows.back();
      largest = std::max(largest, difference(head->logits(input), sequence["values"]));
      continue;
    }
    for (const json& row : sequence["rows"]) {
      largest = std::max(largest, difference(rows.at(row["pos"]), row["hidden"]));
    }
    largest = std::max(largest, difference(mean_of(rows), sequence["mean"]));
  }
  std::printf("%s: largest difference %.2e; of transformers' f32 from its f64 %.2e\n",
              GetParam().c_str(), largest, golden["f32_to_f64"].get<double>());
  EXPECT_LT(largest, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenEncoder, testing::ValuesIn(golden_encoders()),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace chimere::model
