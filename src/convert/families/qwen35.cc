// Qwen3.5 and Qwen3.6, dense and mixture-of-experts. Value heads change from grouped by key head to
// tiled: one of each key head in turn.
#include <nlohmann/json.hpp>

#include "convert/families/delta_net.h"
#include "convert/families/registry.h"

namespace chimere::convert {
namespace qwen35 {
namespace {

Result<std::string> architecture(const Config& config) {
  return std::string(config.model_class().find("Moe") != std::string::npos ? "qwen35moe"
                                                                           : "qwen35");
}

/// The tiled order of `dim` elements for each value head, behind `before` others that stay.
std::vector<int64_t> tiled_order(const DeltaNetSizes& sizes, int64_t before, int64_t dim) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < before; ++i) order.push_back(i);
  const int64_t each = sizes.value_heads / sizes.key_heads;
  for (int64_t in_group = 0; in_group < each; ++in_group) {
    for (int64_t group = 0; group < sizes.key_heads; ++group) {
      for (int64_t i = 0; i < dim; ++i) {
        order.push_back(before + (group * each + in_group) * dim + i);
      }
    }
  }
  return order;
}

Result<NamedTensors> tiled(const Site& site, Tensor tensor, int64_t before, int64_t dim,
                           const DeltaNetSizes& sizes) {
  auto order = tiled_order(sizes, before, dim);
  if (tensor.shape.front() != static_cast<int64_t>(order.size())) {
    return invalid_data("the tensor '" + site.name + "' has " +
                        std::to_string(tensor.shape.front()) + " rows; the sizes in config.json " +
                        "need " + std::to_string(order.size()));
  }
  CHIMERE_TRY(Tensor out, reordered(std::move(tensor), std::move(order)));
  return only(site, std::move(out));
}

Result<NamedTensors> tiled_qkv(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const DeltaNetSizes sizes, read_delta_net_sizes(site.config));
  return tiled(site, std::move(tensor), 2 * sizes.key_heads * sizes.key_dim, sizes.value_dim,
               sizes);
}

Result<NamedTensors> tiled_convolution(const Site& site, Tensor tensor) {
  CHIMERE_TRY(NamedTensors flat, convolution(site, std::move(tensor)));
  return tiled_qkv(site, std::move(flat.front().tensor));
}

Result<NamedTensors> tiled_values(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const DeltaNetSizes sizes, read_delta_net_sizes(site.config));
  return tiled(site, std::move(tensor), 0, sizes.value_dim, sizes);
}

Result<NamedTensors> tiled_heads(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const DeltaNetSizes sizes, read_delta_net_sizes(site.config));
  return tiled(site, std::move(tensor), 0, 1, sizes);
}

Result<NamedTensors> tiled_decay(const Site& site, Tensor tensor) {
  CHIMERE_TRY(NamedTensors out, negative_exp(site, std::move(tensor)));
  return tiled_heads(site, std::move(out.front().tensor));
}

Result<NamedTensors> tiled_inputs(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const DeltaNetSizes sizes, read_delta_net_sizes(site.config));
  auto order = tiled_order(sizes, 0, sizes.value_dim);
  if (tensor.shape.size() != 2 || tensor.width() != static_cast<int64_t>(order.size())) {
    return invalid_data("the tensor '" + site.name + "' must have " + std::to_string(order.size()) +
                        " columns");
  }
  return only(site, with_columns(std::move(tensor), std::move(order)));
}

/// MTP heads follow the layers: "mtp.layers.0" is block `layers`.
Result<std::string> rename(const Config& config, const std::string& name) {
  constexpr std::string_view kHead = "mtp.";
  if (!name.starts_with(kHead)) return name;
  CHIMERE_TRY(const int64_t layers, config.layers());
  const std::string rest = name.substr(kHead.size());
  struct Row {
    std::string_view from;
    std::string_view to;
  };
  constexpr Row kRows[] = {{"fc.weight", "eh_proj.weight"},
                           {"pre_fc_norm_embedding.weight", "enorm.weight"},
                           {"pre_fc_norm_hidden.weight", "hnorm.weight"},
                           {"norm.weight", "shared_head.norm.weight"}};
  for (const Row& row : kRows) {
    if (rest == row.from) return "layers." + std::to_string(layers) + "." + std::string(row.to);
  }
  constexpr std::string_view kLayers = "layers.";
  constexpr size_t kMaxDigits = 4;
  const size_t dot = rest.find('.', kLayers.size());
  if (!rest.starts_with(kLayers) || dot == std::string::npos || dot == kLayers.size() ||
      dot - kLayers.size() > kMaxDigits ||
      rest.find_first_not_of("0123456789", kLayers.size()) != dot) {
    return name;
  }
  const int64_t head = std::stoll(rest.substr(kLayers.size(), dot - kLayers.size()));
  return "layers." + std::to_string(layers + head) + rest.substr(dot);
}

