#include "model_file.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "quant/quant.h"
#include "quantise.h"

namespace chimere::train {
namespace {

using torch::Tensor;

constexpr std::string_view kArchitecture = "qwen35moe";

std::string key(std::string_view name) {
  return std::string(kArchitecture) + "." + std::string(name);
}

/// GGUF keys of the hyper-parameters; one table for reading and writing.
struct IntegerKey {
  const char* name;
  int64_t ModelConfig::*field;
};
constexpr IntegerKey kIntegers[] = {
    {"context_length", &ModelConfig::context},
    {"embedding_length", &ModelConfig::n_embd},
    {"attention.head_count", &ModelConfig::n_head},
    {"attention.head_count_kv", &ModelConfig::n_head_kv},
    {"attention.key_length", &ModelConfig::head_dim},
    {"rope.dimension_count", &ModelConfig::n_rot},
    {"expert_count", &ModelConfig::n_expert},
    {"expert_used_count", &ModelConfig::n_expert_used},
    {"expert_feed_forward_length", &ModelConfig::n_ff},
    {"full_attention_interval", &ModelConfig::full_attention_interval},
    {"ssm.conv_kernel", &ModelConfig::conv},
    {"ssm.group_count", &ModelConfig::n_k_head},
    {"ssm.time_step_rank", &ModelConfig::n_v_head},
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_rate(std::string_view name) { return name.ends_with(".ssm_a"); }

/// Vectors, convolutions and routers stay f32 in every mix: they are small and the runtime reads
/// them so.
bool stays_f32(std::string_view name, const Tensor& value) {
  return value.dim() == 1 || contains(name, "ssm_conv1d") || contains(name, "ffn_gate_inp");
}

DType type_of(std::string_view name, const Tensor& value, Mix mix) {
  if (mix == Mix::kF32 || stays_f32(name, value)) return DType::kF32;
  return mix == Mix::kShipped && has_four_bits(name, value) ? DType::kQ4_0 : DType::kQ8_0;
}

/// Interleaved three-axis rotation: pair i turns with axis i mod 3, so the axes share n pairs as
/// n/3 rounded up for the first ones.
std::vector<int32_t> rope_sections(int64_t pairs) {
  const auto n = static_cast<int32_t>(pairs);
  return {(n + 2) / 3, (n + 1) / 3, n / 3, 0};
}

/// `own` with rows replaced by those of `value` for tokens with the same text.
Tensor rows_by_text(const Tensor& value, const std::vector<std::string>& theirs, const Tensor& own,
                    const std::vector<std::string>& tokens) {
  std::unordered_map<std::string_view, int64_t> row_of;
  for (size_t i = 0; i < theirs.size(); ++i) row_of[theirs[i]] = static_cast<int64_t>(i);
  Tensor out = own.clone();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto found = row_of.find(tokens[i]);
    if (found != row_of.end()) out[static_cast<int64_t>(i)].copy_(value[found->second]);
  }
  return out;
}

}  // namespace

Result<Mix> parse_mix(std::string_view name) {
  if (name == "f32") return Mix::kF32;
  if (name == "q8_0") return Mix::kQ8_0;
  if (name == "shipped") return Mix::kShipped;
  return invalid_argument("There is no mix named " + std::string(name) +
                          ". Use f32, q8_0 or shipped.");
}

Status copy_tokenizer(const gguf::Reader& from, gguf::Writer& to) {
  for (const char* name :
       {"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.chat_template"}) {
    CHIMERE_TRY(const std::string text, from.get_string(name));
    to.set_string(name, text);
  }
  for (const char* name : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    const auto* strings = from.find_strings(name);
    if (strings == nullptr) return invalid_data(std::string("The vocabulary lacks ") + name + ".");
    to.set_strings(name, *strings);
  }
  CHIMERE_TRY(const auto types, from.get_int_array("tokenizer.ggml.token_type"));
  to.set_i32s("tokenizer.ggml.token_type", std::vector<int32_t>(types.begin(), types.end()));
  for (const char* name : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.padding_token_id"}) {
    CHIMERE_TRY(const int64_t id, from.get_int(name));
    to.set_u32(name, static_cast<uint32_t>(id));
  }
  to.set_bool("tokenizer.ggml.add_bos_token", false);
  return {};
}

Status add_tensor(gguf::Writer& out, const std::string& name, const Tensor& parameter, Mix mix) {
  const torch::NoGradGuard no_grad;
  Tensor value = parameter.detach().to(torch::kCPU).to(torch::kFloat).contiguous();
  if (is_rate(name)) value = -value.exp();
  std::vector<int64_t> dims(value.sizes().rbegin(), value.sizes().rend());
  const DType type = type_of(name, value, mix);
  const auto* data = value.data_ptr<float>();
  if (type == DType::kF32) {
    return out.add_tensor(name, dims, type, data, static_cast<uint64_t>(value.numel()) * 4);
  }
  const DTypeInfo& info = dtype_info(type);
  if (dims[0] % info.block_elements != 0) {
    return invalid_argument("The rows of " + name + " have " + std::to_string(dims[0]) +
                            " elements, which blocks of " + std::string(info.name) +
                            " do not divide. Choose the mix q8_0 or f32.");
  }
  // Encoding rounded weights is exact: the file holds the weights that the last steps used.
  if (type == DType::kQ4_0) {
    value = rounded_to_four_bits(value);
    data = value.data_ptr<float>();
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(row_bytes(type, value.numel())));
  CHIMERE_CHECK_OK(quant::encode(type, data, bytes.data(), value.numel()));
  return out.add_tensor(name, dims, type, bytes.data(), bytes.size());
}

Status write_model(const Model& model, const gguf::Reader& tokenizer, Mix mix,
                   const std::string& path) {
  const ModelConfig& c = model.config();
  gguf::Writer out;
  out.set_string("general.architecture", kArchitecture);
  out.set_string("general.name", "chimere-mini");
  out.set_string("general.description",
                 "A small hybrid mixture-of-experts model trained on Debian's documentation.");
  out.set_string("general.license", "apache-2.0");
  out.set_u32("general.quantization_version", 2);
  out.set_u32("general.alignment", 32);
  out.set_u32(key("block_count"), static_cast<uint32_t>(c.n_layer + 1));
  out.set_u32(key("nextn_predict_layers"), 1);
  for (const auto& [name, field] : kIntegers) {
    out.set_u32(key(name), static_cast<uint32_t>(c.*field));
  }
  out.set_u32(key("expert_shared_feed_forward_length"), static_cast<uint32_t>(c.n_ff));
  out.set_u32(key("ssm.state_size"), static_cast<uint32_t>(c.state));
  out.set_u32(key("attention.value_length"), static_cast<uint32_t>(c.head_dim));
  out.set_u32(key("ssm.inner_size"), static_cast<uint32_t>(c.value_dim()));
  out.set_f32(key("attention.layer_norm_rms_epsilon"), static_cast<float>(c.eps));
  out.set_f32(key("rope.freq_base"), static_cast<float>(c.rope_base));
  out.set_i32s(key("rope.dimension_sections"), rope_sections(c.n_rot / 2));
  CHIMERE_CHECK_OK(copy_tokenizer(tokenizer, out));
  for (const auto& [name, value] : model.parameters()) {
    CHIMERE_CHECK_OK(add_tensor(out, name, value, mix));
  }
  return out.write(path);
}

Status read_parameters(const gguf::Reader& file, std::map<std::string, Tensor>& parameters,
                       const std::vector<std::string>* tokens) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, parameter] : parameters) {
    const gguf::TensorInfo* info = file.find_tensor(name);
    std::vector<int64_t> dims(parameter.sizes().rbegin(), parameter.sizes().rend());
    const bool by_text = tokens != nullptr && name == "token_embd.weight";
    if (by_text && info != nullptr && info->dims.size() == 2) dims[1] = info->dims[1];
    if (info == nullptr || info->dims != dims) {
      return invalid_data("The tensor " + name +
                          " is missing or does not have the shape that its metadata requires.");
    }
    Tensor value = torch::empty(std::vector<int64_t>(dims.rbegin(), dims.rend()));
    quant::decode(info->type, info->data, value.data_ptr<float>(), value.numel());
    if (is_rate(name)) value = value.neg().log();
    if (by_text) {
      const auto* theirs = file.find_strings("tokenizer.ggml.tokens");
      if (theirs == nullptr || static_cast<int64_t>(theirs->size()) != dims[1]) {
        return invalid_data("The file has no vocabulary of the size of its embedding.");
      }
      value = rows_by_text(value, *theirs, parameter.to(torch::kCPU), *tokens);
    }
    parameter.copy_(value);
  }
  return {};
}

