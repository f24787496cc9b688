// Converts block drafters as z-lab publishes them: no embeddings, no tokenizer, names without
// "model.".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "convert/convert.h"
#include "convert/fixture.h"
#include "gguf/reader.h"

namespace chimere {
namespace {

using test::Json;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr int kWidth = 32;
constexpr int kLayers = 2;

Json usual_config() {
  return {{"architectures", {"DFlashDraftModel"}},
          {"model_type", "qwen3"},
          {"num_hidden_layers", kLayers},
          {"max_position_embeddings", 4096},
          {"hidden_size", kWidth},
          {"intermediate_size", 48},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1e6},
          {"rope_scaling", nullptr},
          {"vocab_size", 300},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"tie_word_embeddings", false},
          {"block_size", 8},
          {"num_target_layers", 6},
          {"use_sliding_window", false},
          {"sliding_window", nullptr},
          {"max_window_layers", 2},
          {"layer_types", {"full_attention", "full_attention"}},
          {"dflash_config", {{"mask_token_id", 299}, {"target_layer_ids", {1, 4}}}}};
}

/// Name in the checkpoint and in the file, and shape.
struct Place {
  std::string from;
  std::string to;
  std::vector<int64_t> shape;
};

std::vector<Place> places(const Json& config, int64_t taps) {
  const int64_t n_ff = config["intermediate_size"];
  std::vector<Place> out = {{"fc.weight", "fc.weight", {kWidth, taps * kWidth}},
                            {"hidden_norm.weight", "enc.output_norm.weight", {kWidth}},
                            {"norm.weight", "output_norm.weight", {kWidth}}};
  const int64_t layers = config["num_hidden_layers"];
  for (int64_t i = 0; i < layers; ++i) {
    const std::string from = "layers." + std::to_string(i) + ".";
    const std::string to = "blk." + std::to_string(i) + ".";
    const std::vector<Place> layer = {
        {"input_layernorm", "attn_norm", {kWidth}},
        {"self_attn.q_proj", "attn_q", {64, kWidth}},
        {"self_attn.k_proj", "attn_k", {32, kWidth}},
        {"self_attn.v_proj", "attn_v", {32, kWidth}},
        {"self_attn.o_proj", "attn_output", {kWidth, 64}},
        {"self_attn.q_norm", "attn_q_norm", {16}},
        {"self_attn.k_norm", "attn_k_norm", {16}},
        {"post_attention_layernorm", "ffn_norm", {kWidth}},
        {"mlp.gate_proj", "ffn_gate", {n_ff, kWidth}},
        {"mlp.up_proj", "ffn_up", {n_ff, kWidth}},
        {"mlp.down_proj", "ffn_down", {kWidth, n_ff}},
    };
    for (const Place& place : layer) {
      out.push_back({from + place.from + ".weight", to + place.to + ".weight", place.shape});
    }
  }
  return out;
}