Result<Rules> rules(const Config& /*config*/) {
  Rules out = {
      {"embed_tokens", "token_embd"},
      {"lm_head", "output"},
      {"norm", "output_norm", plus_one},
      {"layers.*.input_layernorm", "blk.*.attn_norm", plus_one},
      {"layers.*.post_attention_layernorm", "blk.*.post_attention_norm", plus_one},
      {"layers.*.self_attn.q_proj", "blk.*.attn_q"},
      {"layers.*.self_attn.k_proj", "blk.*.attn_k"},
      {"layers.*.self_attn.v_proj", "blk.*.attn_v"},
      {"layers.*.self_attn.o_proj", "blk.*.attn_output"},
      {"layers.*.self_attn.q_norm", "blk.*.attn_q_norm", plus_one},
      {"layers.*.self_attn.k_norm", "blk.*.attn_k_norm", plus_one},
      {"layers.*.linear_attn.A_log", "blk.*.ssm_a", tiled_decay},
      {"layers.*.linear_attn.dt_bias", "blk.*.ssm_dt.bias", tiled_heads},
      {"layers.*.linear_attn.conv1d", "blk.*.ssm_conv1d", tiled_convolution},
      {"layers.*.linear_attn.norm", "blk.*.ssm_norm"},
      {"layers.*.linear_attn.in_proj_qkv", "blk.*.attn_qkv", tiled_qkv},
      {"layers.*.linear_attn.in_proj_z", "blk.*.attn_gate", tiled_values},
      {"layers.*.linear_attn.in_proj_a", "blk.*.ssm_alpha", tiled_heads},
      {"layers.*.linear_attn.in_proj_b", "blk.*.ssm_beta", tiled_heads},
      {"layers.*.linear_attn.out_proj", "blk.*.ssm_out", tiled_inputs},
      {"layers.*.eh_proj", "blk.*.nextn.eh_proj"},
      {"layers.*.enorm", "blk.*.nextn.enorm", plus_one},
      {"layers.*.hnorm", "blk.*.nextn.hnorm", plus_one},
      {"layers.*.shared_head.norm", "blk.*.nextn.shared_head_norm", plus_one},
  };
  add_qwen_experts(out);
  add_dense(out);
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_CHECK_OK(write_delta_net_keys(config, out));
  CHIMERE_TRY(const int64_t heads, config.integer_or({"mtp_num_hidden_layers"}, 0, 0, 64));
  if (heads > 0) {
    CHIMERE_TRY(const int64_t layers, config.layers());
    out.integer("block_count", layers + heads);
    out.integer("nextn_predict_layers", heads);
  }
  std::vector<int32_t> sections = {11, 11, 10, 0};  // of the published models
  if (const Json* const own = config.rope("mrope_section"); own != nullptr) {
    sections.assign(4, 0);
    bool good = own->is_array() && own->size() <= sections.size();
    for (size_t i = 0; good && i < own->size(); ++i) {
      good = (*own)[i].is_number_integer() && (*own)[i] >= 0 && (*own)[i] < 65536;
      if (good) sections[i] = (*own)[i].get<int32_t>();
    }
    if (!good) return invalid_data("config.json: 'mrope_section' must be a list of integers");
  }
  out.integers("rope.dimension_sections", sections);
  return {};
}

}  // namespace
}  // namespace qwen35

const Family& qwen35_family() {
  static const Family family = {
      .classes = {"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForCausalLM",
                  "Qwen3_5MoeForConditionalGeneration"},
      .architecture = qwen35::architecture,
      .rules = qwen35::rules,
      .keys = qwen35::keys,
      .extra = nullptr,
      .rename = qwen35::rename,
  };
  return family;
}

}  // namespace chimere::convert
