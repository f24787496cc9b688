// The tensors of tests/golden/encoders/nomic_bert.gguf, whose hidden states are compared with
// transformers', written as a checkpoint under the names of nomic's own code and of transformers:
// converted, they are the same again.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/fixture.h"
#include "gguf/reader.h"
#include "quant/quant.h"

namespace chimere {
namespace {

using test::Json;

struct Part {
  std::vector<int64_t> shape;  // outermost dimension first
  std::string bytes;           // of f32
};
using Parts = std::map<std::string, Part>;

Part part_of(const gguf::Reader& file, const std::string& name) {
  const gguf::TensorInfo* tensor = file.find_tensor(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr) return {};
  std::vector<int64_t> shape(tensor->dims.rbegin(), tensor->dims.rend());
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  std::string bytes(static_cast<size_t>(count) * sizeof(float), '\0');
  quant::decode(tensor->type, tensor->data, reinterpret_cast<float*>(bytes.data()), count);
  return {std::move(shape), std::move(bytes)};
}

std::string block(int64_t i, const char* name) { return "blk." + std::to_string(i) + "." + name; }

/// Under the names of nomic's code: one matrix for queries, keys and values.
Parts own_names(const gguf::Reader& golden, int64_t layers) {
  Parts out;
  const auto take = [&](const std::string& name, const std::string& from) {
    out[name] = part_of(golden, from);
  };
  take("embeddings.word_embeddings.weight", "token_embd.weight");
  take("embeddings.token_type_embeddings.weight", "token_types.weight");
  for (const std::string end : {".weight", ".bias"}) take("emb_ln" + end, "token_embd_norm" + end);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string to = "encoder.layers." + std::to_string(i) + ".";
    Part fused = part_of(golden, block(i, "attn_q.weight"));
    for (const char* name : {"attn_k.weight", "attn_v.weight"}) {
      fused.bytes += part_of(golden, block(i, name)).bytes;
    }
    fused.shape[0] *= 3;
    out[to + "attn.Wqkv.weight"] = fused;
    take(to + "attn.out_proj.weight", block(i, "attn_output.weight"));
    take(to + "mlp.fc11.weight", block(i, "ffn_up.weight"));
    take(to + "mlp.fc12.weight", block(i, "ffn_gate.weight"));
    take(to + "mlp.fc2.weight", block(i, "ffn_down.weight"));
    for (const std::string end : {".weight", ".bias"}) {
      take(to + "norm1" + end, "blk." + std::to_string(i) + ".attn_output_norm" + end);
      take(to + "norm2" + end, "blk." + std::to_string(i) + ".layer_output_norm" + end);
    }
  }
  return out;
}

Parts names_of_transformers(const gguf::Reader& golden) {
  const std::map<std::string, std::string> names = {
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_down", "mlp.down_proj"},
      {"attn_output_norm", "post_attention_layernorm"},
      {"layer_output_norm", "post_mlp_layernorm"}};
  const std::map<std::string, std::string> ends = {
      {"token_embd", "embeddings.word_embeddings"},
      {"token_types", "embeddings.token_type_embeddings"},
      {"token_embd_norm", "embeddings.LayerNorm"}};
  Parts out;
  for (const gguf::TensorInfo& tensor : golden.tensors()) {
    const std::string name(tensor.name);
    const size_t dot = name.rfind('.');
    std::string to;
    if (name.starts_with("blk.")) {
      const size_t after = name.find('.', 4);
      to =
          "layers." + name.substr(4, after - 3) + names.at(name.substr(after + 1, dot - after - 1));
    } else {
      to = ends.at(name.substr(0, dot));
    }
    out[to + name.substr(dot)] = part_of(golden, name);
  }
  return out;
}

void write_folder(const Json& config, const Parts& parts, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << config;
  Json header = Json::object();
  std::string data;
  for (const auto& [name, part] : parts) {
    header[name] = {{"dtype", "F32"},
                    {"shape", part.shape},
                    {"data_offsets", {data.size(), data.size() + part.bytes.size()}}};
    data += part.bytes;
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::ofstream out(folder + "/model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << text << data;
}

class NomicBert : public testing::Test {
 protected:
  NomicBert() : folder_(testing::TempDir() + "/convert_nomic_bert") {
    golden_ = gguf::Reader::open(CHIMERE_GOLDEN_NOMIC).value();
  }
  ~NomicBert() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  int64_t key(const char* name) const {
    return golden_->get_int(std::string("nomic-bert.") + name).value();
  }
  Json own_config() const {
    return {{"architectures", {"NomicBertModel"}},
            {"activation_function", "swiglu"},
            {"n_embd", key("embedding_length")},
            {"n_head", key("attention.head_count")},
            {"n_layer", key("block_count")},
            {"n_inner", key("feed_forward_length")},
            {"n_positions", 8192},
            {"layer_norm_epsilon",
             golden_->get_float("nomic-bert.attention.layer_norm_epsilon").value()},
            {"rotary_emb_base", 1000},
            {"rotary_emb_fraction", 1.0},
            {"rotary_scaling_factor", nullptr},
            {"causal", false},
            {"prenorm", false}};
  }
  Result<convert::Report> convert(const Json& config, const Parts& parts) {
    write_folder(config, parts, folder_);
    convert::Options options;
    options.folder = folder_;
    options.output = folder_ + "/out.gguf";
    options.type = DType::kF32;
    options.tokenizer = false;
    return convert::convert_model(options);
  }
  void expect_keys(const gguf::Reader& file, int64_t context) const {
    for (const char* name :
         {"block_count", "embedding_length", "feed_forward_length", "attention.head_count"}) {
      EXPECT_EQ(file.get_int(std::string("nomic-bert.") + name).value(), key(name)) << name;
    }
    EXPECT_EQ(file.get_int("nomic-bert.context_length").value(), context);
    for (const char* name : {"attention.layer_norm_epsilon", "rope.freq_base"}) {
      EXPECT_FLOAT_EQ(
          static_cast<float>(file.get_float(std::string("nomic-bert.") + name).value()),
          static_cast<float>(golden_->get_float(std::string("nomic-bert.") + name).value()))
          << name;
    }
  }

  std::unique_ptr<gguf::Reader> golden_;
  std::string folder_;
};

TEST_F(NomicBert, OwnNames) {
  const int64_t layers = key("block_count");
  const auto report = convert(own_config(), own_names(*golden_, layers));
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto file = gguf::Reader::open(folder_ + "/out.gguf").value();
  expect_keys(*file, 2048);
  EXPECT_EQ(file->tensors().size(), golden_->tensors().size() - static_cast<size_t>(2 * layers));
  for (const gguf::TensorInfo& tensor : golden_->tensors()) {
    const std::string name(tensor.name);
    if (name.find("attn_q") != std::string::npos || name.find("attn_k") != std::string::npos ||
        name.find("attn_v") != std::string::npos) {
      continue;
    }
    EXPECT_EQ(part_of(*file, name).bytes, part_of(*golden_, name).bytes) << name;
  }
  const std::string fused = part_of(*file, "blk.0.attn_qkv.weight").bytes;
  std::string wanted;
  for (const char* name : {"attn_q.weight", "attn_k.weight", "attn_v.weight"}) {
    wanted += part_of(*golden_, block(0, name)).bytes;
  }
  EXPECT_EQ(fused, wanted);
}

TEST_F(NomicBert, NamesOfTransformers) {
  const Json config = {
      {"architectures", {"NomicBertModel"}},
      {"hidden_act", "silu"},
      {"hidden_size", key("embedding_length")},
      {"num_attention_heads", key("attention.head_count")},
      {"num_hidden_layers", key("block_count")},
      {"intermediate_size", key("feed_forward_length")},
      {"max_position_embeddings", key("context_length")},
      {"layer_norm_eps", golden_->get_float("nomic-bert.attention.layer_norm_epsilon").value()},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1000.0}}}};
  const auto report = convert(config, names_of_transformers(*golden_));
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto file = gguf::Reader::open(folder_ + "/out.gguf").value();
  expect_keys(*file, key("context_length"));
  ASSERT_EQ(file->tensors().size(), golden_->tensors().size());
  for (const gguf::TensorInfo& tensor : golden_->tensors()) {
    const std::string name(tensor.name);
    EXPECT_EQ(part_of(*file, name).bytes, part_of(*golden_, name).bytes) << name;
  }
}

TEST_F(NomicBert, RefusesWhatTheArchitectureCannotExpress) {
  const Parts parts = own_names(*golden_, key("block_count"));
  for (const auto& [member, value] : std::map<std::string, Json>{{"activation_function", "gelu"},
                                                                 {"prenorm", true},
                                                                 {"rotary_emb_interleaved", true},
                                                                 {"rotary_emb_fraction", 0.5},
                                                                 {"moe_every_n_layers", 2}}) {
    Json config = own_config();
    config[member] = value;
    const auto report = convert(config, parts);
    ASSERT_FALSE(report.ok()) << member;
    EXPECT_NE(report.error().message.find(member), std::string::npos) << report.error().message;
  }
}

}  // namespace
}  // namespace chimere