class DFlash : public testing::Test {
 protected:
  DFlash()
      : folder_(testing::TempDir() + "/convert_dflash_" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {}
  ~DFlash() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// A checkpoint with as many tapped layers as `taps`.
  Result<convert::Report> convert(const Json& config, int64_t taps = 2,
                                  test::Stored stored = test::Stored::kF32,
                                  std::optional<DType> type = DType::kF32) {
    Json source = Json::array();
    for (const Place& place : places(config, taps)) {
      source.push_back({place.from, place.shape, 0, 512});
    }
    test::write_model_folder({{"config", config}, {"source", source}}, folder_, stored);
    convert::Options options;
    options.folder = folder_;
    options.output = folder_ + "/out.gguf";
    options.type = type;
    return convert::convert_model(options);
  }
  std::unique_ptr<gguf::Reader> converted(const Json& config, int64_t taps = 2) {
    const auto report = convert(config, taps);
    if (!report.ok()) {
      ADD_FAILURE() << report.error().message;
      return nullptr;
    }
    return gguf::Reader::open(folder_ + "/out.gguf").value();
  }
  std::string refusal(const Json& config, int64_t taps = 2) {
    const auto report = convert(config, taps);
    return report.ok() ? "converted" : report.error().message;
  }

  std::string folder_;
};

TEST_F(DFlash, HasTheTensorsOfTheCheckpoint) {
  const Json config = usual_config();
  const auto file = converted(config);
  ASSERT_NE(file, nullptr);
  const std::vector<Place> all = places(config, 2);
  EXPECT_EQ(file->tensors().size(), all.size());
  for (const Place& place : all) {
    const gguf::TensorInfo* tensor = file->find_tensor(place.to);
    ASSERT_NE(tensor, nullptr) << place.to;
    EXPECT_EQ(std::vector<int64_t>(tensor->dims.rbegin(), tensor->dims.rend()), place.shape)
        << place.to;
    EXPECT_EQ(tensor->type, DType::kF32) << place.to;
    const int64_t count = static_cast<int64_t>(tensor->bytes / sizeof(float));
    const std::vector<float> values = test::drawn(place.from, count, 0, 512);
    EXPECT_EQ(std::memcmp(tensor->data, values.data(), tensor->bytes), 0) << place.to;
  }
}

TEST_F(DFlash, HasTheKeysOfItsConfiguration) {
  const auto file = converted(usual_config());
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->get_string("general.architecture").value(), "dflash");
  const std::map<std::string, int64_t> integers = {
      {"dflash.block_count", kLayers},      {"dflash.context_length", 4096},
      {"dflash.embedding_length", kWidth},  {"dflash.feed_forward_length", 48},
      {"dflash.attention.head_count", 4},   {"dflash.attention.head_count_kv", 2},
      {"dflash.attention.key_length", 16},  {"dflash.attention.value_length", 16},
      {"dflash.vocab_size", 300},           {"dflash.block_size", 8},
      {"tokenizer.ggml.mask_token_id", 299}};
  for (const auto& [name, value] : integers) EXPECT_EQ(file->get_int(name).value(), value) << name;
  EXPECT_FLOAT_EQ(
      static_cast<float>(file->get_float("dflash.attention.layer_norm_rms_epsilon").value()),
      1e-6F);
  EXPECT_EQ(file->get_float("dflash.rope.freq_base").value(), 1e6);
  EXPECT_THAT(file->get_int_array("dflash.target_layers").value(), ElementsAre(2, 5));
  for (const char* absent : {"dflash.attention.sliding_window", "dflash.rope.scaling.type",
                             "dflash.attention.sliding_window_pattern", "tokenizer.ggml.model"}) {
    EXPECT_EQ(file->find(absent), nullptr) << absent;
  }
}

TEST_F(DFlash, KeepsTheTypeOfTheCheckpoint) {
  const auto report = convert(usual_config(), 2, test::Stored::kBF16, std::nullopt);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto file = gguf::Reader::open(folder_ + "/out.gguf").value();
  for (const gguf::TensorInfo& tensor : file->tensors()) {
    EXPECT_EQ(tensor.type, tensor.dims.size() > 1 ? DType::kBF16 : DType::kF32) << tensor.name;
  }
}

TEST_F(DFlash, UsesWhatNewerConfigurationsSay) {
  Json config = usual_config();
  for (const char* name : {"rope_theta", "rope_scaling", "head_dim", "block_size", "layer_types",
                           "use_sliding_window"}) {
    config.erase(name);
  }
  config["rope_parameters"] = {{"rope_type", "yarn"},
                               {"rope_theta", 5e5},
                               {"factor", 4.0},
                               {"original_max_position_embeddings", 1024}};
  config["num_attention_heads"] = 2;
  config["head_dim"] = nullptr;
  const auto file = converted(config);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->get_float("dflash.rope.freq_base").value(), 5e5);
  EXPECT_EQ(file->get_string("dflash.rope.scaling.type").value(), "yarn");
  EXPECT_EQ(file->get_int("dflash.block_size").value(), 16);
  EXPECT_EQ(file->get_int("dflash.attention.key_length").value(), 16);
}

TEST_F(DFlash, NeedsNoTokenizerAndIgnoresOne) {
  std::filesystem::create_directories(folder_);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "tokenizer.model"}) {
    std::ofstream(folder_ + "/" + name) << "not a tokenizer";
  }
  const auto file = converted(usual_config());
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->find("tokenizer.ggml.model"), nullptr);
}

TEST_F(DFlash, SpreadsTargetLayersEvenly) {
  struct Case {
    int drafter;
    int target;
    std::vector<int64_t> values;  // each a layer and 1, as z-lab's code gives it
  };
  for (const Case& c :
       {Case{1, 28, {15}}, Case{2, 5, {2, 3}}, Case{3, 7, {2, 3, 5}}, Case{3, 9, {2, 5, 7}},
        Case{4, 12, {2, 5, 7, 10}}, Case{5, 36, {2, 10, 18, 26, 34}},
        Case{8, 40, {2, 7, 12, 17, 23, 28, 33, 38}}}) {
    Json config = usual_config();
    config["num_hidden_layers"] = c.drafter;
    config["num_target_layers"] = c.target;
    config.erase("layer_types");
    config["dflash_config"].erase("target_layer_ids");
    const auto file = converted(config, c.drafter);
    ASSERT_NE(file, nullptr);
    EXPECT_THAT(file->get_int_array("dflash.target_layers").value(), ElementsAreArray(c.values));
  }
}

