// Compares logits with those of an independent implementation, recorded for each model (see
// README.md here).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/chunking.h"
#include "model/model.h"
#include "support/family_model.h"

namespace chimere::model {
namespace {

using nlohmann::json;

/// In log-probability. Both sides compute in f32; they differ in the order of sums and in exp.
constexpr double kTolerance = 2e-3;

/// How a prompt is divided into rows.
enum class Rows { kPrefill, kDecode, kPrefillThenDecode };

std::vector<std::string> golden_models() {
  std::vector<std::string> found;
  std::stringstream folders(CHIMERE_GOLDEN_FOLDERS);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      auto path = entry.path();
      if (path.extension() == ".json" && path.parent_path().filename() == "families") {
        found.push_back(path.string());
      }
      if (path.extension() == ".gguf" && std::filesystem::exists(path.replace_extension(".json"))) {
        found.push_back(entry.path().string());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<double> log_softmax(const std::vector<double>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double l : logits) sum += std::exp(l - max);
  std::vector<double> out;
  for (const double l : logits) out.push_back(l - max - std::log(sum));
  return out;
}

using LogitsAt = std::map<int32_t, std::vector<double>>;

/// Runs `tokens` in the given rows, one forward() for each piece, and returns the logits at
/// `positions`.
LogitsAt run(Model& model, const std::vector<int32_t>& tokens,
             const std::vector<int32_t>& positions, Rows rows) {
  std::vector<SequenceRows> pieces;
  const size_t chunked = rows == Rows::kPrefill  ? tokens.size()
                         : rows == Rows::kDecode ? 0
                                                 : tokens.size() / 2;
  const std::span<const int32_t> prompt = std::span(tokens).first(chunked);
  size_t at = 0;
  for (const int32_t size : chunk_sizes(prompt, {})) {
    SequenceRows piece;
    piece.row_class = RowClass::kPrefill;
    piece.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                        tokens.begin() + static_cast<std::ptrdiff_t>(at) + size);
    piece.chunks = {size};
    pieces.push_back(std::move(piece));
    at += static_cast<size_t>(size);
  }
  for (; at < tokens.size(); ++at) {
    SequenceRows piece;
    piece.tokens = {tokens[at]};
    pieces.push_back(std::move(piece));
  }

  LogitsAt logits;
  auto sequence = model.states().create_sequence();
  for (SequenceRows& piece : pieces) {
    const int32_t first = sequence->position();
    const auto end = first + static_cast<int32_t>(piece.tokens.size());
    std::vector<int32_t> wanted;
    for (const int32_t p : positions) {
      if (p >= first && p < end) {
        wanted.push_back(p);
        piece.logits_of.push_back(p - first);
      }
    }
    piece.state = sequence.get();
    auto result = model.forward({{piece}});
    if (!result.ok()) {
      ADD_FAILURE() << result.error().message;
      return {};
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float* row = result->logits.row(static_cast<int64_t>(i));
      logits[wanted[i]] = std::vector<double>(row, row + model.n_vocab());
    }
  }
  return logits;
}

double largest_difference(Model& model, const json& golden, Rows rows) {
  double largest = 0;
  for (const json& sequence : golden["sequences"]) {
    std::map<int32_t, std::vector<double>> theirs;
    std::vector<int32_t> positions;
    for (const json& p : sequence["positions"]) {
      positions.push_back(p["pos"]);
      theirs[positions.back()] = log_softmax(p["logits"]);
    }
    const LogitsAt ours = run(model, sequence["tokens"], positions, rows);
    EXPECT_EQ(ours.size(), theirs.size());
    for (const auto& [pos, logits] : ours) {
      const std::vector<double> log_probabilities = log_softmax(logits);
      for (size_t i = 0; i < log_probabilities.size(); ++i) {
        largest = std::max(largest, std::abs(log_probabilities[i] - theirs[pos].at(i)));
      }
    }
  }
  return largest;
}

/// A model file: that of a pair, or for a JSON alone the random model of its architecture.
struct GoldenFile {
  std::vector<uint8_t> bytes;
  Result<std::unique_ptr<gguf::Reader>> reader;
};

GoldenFile open_golden(const std::string& path) {
  if (path.ends_with(".gguf")) return {{}, gguf::Reader::open(path)};
  const std::string architecture = std::filesystem::path(path).stem().string();
  constexpr uint64_t kSeed = 12;  // of README.md
  auto writer = test::make_family_model(test::family_for_peers(architecture, kSeed));
  if (!writer.ok()) return {{}, writer.error()};
  std::vector<uint8_t> bytes = writer->bytes();
  auto reader = gguf::Reader::from_bytes(bytes.data(), bytes.size());
  return {std::move(bytes), std::move(reader)};
}

/// "rope" of a pair: what a user sets about rotary positions.
RopeOptions rope_of(const json& golden) {
  RopeOptions options;
  if (!golden.contains("rope")) return options;
  const json& rope = golden["rope"];
  if (rope.value("type", "") == "dynamic") options.type = RopeScalingType::kDynamic;
  if (rope.contains("factor")) options.factor = rope["factor"].get<float>();
  options.context = rope.value("context", 0);
  return options;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  void expect_agreement(kernels::Ops& ops) {
    const GoldenFile golden_file = open_golden(GetParam());
    const auto& file = golden_file.reader;
    ASSERT_TRUE(file.ok()) << file.error().message;
    // Other folders may have pairs for architectures that are still to come.
    const Status supported = check_architecture(**file);
    if (!supported.ok() && !GetParam().starts_with(CHIMERE_GOLDEN_OWN)) {
      GTEST_SKIP() << supported.error().message;
    }
    std::ifstream in(std::filesystem::path(GetParam()).replace_extension(".json"));
    const json golden = json::parse(in);
    auto model = load_model(
        **file, ops, {.cache_k = DType::kF32, .cache_v = DType::kF32, .rope = rope_of(golden)});
    ASSERT_TRUE(model.ok()) << model.error().message;
    const std::pair<Rows, const char*> divisions[] = {
        {Rows::kPrefill, "prefill"},
        {Rows::kDecode, "decode"},
        {Rows::kPrefillThenDecode, "prefill then decode"}};
    for (const auto& [rows, name] : divisions) {
      const double difference = largest_difference(**model, golden, rows);
      EXPECT_LE(difference, kTolerance) << name;
      RecordProperty(name, std::to_string(difference));
      std::printf("  %s: largest difference in log-probability %.2e\n", name, difference);
    }
  }
};

TEST_P(Golden, ReferenceOpsAgree) {
  auto ops = kernels::make_ref_ops();
  expect_agreement(*ops);
}

TEST_P(Golden, CpuOpsAgree) {
  ThreadPool pool(2);
  auto ops = kernels::make_cpu_ops(pool);
  expect_agreement(*ops);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(golden_models()),
                         [](const auto& golden) {
                           std::string name = std::to_string(golden.index) + "_" +
                                              std::filesystem::path(golden.param).stem().string();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace chimere::model