Status read_weights(const gguf::Reader& file, Model& model,
                    const std::vector<std::string>* tokens) {
  return read_parameters(file, model.parameters(), tokens);
}

Result<std::unique_ptr<Model>> read_model(const gguf::Reader& file, torch::Device device,
                                          torch::Dtype compute) {
  CHIMERE_TRY(const std::string architecture, file.get_string("general.architecture"));
  if (architecture != kArchitecture) {
    return unsupported("The trainer reads qwen35moe files only, this is " + architecture + ".");
  }
  ModelConfig c;
  for (const auto& [name, field] : kIntegers) {
    CHIMERE_TRY(c.*field, file.get_int(key(name)));
  }
  CHIMERE_TRY(const int64_t blocks, file.get_int(key("block_count")));
  c.n_layer = blocks - 1;
  CHIMERE_TRY(c.eps, file.get_float(key("attention.layer_norm_rms_epsilon")));
  CHIMERE_TRY(c.rope_base, file.get_float(key("rope.freq_base")));
  const auto* tokens = file.find_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr) return invalid_data("The file has no vocabulary.");
  c.n_vocab = static_cast<int64_t>(tokens->size());
  auto model = std::make_unique<Model>(c, 0, device, compute);
  CHIMERE_CHECK_OK(read_weights(file, *model));
  return model;
}

}  // namespace chimere::train