TEST_F(DFlash, NamesTheLayersWithAWindow) {
  Json config = usual_config();
  config["use_sliding_window"] = true;
  config["sliding_window"] = 256;
  EXPECT_EQ(converted(config)->find("dflash.attention.sliding_window"), nullptr)
      << "layer_types has none";
  const auto expect_second = [&] {
    const auto file = converted(config);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->get_int("dflash.attention.sliding_window").value(), 256);
    const auto* pattern =
        std::get_if<gguf::Array>(file->find("dflash.attention.sliding_window_pattern"));
    ASSERT_NE(pattern, nullptr);
    EXPECT_EQ(std::get<std::vector<bool>>(pattern->items), (std::vector<bool>{false, true}));
  };
  config["layer_types"] = {"full_attention", "sliding_attention"};
  expect_second();
  config.erase("layer_types");
  config["max_window_layers"] = 1;
  expect_second();
  config["layer_types"] = {"full_attention", "sliding_attention"};
  config["use_sliding_window"] = false;
  EXPECT_EQ(converted(config)->find("dflash.attention.sliding_window"), nullptr);
  config["use_sliding_window"] = true;
  config["layer_types"] = Json::array({"sliding_attention"});
  EXPECT_THAT(refusal(config), HasSubstr("layer_types has 1 entries for 2 layers"));
  config["layer_types"] = {"full_attention", "linear_attention"};
  EXPECT_THAT(refusal(config), HasSubstr("'linear_attention'"));
}

TEST_F(DFlash, NamesWhatIsMissing) {
  for (const char* name : {"max_position_embeddings", "hidden_size", "num_attention_heads",
                           "num_key_value_heads", "rms_norm_eps", "rope_theta", "vocab_size"}) {
    Json config = usual_config();
    config.erase(name);
    EXPECT_THAT(refusal(config), HasSubstr("config.json has no '" + std::string(name) + "'"));
  }
  Json config = usual_config();
  config["dflash_config"].erase("mask_token_id");
  EXPECT_THAT(refusal(config), HasSubstr("no 'dflash_config.mask_token_id'"));
  config = usual_config();
  config["dflash_config"].erase("target_layer_ids");
  config.erase("num_target_layers");
  EXPECT_THAT(refusal(config), AllOf(HasSubstr("'dflash_config.target_layer_ids'"),
                                     HasSubstr("'num_target_layers'")));
}

TEST_F(DFlash, RefusesWhatContradictsItselfOrCannotBeSaid) {
  const auto with = [](const char* name, const Json& value) {
    Json config = usual_config();
    config[name] = value;
    return config;
  };
  const auto with_layers = [](const Json& value) {
    Json config = usual_config();
    config["dflash_config"]["target_layer_ids"] = value;
    return config;
  };
  EXPECT_THAT(refusal(usual_config(), 3), HasSubstr("'fc.weight' must have the shape [32, 64]"));
  EXPECT_THAT(refusal(with_layers({4, 1})), HasSubstr("layer 1 of the target"));
  EXPECT_THAT(refusal(with_layers({1, 6})), HasSubstr("below 6 ('num_target_layers')"));
  EXPECT_THAT(refusal(with_layers({-1, 4})), HasSubstr("'dflash_config.target_layer_ids' must be"));
  EXPECT_THAT(refusal(with_layers(Json::array())), HasSubstr("must be a list of integers"));
  EXPECT_THAT(refusal(with_layers(7)), HasSubstr("must be a list of integers"));
  EXPECT_THAT(refusal(with("block_size", 1)), HasSubstr("'block_size' must be from 2 to 64"));
  EXPECT_THAT(refusal(with("dflash_config", Json::object({{"mask_token_id", 300}}))),
              HasSubstr("'dflash_config.mask_token_id' must be from 0 to 299"));
  EXPECT_THAT(refusal(with("attention_bias", true)), HasSubstr("attention_bias true"));
  EXPECT_THAT(refusal(with("hidden_act", "gelu")), HasSubstr("hidden_act 'gelu'"));
  EXPECT_THAT(refusal(with("rope_scaling", Json::object({{"rope_type", "llama3"}}))),
              HasSubstr("'llama3'"));
}

}  // namespace
}  // namespace chimere
