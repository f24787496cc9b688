// Granite 4 and Bamba: Mamba 2 and attention layers.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "convert/families/granite.h"
#include "convert/families/registry.h"

namespace chimere::convert {
namespace granitehybrid {
namespace {

constexpr int64_t kUnboundedContext = 1 << 20;  // of models without rotary positions

bool is_bamba(const Config& config) { return config.model_class() == "BambaForCausalLM"; }

/// Whether each layer has attention.
Result<std::vector<bool>> attention_layers(const Config& config) {
  CHIMERE_TRY(const int64_t layers, config.layers());
  std::vector<bool> out(static_cast<size_t>(layers), false);
  CHIMERE_TRY(const auto types, config.texts({"layer_types", "layers_block_type"}));
  if (types) {
    if (types->size() != out.size()) {
      return invalid_data("config.json: 'layer_types' must name " + std::to_string(layers) +
                          " layers");
    }
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = (*types)[i] == "attention" || (*types)[i] == "full_attention";
    return out;
  }
  const Json* const indices = config.find({"attn_layer_indices"});
  if (indices == nullptr) return invalid_data("config.json has no 'layer_types'");
  for (const Json& index : *indices) {
    if (!index.is_number_integer() || index < 0 || index >= layers) {
      return invalid_data("config.json: 'attn_layer_indices' must be numbers of layers");
    }
    out[index.get<size_t>()] = true;
  }
  return out;
}

Result<bool> has_mamba(const Config& config) {
  CHIMERE_TRY(const auto attention, attention_layers(config));
  return std::ranges::find(attention, false) != attention.end();
}

/// The part of a head that is rotated; all of it, unless it is Bamba.
Result<int64_t> rotated_dims(const Config& config) {
  CHIMERE_TRY(const int64_t head, config.head_dim());
  if (config.has({"attn_rotary_emb"})) return config.integer({"attn_rotary_emb"}, 1, head);
  if (!is_bamba(config)) return head;
  constexpr double kHalf = 0.5;  // of the published model
  CHIMERE_TRY(const double part, config.rope_number_or("partial_rotary_factor", kHalf));
  return static_cast<int64_t>(static_cast<double>(head) * part);
}

Result<NamedTensors> queries(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const int64_t heads, site.config.integer({"num_attention_heads"}, 1));
  CHIMERE_TRY(const int64_t rotated, rotated_dims(site.config));
  return paired_rows(site, std::move(tensor), heads, rotated);
}

Result<NamedTensors> keys_of_heads(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const int64_t heads, site.config.integer({"num_key_value_heads"}, 1));
  CHIMERE_TRY(const int64_t rotated, rotated_dims(site.config));
  return paired_rows(site, std::move(tensor), heads, rotated);
}

/// A model of attention layers alone is an ordinary Granite.
Result<std::string> architecture(const Config& config) {
  CHIMERE_TRY(const bool hybrid, has_mamba(config));
  if (hybrid) return std::string("granitehybrid");
  CHIMERE_TRY(const int64_t experts, config.integer_or({"num_experts_per_tok"}, 0));
  return std::string(experts > 0 ? "granitemoe" : "granite");
}

Result<Rules> rules(const Config& config) {
  CHIMERE_TRY(Rules out, granite_rules(config));
  add_ends(out);
  add_mamba2(out, "mamba");
  add_dense(out, "feed_forward");
  out.insert(out.end(), {{"final_layernorm", "output_norm"},
                         {"layers.*.pre_ff_layernorm", "blk.*.ffn_norm"},
                         {"layers.*.self_attn.q_proj", "blk.*.attn_q", queries},
                         {"layers.*.self_attn.k_proj", "blk.*.attn_k", keys_of_heads}});
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_granite_keys(config, out));
  CHIMERE_TRY(const auto attention, attention_layers(config));
  CHIMERE_TRY(const std::string position, config.text_or({"position_embedding_type"}, "nope"));
  CHIMERE_TRY(const int64_t experts, config.integer_or({"num_local_experts"}, 0));
  CHIMERE_TRY(const bool hybrid, has_mamba(config));
  const bool rotated = is_bamba(config) || position == "rope";
  CHIMERE_TRY(const int64_t dims, rotated_dims(config));
  out.integer("rope.dimension_count", dims);
  out.flag("rope.scaling.finetuned", rotated);
  if (!rotated) out.integer("context_length", kUnboundedContext);
  if (experts == 0 && config.has({"shared_intermediate_size"})) {
    CHIMERE_TRY(const int64_t width, config.integer({"shared_intermediate_size"}, 1));
    out.integer("feed_forward_length", width);
  }
  if (!hybrid) return {};
  CHIMERE_TRY(const int64_t width, config.integer({"hidden_size"}, 1, 1 << 24));
  CHIMERE_TRY(const int64_t expand, config.integer({"mamba_expand"}, 1, 64));
  CHIMERE_TRY(const int64_t taps, config.integer({"mamba_d_conv"}, 1));
  CHIMERE_TRY(const int64_t state, config.integer({"mamba_d_state"}, 1));
  CHIMERE_TRY(const int64_t groups, config.integer({"mamba_n_groups"}, 1));
  CHIMERE_TRY(const int64_t heads, config.integer({"mamba_n_heads"}, 1));
  CHIMERE_TRY(const int64_t kv_heads, config.integer({"num_key_value_heads"}, 1));
  out.integer("ssm.conv_kernel", taps);
  out.integer("ssm.state_size", state);
  out.integer("ssm.group_count", groups);
  out.integer("ssm.inner_size", expand * width);
  out.integer("ssm.time_step_rank", heads);
  std::vector<int32_t> per_layer;
  for (const bool has : attention) per_layer.push_back(has ? static_cast<int32_t>(kv_heads) : 0);
  out.integers("attention.head_count_kv", per_layer);
  return {};
}

}  // namespace
}  // namespace granitehybrid

const Family& granitehybrid_family() {
  static const Family family = {
      .classes = {"GraniteMoeHybridForCausalLM", "BambaForCausalLM"},
      .architecture = granitehybrid::architecture,
      .rules = granitehybrid::rules,
      .keys = granitehybrid::keys,
  };
  return family;
}

}  // namespace chimere::convert
