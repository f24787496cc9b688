#include "convert/family.h"

#include <cmath>
#include <utility>

namespace chimere::convert {
namespace {

Result<NamedTensors> paired(const Site& site, Tensor tensor, Names heads_key) {
  CHIMERE_TRY(const int64_t heads, site.config.integer(heads_key, 1));
  const int64_t each = tensor.shape.front() / heads;
  return paired_rows(site, std::move(tensor), heads, each);
}

}  // namespace

Result<NamedTensors> paired_rows(const Site& site, Tensor tensor, int64_t heads, int64_t rotated) {
  const int64_t rows = tensor.shape.front();
  if (heads < 1 || rows % heads != 0 || rotated % 2 != 0 || rotated > rows / heads) {
    return invalid_data("the tensor '" + site.name + "' has " + std::to_string(rows) +
                        " rows, which cannot be " + std::to_string(heads) + " heads with " +
                        std::to_string(rotated) + " rotated elements");
  }
  const int64_t each = rows / heads;
  std::vector<int64_t> order;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < each; ++i) {
      const int64_t place = i < rotated ? i / 2 + i % 2 * (rotated / 2) : i;
      order.push_back(head * each + place);
    }
  }
  CHIMERE_TRY(Tensor out, reordered(std::move(tensor), std::move(order)));
  return only(site, std::move(out));
}

NamedTensors only(const Site& site, Tensor tensor) {
  NamedTensors out;
  out.push_back({site.targets.front(), std::move(tensor)});
  return out;
}

Result<NamedTensors> plus_one(const Site& site, Tensor tensor) {
  return only(site, mapped(std::move(tensor), [](float x) { return x + 1.0F; }));
}

Result<NamedTensors> negative_exp(const Site& site, Tensor tensor) {
  // In double precision, so that the result is the f32 nearest to the exact value.
  return only(site, mapped(std::move(tensor), [](float x) {
                return -static_cast<float>(std::exp(static_cast<double>(x)));
              }));
}

Result<NamedTensors> column(const Site& site, Tensor tensor) {
  const int64_t n = tensor.elements();
  CHIMERE_TRY(Tensor out, reshaped(std::move(tensor), {n, 1}));
  return only(site, std::move(out));
}

Result<NamedTensors> negative_exp_column(const Site& site, Tensor tensor) {
  CHIMERE_TRY(NamedTensors out, negative_exp(site, std::move(tensor)));
  return column(site, std::move(out.front().tensor));
}

Result<NamedTensors> convolution(const Site& site, Tensor tensor) {
  if (tensor.shape.size() == 1) return only(site, std::move(tensor));  // the bias
  if (tensor.shape.size() != 3 || tensor.shape[1] != 1) {
    return invalid_data("the tensor '" + site.name + "' must have the shape [channels, 1, taps]");
  }
  const std::vector<int64_t> shape = {tensor.shape[0], tensor.shape[2]};
  CHIMERE_TRY(Tensor out, reshaped(std::move(tensor), shape));
  return only(site, std::move(out));
}

Result<NamedTensors> halves(const Site& site, Tensor tensor) {
  const size_t dims = tensor.shape.size();
  if (dims < 2 || dims > 3 || tensor.shape[dims - 2] % 2 != 0) {
    return invalid_data("the tensor '" + site.name + "' must have an even number of rows");
  }
  const int64_t both = tensor.shape[dims - 2];
  std::vector<int64_t> shape = tensor.shape;
  shape[dims - 2] = both / 2;
  NamedTensors out;
  for (size_t part = 0; part < 2; ++part) {
    std::vector<int64_t> order;
    for (int64_t row = 0; row < tensor.rows(); ++row) {
      if (row % both / (both / 2) == static_cast<int64_t>(part)) order.push_back(row);
    }
    out.push_back({site.targets[part], with_rows(tensor, std::move(order), shape)});
  }
  return out;
}

Result<NamedTensors> paired_queries(const Site& site, Tensor tensor) {
  return paired(site, std::move(tensor), {"num_attention_heads"});
}

Result<NamedTensors> paired_keys(const Site& site, Tensor tensor) {
  return paired(site, std::move(tensor), {"num_key_value_heads", "num_attention_heads"});
}

Result<NamedTensors> grouped(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const int64_t groups,
              site.config.integer_or({"n_groups", "mamba_n_groups", "mamba_ngroups"}, 1, 1));
  const int64_t n = tensor.elements();
  if (n % groups != 0) {
    return invalid_data("the tensor '" + site.name + "' has " + std::to_string(n) +
                        " elements, which " + std::to_string(groups) + " groups cannot share");
  }
  CHIMERE_TRY(Tensor out, reshaped(std::move(tensor), {groups, n / groups}));
  return only(site, std::move(out));
}

