#include "companion_model.h"

#include <cmath>

#include "attention.h"
#include "fused.h"
#include "quantise.h"

namespace chimere::train {
namespace {

using torch::Tensor;

constexpr const char* kArchitecture = "qwen3";

std::string key(const char* name) { return std::string(kArchitecture) + "." + name; }

struct IntegerKey {
  const char* name;
  int64_t CompanionConfig::*field;
};
constexpr IntegerKey kIntegers[] = {
    {"block_count", &CompanionConfig::n_layer},
    {"context_length", &CompanionConfig::context},
    {"embedding_length", &CompanionConfig::n_embd},
    {"feed_forward_length", &CompanionConfig::n_ff},
    {"attention.head_count", &CompanionConfig::n_head},
    {"attention.head_count_kv", &CompanionConfig::n_head_kv},
    {"attention.key_length", &CompanionConfig::head_dim},
};

}  // namespace

Companion::Companion(const CompanionConfig& config, uint64_t seed, torch::Device device)
    : config_(config), device_(device) {
  const CompanionConfig& c = config_;
  torch::Generator generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  const auto add = [&](const std::string& name, const Tensor& value) {
    parameters_[name] = value.to(device_).set_requires_grad(true);
  };
  const auto ones = [&](const std::string& name, int64_t n) { add(name, torch::ones({n})); };
  // Output matrices of residual branches start small.
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in, double scale = 1.0) {
    add(name, torch::randn({out, in}, generator) * scale / std::sqrt(double(in)));
  };
  const double small = 1.0 / std::sqrt(2.0 * double(c.n_layer));
  const int64_t width = c.n_head * c.head_dim, kv = c.n_head_kv * c.head_dim;
  matrix("token_embd.weight", c.n_vocab, c.n_embd, 0.5);
  ones("output_norm.weight", c.n_embd);
  for (int64_t i = 0; i < c.n_layer; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    ones(b + "attn_norm.weight", c.n_embd);
    matrix(b + "attn_q.weight", width, c.n_embd);
    matrix(b + "attn_k.weight", kv, c.n_embd);
    matrix(b + "attn_v.weight", kv, c.n_embd);
    matrix(b + "attn_output.weight", c.n_embd, width, small);
    ones(b + "attn_q_norm.weight", c.head_dim);
    ones(b + "attn_k_norm.weight", c.head_dim);
    ones(b + "ffn_norm.weight", c.n_embd);
    matrix(b + "ffn_gate.weight", c.n_ff, c.n_embd);
    matrix(b + "ffn_up.weight", c.n_ff, c.n_embd);
    matrix(b + "ffn_down.weight", c.n_embd, c.n_ff, small);
  }
}

Tensor Companion::weight(const std::string& name) const {
  const Tensor& value = parameters_.at(name);
  return quantised_ && has_four_bits(name, value) ? rounded_to_four_bits(value) : value;
}

Tensor Companion::weight(int64_t layer, const char* name) const {
  return weight("blk." + std::to_string(layer) + "." + name);
}

Tensor Companion::attention(const Tensor& x, int64_t i) const {
  const CompanionConfig& c = config_;
  const int64_t b = x.size(0), t = x.size(1), group = c.n_head / c.n_head_kv;
  const auto heads = [&](const char* name, int64_t n) {
    return torch::linear(x, weight(i, name)).view({b, t, n, c.head_dim});
  };
  const auto turned = [&](const Tensor& y, const char* norm) {
    return rotate(rms_norm(y, weight(i, norm), c.eps, torch::kFloat), c.head_dim, c.rope_base)
        .transpose(1, 2);
  };
  const Tensor q = turned(heads("attn_q.weight", c.n_head), "attn_q_norm.weight");
  const Tensor k = turned(heads("attn_k.weight", c.n_head_kv), "attn_k_norm.weight");
  const Tensor v = heads("attn_v.weight", c.n_head_kv).transpose(1, 2);
  const Tensor mixed =
      causal_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1));
  return torch::linear(mixed.transpose(1, 2).reshape({b, t, c.n_head * c.head_dim}),
                       weight(i, "attn_output.weight"));
}

