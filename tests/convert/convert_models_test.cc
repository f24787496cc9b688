// Converts models of every family and compares the files with those of llama.cpp's converter, and
// their log-probabilities with transformers' (README.md here).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/sha256.h"
#include "base/thread_pool.h"
#include "convert/convert.h"
#include "convert/fixture.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/chunking.h"
#include "model/model.h"

namespace chimere {
namespace {

using test::Json;

/// In log-probability; or three times what transformers' f32 differs from its f64.
constexpr double kTolerance = 3e-4;

Json read(const std::string& path) {
  std::ifstream in(path);
  return Json::parse(in);
}

std::vector<std::string> fixtures() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(CHIMERE_CONVERT_MODELS)) {
    out.push_back(entry.path().stem().string());
  }
  std::ranges::sort(out);
  return out;
}

std::string digest(std::string_view bytes, size_t digits) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish().substr(0, digits);
}

std::string digest(const gguf::TensorInfo& tensor, size_t digits) {
  return digest({static_cast<const char*>(tensor.data), tensor.bytes}, digits);
}

Json value_of(const gguf::Value& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, gguf::Array>) {
          return std::visit([](const auto& items) -> Json { return items; }, v.items);
        } else {
          return v;
        }
      },
      value);
}

class Converted : public testing::TestWithParam<std::string> {
 protected:
  Converted()
      : fixture_(read(std::string(CHIMERE_CONVERT_MODELS) + "/" + GetParam() + ".json")),
        folder_((std::filesystem::path(testing::TempDir()) / ("convert_" + GetParam())).string()) {
    test::write_model_folder(fixture_, folder_);
  }
  ~Converted() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::unique_ptr<gguf::Reader> convert(DType type) {
    convert::Options options;
    options.folder = folder_;
    options.output = folder_ + "/" + std::string(dtype_name(type)) + ".gguf";
    options.type = type;
    options.tokenizer = false;
    const auto report = convert::convert_model(options);
    if (!report.ok()) {
      ADD_FAILURE() << report.error().message;
      return nullptr;
    }
    auto file = gguf::Reader::open(options.output);
    if (!file.ok()) {
      ADD_FAILURE() << file.error().message;
      return nullptr;
    }
    return *std::move(file);
  }

  Json fixture_;
  std::string folder_;
};

TEST_P(Converted, HasTheTensorsOfLlamaCpp) {
  if (!fixture_.contains("tensors")) GTEST_SKIP() << "llama.cpp does not convert this model";
  const auto file = convert(DType::kF32);
  ASSERT_NE(file, nullptr);
  size_t found = 0;
  for (const gguf::TensorInfo& tensor : file->tensors()) {
    const auto theirs = fixture_["tensors"].find(tensor.name);
    if (theirs == fixture_["tensors"].end()) {
      ADD_FAILURE() << tensor.name << " is not in llama.cpp's file";
      continue;
    }
    ++found;
    EXPECT_EQ(Json(tensor.dims), (*theirs)[0]) << tensor.name;
    const auto bytes = (*theirs)[1].get<std::string>();
    if (bytes.empty()) continue;  // differs on purpose
    EXPECT_EQ(digest(tensor, 16), bytes) << tensor.name;
  }
  EXPECT_EQ(found, fixture_["tensors"].size());
}

TEST_P(Converted, HasTheBytesOfLlamaCppInOtherTypes) {
  if (!fixture_.contains("digests")) GTEST_SKIP() << "llama.cpp does not convert this model";
  for (const auto& [name, theirs] : fixture_["digests"].items()) {
    const auto file = convert(*convert::parse_output_type(name));
    ASSERT_NE(file, nullptr);
    std::map<std::string, std::string> lines;
    for (const gguf::TensorInfo& tensor : file->tensors()) {
      lines[tensor.name] = tensor.name + " " + std::to_string(static_cast<uint32_t>(tensor.type)) +
                           " " + digest(tensor, 24) + "\n";
    }
    std::string text;
    for (const auto& [tensor, line] : lines) text += line;
    EXPECT_EQ(digest(text, 64), theirs.get<std::string>()) << name;
  }
}