void add_mamba2(Rules& rules, std::string_view mixer) {
  const std::string from = "layers.*." + std::string(mixer) + ".";
  rules.insert(rules.end(), {{from + "A_log", "blk.*.ssm_a", negative_exp_column},
                             {from + "D", "blk.*.ssm_d", column},
                             {from + "dt_bias", "blk.*.ssm_dt.bias"},
                             {from + "conv1d", "blk.*.ssm_conv1d", convolution},
                             {from + "in_proj", "blk.*.ssm_in"},
                             {from + "out_proj", "blk.*.ssm_out"},
                             {from + "norm", "blk.*.ssm_norm", grouped}});
}

void add_ends(Rules& rules) {
  rules.insert(rules.end(),
               {{"embed_tokens", "token_embd"}, {"lm_head", "output"}, {"norm", "output_norm"}});
}

void add_attention(Rules& rules, bool paired) {
  rules.insert(rules.end(),
               {{"layers.*.input_layernorm", "blk.*.attn_norm"},
                {"layers.*.self_attn.q_proj", "blk.*.attn_q", paired ? paired_queries : nullptr},
                {"layers.*.self_attn.k_proj", "blk.*.attn_k", paired ? paired_keys : nullptr},
                {"layers.*.self_attn.v_proj", "blk.*.attn_v"},
                {"layers.*.self_attn.o_proj", "blk.*.attn_output"},
                {"layers.*.self_attn.q_norm", "blk.*.attn_q_norm"},
                {"layers.*.self_attn.k_norm", "blk.*.attn_k_norm"},
                {"layers.*.self_attn.rotary_emb.inv_freq", ""}});
}

void add_dense(Rules& rules, std::string_view module) {
  const std::string from = "layers.*." + std::string(module) + ".";
  rules.insert(rules.end(), {{from + "gate_proj", "blk.*.ffn_gate"},
                             {from + "up_proj", "blk.*.ffn_up"},
                             {from + "down_proj", "blk.*.ffn_down"}});
}

void add_qwen_experts(Rules& rules) {
  rules.insert(rules.end(), {{"layers.*.mlp.gate", "blk.*.ffn_gate_inp"},
                             {"layers.*.mlp.experts.#.gate_proj", "blk.*.ffn_gate_exps"},
                             {"layers.*.mlp.experts.#.up_proj", "blk.*.ffn_up_exps"},
                             {"layers.*.mlp.experts.#.down_proj", "blk.*.ffn_down_exps"},
                             {"layers.*.mlp.experts.gate_up_proj",
                              "blk.*.ffn_gate_exps.weight|blk.*.ffn_up_exps.weight", halves},
                             {"layers.*.mlp.experts.down_proj", "blk.*.ffn_down_exps.weight"},
                             {"layers.*.mlp.shared_expert_gate", "blk.*.ffn_gate_inp_shexp"},
                             {"layers.*.mlp.shared_expert.gate_proj", "blk.*.ffn_gate_shexp"},
                             {"layers.*.mlp.shared_expert.up_proj", "blk.*.ffn_up_shexp"},
                             {"layers.*.mlp.shared_expert.down_proj", "blk.*.ffn_down_shexp"}});
}

Status write_rope_keys(const Config& config, KeyWriter& out) {
  const std::string type = config.rope_type();
  if (type == "linear") {
    CHIMERE_TRY(const double factor, config.rope_number_or("factor", 1));
    out.text("rope.scaling.type", "linear");
    out.number("rope.scaling.factor", factor);
  } else if (type == "yarn") {
    CHIMERE_TRY(const double factor, config.rope_number_or("factor", 1));
    CHIMERE_TRY(const double original,
                config.rope_number_or("original_max_position_embeddings", 0));
    if (original < 1 || original > static_cast<double>(kMaxInteger)) {
      return invalid_data(
          "config.json scales positions by YaRN without a valid "
          "original_max_position_embeddings");
    }
    out.text("rope.scaling.type", "yarn");
    out.number("rope.scaling.factor", factor);
    out.integer("rope.scaling.original_context_length", static_cast<int64_t>(original));
    struct Option {
      std::string_view from;
      std::string_view to;
    };
    constexpr Option kOptions[] = {{"extrapolation_factor", "rope.scaling.yarn_ext_factor"},
                                   {"attention_factor", "rope.scaling.yarn_attn_factor"},
                                   {"beta_fast", "rope.scaling.yarn_beta_fast"},
                                   {"beta_slow", "rope.scaling.yarn_beta_slow"}};
    for (const auto& [from, to] : kOptions) {
      if (config.rope(from) == nullptr) continue;
      CHIMERE_TRY(const double value, config.rope_number_or(from, 0));
      out.number(to, value);
    }
    CHIMERE_TRY(const bool truncate, config.rope_flag_or("truncate", true));
    if (!truncate) out.flag("rope.scaling.yarn_truncate", false);
  } else if (type != "default" && type != "llama3" && type != "mrope") {
    return unsupported("config.json scales rotary positions by '" + type +
                       "'; linear, yarn and llama3 can be converted");
  }
  CHIMERE_TRY(const double theta, config.rope_number_or("rope_theta", 0));
  if (theta > 0) out.number("rope.freq_base", theta);
  return {};
}

