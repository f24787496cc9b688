// Nemotron-H, dense and mixture-of-experts (Nemotron 3). Each layer is one sub-layer.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace nemotron_h {
namespace {

constexpr int64_t kUnboundedContext = 1 << 20;

enum class Layer : uint8_t { kMamba, kAttention, kNetwork };

Result<std::vector<Layer>> read_layers(const Config& config) {
  std::vector<Layer> out;
  CHIMERE_TRY(const std::string pattern, config.text_or({"hybrid_override_pattern"}, ""));
  CHIMERE_TRY(const auto types, config.texts({"layers_block_type"}));
  for (const char c : pattern) {
    if (c != 'M' && c != '*' && c != '-' && c != 'E') {
      return unsupported("config.json: hybrid_override_pattern has the unknown layer '" +
                         std::string(1, c) + "'");
    }
    out.push_back(c == 'M' ? Layer::kMamba : c == '*' ? Layer::kAttention : Layer::kNetwork);
  }
  for (size_t i = 0; pattern.empty() && types && i < types->size(); ++i) {
    const std::string& type = (*types)[i];
    const bool mamba = type == "mamba" || type == "linear_attention";
    const bool attention = type == "attention" || type == "full_attention";
    if (!mamba && !attention && type != "moe" && type != "mlp") {
      return unsupported("config.json: layers_block_type has the unknown layer '" + type + "'");
    }
    out.push_back(mamba ? Layer::kMamba : attention ? Layer::kAttention : Layer::kNetwork);
  }
  if (out.empty()) return invalid_data("config.json has no 'layers_block_type'");
  return out;
}

/// transformers writes the members of experts for dense models too: the layers decide.
Result<bool> has_experts(const Config& config) {
  CHIMERE_TRY(const std::string pattern, config.text_or({"hybrid_override_pattern"}, ""));
  if (!pattern.empty()) return pattern.find('E') != std::string::npos;
  CHIMERE_TRY(const auto types, config.texts({"layers_block_type"}));
  for (size_t i = 0; types && i < types->size(); ++i) {
    if ((*types)[i] == "moe") return true;
  }
  return false;
}

Result<std::string> architecture(const Config& config) {
  CHIMERE_TRY(const bool experts, has_experts(config));
  return std::string(experts ? "nemotron_h_moe" : "nemotron_h");
}

Result<Rules> rules(const Config& /*config*/) {
  Rules out = {
      {"embeddings", "token_embd"},
      {"embed_tokens", "token_embd"},
      {"lm_head", "output"},
      {"norm_f", "output_norm"},
      {"layers.*.norm", "blk.*.attn_norm"},
      {"layers.*.mixer.q_proj", "blk.*.attn_q", paired_queries},
      {"layers.*.mixer.k_proj", "blk.*.attn_k", paired_keys},
      {"layers.*.mixer.v_proj", "blk.*.attn_v"},
      {"layers.*.mixer.o_proj", "blk.*.attn_output"},
      {"layers.*.mixer.up_proj", "blk.*.ffn_up"},
      {"layers.*.mixer.down_proj", "blk.*.ffn_down"},
      {"layers.*.mixer.gate", "blk.*.ffn_gate_inp"},
      {"layers.*.mixer.gate.e_score_correction_bias", "blk.*.exp_probs_b.bias"},
      {"layers.*.mixer.experts.#.up_proj", "blk.*.ffn_up_exps"},
      {"layers.*.mixer.experts.#.down_proj", "blk.*.ffn_down_exps"},
      {"layers.*.mixer.experts.up_proj", "blk.*.ffn_up_exps.weight"},
      {"layers.*.mixer.experts.down_proj", "blk.*.ffn_down_exps.weight"},
      {"layers.*.mixer.shared_experts.up_proj", "blk.*.ffn_up_shexp"},
      {"layers.*.mixer.shared_experts.down_proj", "blk.*.ffn_down_shexp"},
      {"layers.*.mixer.fc1_latent_proj", "blk.*.ffn_latent_down"},
      {"layers.*.mixer.fc2_latent_proj", "blk.*.ffn_latent_up"},
  };
  add_mamba2(out, "mixer");
  return out;
}

Status write_expert_keys(const Config& config, KeyWriter& out) {
  struct Row {
    std::string_view from;
    std::string_view to;
  };
  constexpr Row kIntegers[] = {
      {"num_experts_per_tok", "expert_used_count"},
      {"moe_intermediate_size", "expert_feed_forward_length"},
      {"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
      {"n_routed_experts", "expert_count"},
      {"n_shared_experts", "expert_shared_count"},
      {"n_group", "expert_group_count"},
      {"topk_group", "expert_group_used_count"}};
  for (const auto& [from, to] : kIntegers) {
    CHIMERE_TRY(const int64_t value, config.integer({from}));
    out.integer(to, value);
  }
  CHIMERE_TRY(const bool normalised, config.flag_or({"norm_topk_prob"}, true));
  CHIMERE_TRY(const double scale, config.number_or({"routed_scaling_factor"}, 1));
  out.flag("expert_weights_norm", normalised);
  out.number("expert_weights_scale", scale);
  if (config.has({"moe_latent_size"})) {
    CHIMERE_TRY(const int64_t latent, config.integer({"moe_latent_size"}, 1));
    out.integer("moe_latent_size", latent);
  }
  return {};
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_TRY(const auto layers, read_layers(config));
  CHIMERE_TRY(const bool experts, has_experts(config));
  CHIMERE_TRY(const int64_t width, config.integer({"hidden_size"}, 1));
  CHIMERE_TRY(const int64_t vocabulary, config.integer({"vocab_size"}, 1));
  CHIMERE_TRY(const int64_t heads, config.integer({"num_attention_heads"}, 1));
  CHIMERE_TRY(const int64_t kv_heads, config.integer({"num_key_value_heads"}, 1));
  CHIMERE_TRY(const int64_t head, config.integer({"head_dim", "attention_head_dim"}, 1));
  CHIMERE_TRY(const double eps, config.number({"layer_norm_epsilon", "norm_eps", "rms_norm_eps"}));
  CHIMERE_TRY(const int64_t taps, config.integer({"conv_kernel", "mamba_d_conv"}, 1));
  CHIMERE_TRY(const int64_t state, config.integer({"ssm_state_size"}, 1));
  CHIMERE_TRY(const int64_t groups, config.integer({"n_groups", "mamba_n_groups"}, 1));
  CHIMERE_TRY(const int64_t ssm_heads, config.integer({"mamba_num_heads"}, 1, 65536));
  CHIMERE_TRY(const int64_t ssm_head, config.integer({"mamba_head_dim"}, 1, 65536));
  CHIMERE_TRY(const int64_t wide,
              config.integer({experts ? "moe_intermediate_size" : "intermediate_size"}, 1));
  out.integer("block_count", static_cast<int64_t>(layers.size()));
  out.integer("context_length", kUnboundedContext);
  out.integer("embedding_length", width);
  out.integer("vocab_size", vocabulary);
  out.integer("attention.head_count", heads);
  out.integer("attention.key_length", head);
  out.integer("attention.value_length", head);
  out.number("attention.layer_norm_epsilon", eps);
  out.flag("rope.scaling.finetuned", false);
  out.integer("ssm.conv_kernel", taps);
  out.integer("ssm.state_size", state);
  out.integer("ssm.group_count", groups);
  out.integer("ssm.inner_size", ssm_heads * ssm_head);
  out.integer("ssm.time_step_rank", ssm_heads);
  std::vector<int32_t> kv;
  std::vector<int32_t> ff;
  for (const Layer layer : layers) {
    kv.push_back(layer == Layer::kAttention ? static_cast<int32_t>(kv_heads) : 0);
    ff.push_back(layer == Layer::kNetwork ? static_cast<int32_t>(wide) : 0);
  }
  out.integers("attention.head_count_kv", kv);
  out.integers("feed_forward_length", ff);
  if (experts) return write_expert_keys(config, out);
  return {};
}

Result<std::string> rename(const Config& /*config*/, const std::string& name) {
  // The MTP head, which no file of these architectures has.
  return name.starts_with("mtp.") ? std::string() : name;
}

}  // namespace
}  // namespace nemotron_h

const Family& nemotron_h_family() {
  static const Family family = {
      .classes = {"NemotronHForCausalLM"},
      .architecture = nemotron_h::architecture,
      .rules = nemotron_h::rules,
      .keys = nemotron_h::keys,
      .extra = nullptr,
      .rename = nemotron_h::rename,
      .drop_equal_output = false,
      .add_bos = true,
  };
  return family;
}

}  // namespace chimere::convert