Tensor Companion::feed_forward(const Tensor& x, int64_t i) const {
  const Tensor gate = torch::silu(torch::linear(x, weight(i, "ffn_gate.weight")));
  return torch::linear(gate * torch::linear(x, weight(i, "ffn_up.weight")),
                       weight(i, "ffn_down.weight"));
}

Tensor Companion::forward(const Tensor& tokens) const {
  const auto norm = [&](const Tensor& x, const Tensor& weight) {
    return rms_norm(x, weight, config_.eps, torch::kFloat);
  };
  Tensor x = torch::embedding(weight("token_embd.weight"), tokens);
  for (int64_t i = 0; i < config_.n_layer; ++i) {
    x = x + attention(norm(x, weight(i, "attn_norm.weight")), i);
    x = x + feed_forward(norm(x, weight(i, "ffn_norm.weight")), i);
  }
  return norm(x, weight("output_norm.weight"));
}

Tensor Companion::embed(const Batch& texts) const {
  const Tensor hidden = forward(texts.tokens);
  const Tensor position = torch::arange(hidden.size(1), hidden.device());
  const Tensor inside = (position.unsqueeze(0) < texts.lengths.unsqueeze(1)).to(torch::kFloat);
  const Tensor sum = (hidden * inside.unsqueeze(-1)).sum(1);
  return sum / sum.norm(2, -1, true);
}

Tensor Companion::next_token(const Batch& texts) const {
  const Tensor hidden = forward(texts.tokens);
  const Tensor row = torch::arange(hidden.size(0), hidden.device());
  const Tensor last = hidden.index({row, texts.lengths - 1});
  return torch::linear(last, weight("token_embd.weight")).log_softmax(-1);
}

Status write_companion(const Companion& model, CompanionKind kind, const gguf::Reader& tokenizer,
                       Mix mix, const std::string& path) {
  const CompanionConfig& c = model.config();
  const bool embeds = kind == CompanionKind::kEmbedder;
  gguf::Writer out;
  out.set_string("general.architecture", kArchitecture);
  out.set_string("general.name", embeds ? "chimere-embed" : "chimere-rerank");
  out.set_string("general.description",
                 embeds ? "Vectors of questions and passages of Debian's documentation."
                        : "Whether a passage of Debian's documentation answers a question.");
  out.set_string("general.license", "apache-2.0");
  out.set_u32("general.quantization_version", 2);
  out.set_u32("general.alignment", 32);
  for (const auto& [name, field] : kIntegers) {
    out.set_u32(key(name), static_cast<uint32_t>(c.*field));
  }
  out.set_u32(key("attention.value_length"), static_cast<uint32_t>(c.head_dim));
  out.set_f32(key("attention.layer_norm_rms_epsilon"), static_cast<float>(c.eps));
  out.set_f32(key("rope.freq_base"), static_cast<float>(c.rope_base));
  if (embeds) out.set_u32(key("pooling_type"), 1);
  CHIMERE_CHECK_OK(copy_tokenizer(tokenizer, out));
  for (const auto& [name, value] : model.parameters()) {
    CHIMERE_CHECK_OK(add_tensor(out, name, value, mix));
  }
  return out.write(path);
}

Result<std::unique_ptr<Companion>> read_companion(const gguf::Reader& file, torch::Device device) {
  CHIMERE_TRY(const std::string architecture, file.get_string("general.architecture"));
  if (architecture != kArchitecture) {
    return unsupported("Companions are qwen3 files, this is " + architecture + ".");
  }
  CompanionConfig c;
  for (const auto& [name, field] : kIntegers) {
    CHIMERE_TRY(c.*field, file.get_int(key(name)));
  }
  CHIMERE_TRY(c.eps, file.get_float(key("attention.layer_norm_rms_epsilon")));
  CHIMERE_TRY(c.rope_base, file.get_float(key("rope.freq_base")));
  const auto* tokens = file.find_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr) return invalid_data("The file has no vocabulary.");
  c.n_vocab = static_cast<int64_t>(tokens->size());
  auto model = std::make_unique<Companion>(c, 0, device);
  CHIMERE_CHECK_OK(read_parameters(file, model->parameters()));
  return model;
}

}  // namespace chimere::train