Status write_text_keys(const Config& config, KeyWriter& out) {
  struct Row {
    Names from;
    std::string_view to;
  };
  const Row integers[] = {
      {{"max_position_embeddings", "n_positions"}, "context_length"},
      {{"hidden_size", "n_embd"}, "embedding_length"},
      {{"intermediate_size", "n_inner"}, "feed_forward_length"},
      {{"num_attention_heads", "n_head"}, "attention.head_count"},
      {{"num_key_value_heads"}, "attention.head_count_kv"},
      {{"num_local_experts", "num_experts", "n_routed_experts"}, "expert_count"},
      {{"num_experts_per_tok", "num_experts_per_token"}, "expert_used_count"},
      {{"n_group"}, "expert_group_count"},
      {{"topk_group"}, "expert_group_used_count"},
      {{"head_dim"}, "attention.key_length"},
      {{"head_dim"}, "attention.value_length"},
  };
  CHIMERE_TRY(const int64_t layers, config.layers());
  out.integer("block_count", layers);
  for (const Row& row : integers) {
    if (!config.has(row.from)) continue;
    CHIMERE_TRY(const int64_t value, config.integer(row.from));
    out.integer(row.to, value);
  }
  const Row numbers[] = {
      {{"rms_norm_eps", "norm_eps"}, "attention.layer_norm_rms_epsilon"},
      {{"layer_norm_eps", "layer_norm_epsilon"}, "attention.layer_norm_epsilon"},
  };
  for (const Row& row : numbers) {
    if (!config.has(row.from)) continue;
    CHIMERE_TRY(const double value, config.number(row.from));
    out.number(row.to, value);
  }
  return write_rope_keys(config, out);
}

Result<NamedTensors> rope_factors(const Config& config) {
  if (config.rope_type() != "llama3") return NamedTensors();
  CHIMERE_TRY(const int64_t dims, config.head_dim());
  CHIMERE_TRY(const double base, config.rope_number_or("rope_theta", 10000));
  CHIMERE_TRY(const double factor, config.rope_number_or("factor", 8));
  CHIMERE_TRY(const double low, config.rope_number_or("low_freq_factor", 1));
  CHIMERE_TRY(const double high, config.rope_number_or("high_freq_factor", 4));
  CHIMERE_TRY(const double context,
              config.rope_number_or("original_max_position_embeddings", 8192));
  constexpr int64_t kMaxDims = 65536;
  if (dims < 2 || dims > kMaxDims || base <= 0 || factor <= 0 || low <= 0 || high <= low) {
    return invalid_data("config.json: the factors of llama3's rotary positions cannot be used");
  }
  std::vector<float> factors;
  for (int64_t i = 0; i < dims; i += 2) {
    // In f32, with reciprocals in place of quotients, as the published files were made.
    const float exponent = static_cast<float>(i) / static_cast<float>(dims);
    const float frequency = 1.0F / std::pow(static_cast<float>(base), exponent);
    const float wave = 1.0F / frequency * static_cast<float>(2 * M_PI);
    if (static_cast<double>(wave) < context / high) {
      factors.push_back(1);
    } else if (static_cast<double>(wave) > context / low) {
      factors.push_back(static_cast<float>(factor));
    } else {
      const float smooth = (1.0F / wave * static_cast<float>(context) - static_cast<float>(low)) /
                           static_cast<float>(high - low);
      factors.push_back(1.0F / ((1.0F - smooth) / static_cast<float>(factor) + smooth));
    }
  }
  NamedTensors out;
  const auto n = static_cast<int64_t>(factors.size());
  out.push_back({"rope_freqs.weight", literal({n}, std::move(factors))});
  return out;
}

}  // namespace chimere::convert
