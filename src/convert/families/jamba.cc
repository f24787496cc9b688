// Jamba: Mamba and attention layers, dense networks and experts by layer.
#include <nlohmann/json.hpp>

#include "convert/families/registry.h"

namespace chimere::convert {
namespace jamba {
namespace {

Result<std::string> architecture(const Config& /*config*/) { return std::string("jamba"); }

Result<Rules> rules(const Config& /*config*/) {
  Rules out;
  add_ends(out);
  add_attention(out);
  add_dense(out, "feed_forward");
  out.insert(out.end(), {{"final_layernorm", "output_norm"},
                         {"layers.*.pre_ff_layernorm", "blk.*.ffn_norm"},
                         {"layers.*.pre_moe_layernorm", "blk.*.ffn_norm"},
                         {"layers.*.feed_forward.router", "blk.*.ffn_gate_inp"},
                         {"layers.*.feed_forward.experts.#.gate_proj", "blk.*.ffn_gate_exps"},
                         {"layers.*.feed_forward.experts.#.up_proj", "blk.*.ffn_up_exps"},
                         {"layers.*.feed_forward.experts.#.down_proj", "blk.*.ffn_down_exps"},
                         {"layers.*.mamba.A_log", "blk.*.ssm_a", negative_exp},
                         {"layers.*.mamba.D", "blk.*.ssm_d"},
                         {"layers.*.mamba.conv1d", "blk.*.ssm_conv1d", convolution},
                         {"layers.*.mamba.in_proj", "blk.*.ssm_in"},
                         {"layers.*.mamba.x_proj", "blk.*.ssm_x"},
                         {"layers.*.mamba.dt_proj", "blk.*.ssm_dt"},
                         {"layers.*.mamba.out_proj", "blk.*.ssm_out"},
                         {"layers.*.mamba.dt_layernorm", "blk.*.ssm_dt_norm"},
                         {"layers.*.mamba.b_layernorm", "blk.*.ssm_b_norm"},
                         {"layers.*.mamba.c_layernorm", "blk.*.ssm_c_norm"}});
  return out;
}

/// The only expert of a layer without experts (Mini-Jamba) is its dense network.
Result<std::string> rename(const Config& config, const std::string& name) {
  std::string out = name;
  constexpr std::string_view kMoe = ".moe.";
  if (const size_t at = out.find(kMoe); at != std::string::npos) {
    out.replace(at, kMoe.size(), ".feed_forward.");
  }
  constexpr std::string_view kOnly = ".feed_forward.experts.0.";
  const size_t at = out.find(kOnly);
  if (at == std::string::npos || !out.starts_with("layers.")) return out;
  CHIMERE_TRY(const int64_t offset, config.integer({"expert_layer_offset"}));
  CHIMERE_TRY(const int64_t period, config.integer({"expert_layer_period"}, 1));
  const std::string digits = out.substr(7, at - 7);
  constexpr size_t kMaxDigits = 4;
  if (digits.empty() || digits.size() > kMaxDigits ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    return out;
  }
  const int64_t layer = std::stoll(digits);
  if (layer < offset || (layer - offset) % period != 0) {
    out.replace(at, kOnly.size(), ".feed_forward.");
  }
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const int64_t layers, config.layers());
  CHIMERE_TRY(const int64_t width, config.integer({"hidden_size"}, 1, 1 << 24));
  CHIMERE_TRY(const int64_t expand, config.integer({"mamba_expand"}, 1, 64));
  CHIMERE_TRY(const int64_t taps, config.integer_or({"mamba_d_conv"}, 4, 1));
  CHIMERE_TRY(const int64_t state, config.integer_or({"mamba_d_state"}, 16, 1));
  constexpr int64_t kRankDivisor = 16;
  const int64_t usual_rank = (width + kRankDivisor - 1) / kRankDivisor;
  const Json* const own_rank = config.find({"mamba_dt_rank"});
  int64_t rank = usual_rank;
  if (own_rank != nullptr && *own_rank != "auto") {
    CHIMERE_TRY(rank, config.integer({"mamba_dt_rank"}, 1));
  }
  CHIMERE_TRY(const int64_t kv_heads, config.integer({"num_key_value_heads"}, 1));
  CHIMERE_TRY(const int64_t offset, config.integer({"attn_layer_offset"}));
  CHIMERE_TRY(const int64_t period, config.integer({"attn_layer_period"}, 1));
  std::vector<int32_t> per_layer;
  for (int64_t i = 0; i < layers; ++i) {
    const bool attention = i >= offset && (i - offset) % period == 0;
    per_layer.push_back(attention ? static_cast<int32_t>(kv_heads) : 0);
  }
  out.integers("attention.head_count_kv", per_layer);
  out.integer("ssm.conv_kernel", taps);
  out.integer("ssm.inner_size", expand * width);
  out.integer("ssm.state_size", state);
  out.integer("ssm.time_step_rank", rank);
  return {};
}

}  // namespace
}  // namespace jamba

const Family& jamba_family() {
  static const Family family = {
      .classes = {"JambaForCausalLM"},
      .architecture = jamba::architecture,
      .rules = jamba::rules,
      .keys = jamba::keys,
      .extra = nullptr,
      .rename = jamba::rename,
  };
  return family;
}

}  // namespace chimere::convert
