// Adapters of PEFT: the converted adapter changes the converted model as the adapter changes the
// model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "gguf/reader.h"

namespace chimere::convert {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

/// An f32 matrix, or a vector with one dimension.
struct Values {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Values>;

class PeftAdapter : public testing::Test {
 protected:
  PeftAdapter() {
    std::filesystem::create_directories(root_ / "base");
    std::filesystem::create_directories(root_ / "adapter");
  }
  ~PeftAdapter() override { std::filesystem::remove_all(root_); }

  Values random(int64_t rows, int64_t columns) {
    Values out = {{rows, columns}, {}};
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < rows * columns; ++i) out.values.push_back(normal(rng_));
    return out;
  }

  static void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static void write_tensors(const std::filesystem::path& path, const Tensors& tensors) {
    Json header = Json::object();
    std::string data;
    for (const auto& [name, t] : tensors) {
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(t.values.data()), t.values.size() * sizeof(float));
      header[name] = {{"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    const uint64_t size = text.size();
    write_text(path, std::string(reinterpret_cast<const char*>(&size), 8) + text + data);
  }

  void write_base(const Json& config, const Tensors& tensors) const {
    write_text(root_ / "base/config.json", config.dump());
    write_tensors(root_ / "base/model.safetensors", tensors);
  }
  void write_adapter(const Json& config, const Tensors& tensors) const {
    write_text(root_ / "adapter/adapter_config.json", config.dump());
    write_tensors(root_ / "adapter/adapter_model.safetensors", tensors);
  }
  std::string path(const char* name) const { return (root_ / name).string(); }

  Options adapter_options() const {
    return {.folder = path("adapter"), .output = path("adapter.gguf"), .base = path("base")};
  }
  std::string refusal(const Json& config, const Tensors& tensors) const {
    write_adapter(config, tensors);
    const auto done = convert_adapter(adapter_options());
    return done.ok() ? "converted" : done.error().message;
  }

  static std::vector<float> read(const gguf::Reader& file, const std::string& name) {
    const gguf::TensorInfo* t = file.find_tensor(name);
    EXPECT_NE(t, nullptr) << name;
    if (t == nullptr) return {};
    const auto* values = static_cast<const float*>(t->data);
    return {values, values + t->bytes / sizeof(float)};
  }

  /// Converts the base, the base with the adapter's changes, and the adapter; compares.
  void expect_same_change(const Json& config, Tensors base, const Json& peft,
                          const Tensors& adapter, double factor) {
    const Options plain = {.folder = path("base"),
                           .output = path("base.gguf"),
                           .type = DType::kF32,
                           .tokenizer = false};
    write_base(config, base);
    const auto converted = convert_model(plain);
    ASSERT_TRUE(converted.ok()) << converted.error().message;
    const auto before = gguf::Reader::open(path("base.gguf")).value();
    write_adapter(peft, adapter);
    const auto done = convert_adapter(adapter_options());
    ASSERT_TRUE(done.ok()) << done.error().message;
    const auto change = gguf::Reader::open(path("adapter.gguf")).value();
    for (const auto& [name, a] : adapter) {
      const size_t at = name.find(".lora_A.weight");
      if (at == std::string::npos) continue;
      const std::string module = name.substr(0, at);
      const Values& b = adapter.at(module + ".lora_B.weight");
      Values& w = base.at(module.substr(std::string("base_model.model.").size()) + ".weight");
      for (int64_t o = 0; o < w.shape[0]; ++o) {
        for (int64_t i = 0; i < w.shape[1]; ++i) {
          for (int64_t r = 0; r < a.shape[0]; ++r) {
            w.values[static_cast<size_t>(o * w.shape[1] + i)] +=
                static_cast<float>(factor) * b.values[static_cast<size_t>(o * a.shape[0] + r)] *
                a.values[static_cast<size_t>(r * w.shape[1] + i)];
          }
        }
      }
    }
    write_base(config, base);
    Options merged = plain;
    merged.output = path("merged.gguf");
    ASSERT_TRUE(convert_model(merged).ok());
    const auto after = gguf::Reader::open(merged.output).value();
    const double alpha = change->get_float("adapter.lora.alpha").value();
    size_t compared = 0;
    for (const gguf::TensorInfo& t : change->tensors()) {
      if (!t.name.ends_with(".lora_a")) continue;
      ++compared;
      const std::string tensor = t.name.substr(0, t.name.size() - 7);
      const std::vector<float> a = read(*change, t.name);
      const std::vector<float> b = read(*change, tensor + ".lora_b");
      const std::vector<float> want = read(*after, tensor);
      std::vector<float> got = read(*before, tensor);
      const int64_t n_in = t.dims[0];
      const int64_t rank = t.dims[1];
      const int64_t n_out =
          static_cast<int64_t>(got.size()) / n_in / (t.dims.size() > 2 ? t.dims[2] : 1);
      for (size_t o = 0; o < got.size() / static_cast<size_t>(n_in); ++o) {
        const auto expert = static_cast<int64_t>(o) / n_out;
        for (int64_t i = 0; i < n_in; ++i) {
          double sum = 0;
          for (int64_t r = 0; r < rank; ++r) {
            sum += static_cast<double>(b[o * static_cast<size_t>(rank) + static_cast<size_t>(r)]) *
                   static_cast<double>(a[static_cast<size_t>((expert * rank + r) * n_in + i)]);
          }
          const size_t at = o * static_cast<size_t>(n_in) + static_cast<size_t>(i);
          got[at] += static_cast<float>(alpha / static_cast<double>(rank) * sum);
          ASSERT_NEAR(got[at], want[at], 1e-4) << tensor << ", row " << o << ", column " << i;
        }
      }
    }
    EXPECT_GT(compared, 0U);
  }

  std::mt19937 rng_{7};
  std::filesystem::path root_ = std::filesystem::temp_directory_path() /
                                ("chimere-peft-" + std::to_string(std::random_device{}()));
};

const Json kLlama = {{"architectures", {"LlamaForCausalLM"}},
                     {"hidden_size", 16},
                     {"intermediate_size", 24},
                     {"num_attention_heads", 2},
                     {"num_key_value_heads", 1},
                     {"num_hidden_layers", 1},
                     {"max_position_embeddings", 64},
                     {"rms_norm_eps", 1e-5},
                     {"vocab_size", 10}};
constexpr const char* kQuery = "model.layers.0.self_attn.q_proj";
constexpr const char* kDown = "model.layers.0.mlp.down_proj";

TEST_F(PeftAdapter, RowsOfQueriesAreReordered) {
  const Tensors base = {{"model.embed_tokens.weight", random(10, 16)},
                        {std::string(kQuery) + ".weight", random(16, 16)},
                        {std::string(kDown) + ".weight", random(16, 24)}};
  const std::string in = "base_model.model.";
  const Tensors adapter = {{in + kQuery + ".lora_A.weight", random(4, 16)},
                           {in + kQuery + ".lora_B.weight", random(16, 4)},
                           {in + kDown + ".lora_A.weight", random(4, 24)},
                           {in + kDown + ".lora_B.weight", random(16, 4)}};
  const Json peft = {{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"bias", "none"}};
  expect_same_change(kLlama, base, peft, adapter, 2);
  Json scaled = peft;
  scaled["use_rslora"] = true;
  expect_same_change(kLlama, base, scaled, adapter, 4);
}

TEST_F(PeftAdapter, ExpertsBecomeOneTensor) {
  Json config = kLlama;
  config["architectures"] = {"MixtralForCausalLM"};
  config["num_local_experts"] = 3;
  config["num_experts_per_tok"] = 2;
  Tensors base = {{"model.embed_tokens.weight", random(10, 16)}};
  Tensors adapter;
  for (int e = 0; e < 3; ++e) {
    const std::string module =
        "model.layers.0.block_sparse_moe.experts." + std::to_string(e) + ".w1";
    base[module + ".weight"] = random(24, 16);
    adapter["base_model.model." + module + ".lora_A.weight"] = random(2, 16);
    adapter["base_model.model." + module + ".lora_B.weight"] = random(24, 2);
  }
  const Json peft = {{"r", 2}, {"lora_alpha", 3}};
  expect_same_change(config, base, peft, adapter, 1.5);
  adapter.erase("base_model.model.model.layers.0.block_sparse_moe.experts.1.w1.lora_A.weight");
  adapter.erase("base_model.model.model.layers.0.block_sparse_moe.experts.1.w1.lora_B.weight");
  EXPECT_THAT(refusal(peft, adapter), HasSubstr("2 of 3 experts"));
}

TEST_F(PeftAdapter, OthersAreRefused) {
  write_base(kLlama, {{"model.embed_tokens.weight", random(10, 16)}});
  const Json peft = {{"r", 2}, {"lora_alpha", 4}};
  const std::string module = std::string("base_model.model.") + kQuery;
  const Tensors pair = {{module + ".lora_A.weight", random(2, 16)},
                        {module + ".lora_B.weight", random(16, 2)}};
  EXPECT_EQ(refusal(peft, pair), "converted");
  for (const auto& [key, value] : std::map<std::string, Json>{
           {"use_dora", true}, {"bias", "all"}, {"peft_type", "IA3"}, {"fan_in_fan_out", true}}) {
    Json wrong = peft;
    wrong[key] = value;
    EXPECT_NE(refusal(wrong, pair), "converted") << key;
  }
  EXPECT_THAT(refusal({{"r", 2}}, pair), HasSubstr("lora_alpha"));
  EXPECT_THAT(refusal(peft, {{module + ".lora_A.weight", random(2, 16)}}), HasSubstr(kQuery));
  EXPECT_THAT(refusal(peft, {{module + ".lora_A.weight", random(2, 16)},
                             {module + ".lora_B.weight", random(16, 3)}}),
              HasSubstr("ranks"));
  EXPECT_THAT(
      refusal(peft, {{"base_model.model.model.embed_tokens.lora_embedding_A", random(2, 10)}}),
      HasSubstr("lora_embedding_A"));
  EXPECT_THAT(
      refusal(peft, {{"base_model.model.model.layers.0.unknown.lora_A.weight", random(2, 16)},
                     {"base_model.model.model.layers.0.unknown.lora_B.weight", random(16, 2)}}),
      HasSubstr("unknown"));
  std::filesystem::remove(root_ / "base/config.json");
  EXPECT_THAT(refusal(peft, pair), HasSubstr("config.json"));
  EXPECT_TRUE(is_adapter_folder(path("adapter")));
  EXPECT_FALSE(is_adapter_folder(path("base")));
}

}  // namespace
}  // namespace chimere::convert
