// LFM2, dense and mixture-of-experts: short convolutions and attention.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace lfm2 {
namespace {

constexpr int64_t kSigmoid = 2;  // of expert_gating_func

bool has_experts(const Config& config) { return config.model_class() == "Lfm2MoeForCausalLM"; }

Result<std::string> architecture(const Config& config) {
  if (has_experts(config)) {
    CHIMERE_TRY(const bool normalised, config.flag_or({"norm_topk_prob"}, true));
    CHIMERE_TRY(const double scale, config.number_or({"routed_scaling_factor"}, 1));
    if (!normalised || scale != 1) {
      return unsupported(
          "config.json has norm_topk_prob false or a routed_scaling_factor other "
          "than 1, which files of lfm2moe cannot say");
    }
  }
  return std::string(has_experts(config) ? "lfm2moe" : "lfm2");
}

Result<Rules> rules(const Config& /*config*/) {
  return Rules{{"embed_tokens", "token_embd"},
               {"lm_head", "output"},
               {"embedding_norm", "token_embd_norm"},
               {"layers.*.operator_norm", "blk.*.attn_norm"},
               {"layers.*.ffn_norm", "blk.*.ffn_norm"},
               {"layers.*.conv.conv", "blk.*.shortconv.conv", convolution},
               {"layers.*.conv.in_proj", "blk.*.shortconv.in_proj"},
               {"layers.*.conv.out_proj", "blk.*.shortconv.out_proj"},
               {"layers.*.self_attn.q_proj", "blk.*.attn_q"},
               {"layers.*.self_attn.k_proj", "blk.*.attn_k"},
               {"layers.*.self_attn.v_proj", "blk.*.attn_v"},
               {"layers.*.self_attn.out_proj", "blk.*.attn_output"},
               {"layers.*.self_attn.q_layernorm", "blk.*.attn_q_norm"},
               {"layers.*.self_attn.k_layernorm", "blk.*.attn_k_norm"},
               {"layers.*.feed_forward.w1", "blk.*.ffn_gate"},
               {"layers.*.feed_forward.w2", "blk.*.ffn_down"},
               {"layers.*.feed_forward.w3", "blk.*.ffn_up"},
               {"layers.*.feed_forward.gate", "blk.*.ffn_gate_inp"},
               {"layers.*.feed_forward.expert_bias", "blk.*.exp_probs_b.bias"},
               {"layers.*.feed_forward.experts.#.w1", "blk.*.ffn_gate_exps"},
               {"layers.*.feed_forward.experts.#.w2", "blk.*.ffn_down_exps"},
               {"layers.*.feed_forward.experts.#.w3", "blk.*.ffn_up_exps"}};
}

/// The width of the dense networks, which the file may say only in parts.
Result<int64_t> dense_width(const Config& config) {
  constexpr int64_t kMaxWidth = 1 << 24;
  CHIMERE_TRY(int64_t width, config.integer({"block_ff_dim", "intermediate_size"}, 1, kMaxWidth));
  CHIMERE_TRY(const bool adjusted, config.flag_or({"block_auto_adjust_ff_dim"}, false));
  if (!adjusted) return width;
  CHIMERE_TRY(const double multiplier, config.number_or({"block_ffn_dim_multiplier"}, 1));
  CHIMERE_TRY(const int64_t unit, config.integer({"block_multiple_of"}, 1, kMaxWidth));
  if (multiplier <= 0 || multiplier > 64) {
    return invalid_data("config.json: 'block_ffn_dim_multiplier' must be from 0 to 64");
  }
  const int64_t two_thirds = 2 * width / 3;
  width = static_cast<int64_t>(multiplier * static_cast<double>(two_thirds));
  return (width + unit - 1) / unit * unit;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const int64_t layers, config.layers());
  CHIMERE_TRY(const int64_t vocabulary, config.integer({"vocab_size"}, 1));
  CHIMERE_TRY(const int64_t taps, config.integer({"conv_L_cache"}, 1));
  CHIMERE_TRY(const int64_t kv_heads, config.integer({"num_key_value_heads"}, 1));
  CHIMERE_TRY(const auto types, config.texts({"layer_types"}));
  if (!types || types->size() != static_cast<size_t>(layers)) {
    return invalid_data("config.json: 'layer_types' must name " + std::to_string(layers) +
                        " layers");
  }
  std::vector<int32_t> per_layer;
  for (const std::string& type : *types) {
    if (type != "conv" && type != "full_attention") {
      return unsupported("config.json: 'layer_types' has the unknown layer '" + type + "'");
    }
    per_layer.push_back(type == "conv" ? 0 : static_cast<int32_t>(kv_heads));
  }
  out.integers("attention.head_count_kv", per_layer);
  out.integer("vocab_size", vocabulary);
  out.integer("shortconv.l_cache", taps);
  if (!has_experts(config)) {
    CHIMERE_TRY(const int64_t width, dense_width(config));
    out.integer("feed_forward_length", width);
    return {};
  }
  CHIMERE_TRY(const int64_t wide, config.integer({"moe_intermediate_size"}, 1));
  CHIMERE_TRY(const int64_t dense, config.integer({"num_dense_layers"}));
  out.integer("expert_feed_forward_length", wide);
  out.integer("leading_dense_block_count", dense);
  out.integer("expert_gating_func", kSigmoid);
  return {};
}

}  // namespace
}  // namespace lfm2

const Family& lfm2_family() {
  static const Family family = {
      .classes = {"Lfm2ForCausalLM", "LFM2ForCausalLM", "Lfm2MoeForCausalLM"},
      .architecture = lfm2::architecture,
      .rules = lfm2::rules,
      .keys = lfm2::keys,
  };
  return family;
}

}  // namespace chimere::convert