TEST_P(Converted, HasTheKeysOfLlamaCpp) {
  if (!fixture_.contains("keys")) GTEST_SKIP() << "llama.cpp does not convert this model";
  const auto file = convert(DType::kF32);
  ASSERT_NE(file, nullptr);
  const Json other = fixture_.value("other_keys", Json::object());  // README.md says why
  for (const auto& [key, theirs] : fixture_["keys"].items()) {
    const gguf::Value* const ours = file->find(key);
    const Json expected = other.contains(key) ? other[key] : theirs;
    if (expected.is_null()) continue;
    if (ours == nullptr) {
      ADD_FAILURE() << key << " = " << theirs << " is missing";
    } else {
      EXPECT_EQ(value_of(*ours), expected) << key;
    }
  }
}

/// Log-probabilities of all rows of `tokens`, of which the first `prompt` are prefilled.
std::vector<std::vector<double>> run(model::Model& model, const std::vector<int32_t>& tokens,
                                     size_t prompt) {
  std::vector<std::vector<double>> out;
  auto sequence = model.states().create_sequence();
  const auto step = [&](size_t begin, size_t count, model::RowClass row_class) {
    model::SequenceRows rows;
    rows.row_class = row_class;
    rows.state = sequence.get();
    rows.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                       tokens.begin() + static_cast<std::ptrdiff_t>(begin + count));
    if (row_class == model::RowClass::kPrefill) rows.chunks = {static_cast<int32_t>(count)};
    for (size_t i = 0; i < count; ++i) rows.logits_of.push_back(static_cast<int32_t>(i));
    const auto result = model.forward({{rows}});
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (size_t i = 0; i < count; ++i) {
      const float* row = result->logits.row(static_cast<int64_t>(i));
      std::vector<double> values(row, row + model.n_vocab());
      const double max = *std::ranges::max_element(values);
      double sum = 0;
      for (const double x : values) sum += std::exp(x - max);
      for (double& x : values) x -= max + std::log(sum);
      out.push_back(std::move(values));
    }
  };
  size_t at = 0;
  for (const int32_t size : model::chunk_sizes(std::span(tokens).first(prompt), {})) {
    step(at, static_cast<size_t>(size), model::RowClass::kPrefill);
    at += static_cast<size_t>(size);
  }
  for (; at < tokens.size(); ++at) step(at, 1, model::RowClass::kDecode);
  return out;
}

TEST_P(Converted, AnswersAsTransformers) {
  if (!fixture_.contains("values")) GTEST_SKIP() << "not a language model";
  const auto file = convert(DType::kF32);
  ASSERT_NE(file, nullptr);
  ThreadPool pool(2);
  const auto ops = kernels::make_cpu_ops(pool);
  auto model = model::load_model(*file, *ops, {.cache_k = DType::kF32, .cache_v = DType::kF32});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const double own = fixture_.value("f32_f64", 0.0);
  const double tolerance = std::max(kTolerance, 3 * own);
  const Json sequences = read(CHIMERE_CONVERT_SEQUENCES);
  struct Division {
    const char* name;
    double prefilled;
  };
  for (const Division& division :
       {Division{"prefill", 1}, Division{"half of each", 0.5}, Division{"decode", 0}}) {
    double largest = 0;
    size_t row = 0;
    for (const Json& tokens : sequences) {
      const auto ids = tokens.get<std::vector<int32_t>>();
      const auto ours = run(
          **model, ids, static_cast<size_t>(division.prefilled * static_cast<double>(ids.size())));
      ASSERT_EQ(ours.size(), ids.size());
      for (const auto& values : ours) {
        const Json& theirs = fixture_["values"][row];
        for (size_t k = 0; k < theirs.size(); ++k) {
          const double x = values[(7 * row + 19 * k) % values.size()];
          largest = std::max(largest, std::abs(x - theirs[k].get<double>()));
        }
        ++row;
      }
    }
    EXPECT_LE(largest, tolerance) << division.name;
    std::printf(
        "  %s: largest difference in log-probability %.1e (transformers' f32 and f64: %.1e)\n",
        division.name, largest, own);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Converted, testing::ValuesIn(fixtures()),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace chimere
