// Falcon-H1: attention beside Mamba 2. Its multipliers become part of the weights.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace falcon_h1 {
namespace {

Result<std::string> architecture(const Config& /*config*/) { return std::string("falcon-h1"); }

/// Multiplies by each member of config.json in turn, in f32.
Result<NamedTensors> multiplied(const Site& site, Tensor tensor, Names names) {
  for (const std::string_view name : names) {
    CHIMERE_TRY(const double value, site.config.number({name}));
    const auto by = static_cast<float>(value);
    tensor = mapped(std::move(tensor), [by](float x) { return x * by; });
  }
  return only(site, std::move(tensor));
}

Result<NamedTensors> embedding(const Site& site, Tensor tensor) {
  return multiplied(site, std::move(tensor), {"embedding_multiplier"});
}
Result<NamedTensors> head(const Site& site, Tensor tensor) {
  return multiplied(site, std::move(tensor), {"lm_head_multiplier"});
}
/// Without an output matrix of its own: the embedding has another multiplier as the output.
Result<NamedTensors> tied_embedding(const Site& site, Tensor tensor) {
  CHIMERE_TRY(NamedTensors out, embedding(site, tensor));
  CHIMERE_TRY(NamedTensors output, head(site, std::move(tensor)));
  out.push_back({site.targets[1], std::move(output.front().tensor)});
  return out;
}
Result<NamedTensors> attention_input(const Site& site, Tensor tensor) {
  return multiplied(site, std::move(tensor), {"attention_in_multiplier"});
}
Result<NamedTensors> attention_keys(const Site& site, Tensor tensor) {
  return multiplied(site, std::move(tensor), {"key_multiplier", "attention_in_multiplier"});
}
Result<NamedTensors> attention_output(const Site& site, Tensor tensor) {
  return multiplied(site, std::move(tensor), {"attention_out_multiplier"});
}
Result<NamedTensors> ssm_output(const Site& site, Tensor tensor) {
  return multiplied(site, std::move(tensor), {"ssm_out_multiplier"});
}

Result<NamedTensors> network(const Site& site, Tensor tensor, size_t which) {
  CHIMERE_TRY(const auto values, site.config.numbers({"mlp_multipliers"}, 2));
  const auto by = static_cast<float>(values[which]);
  return only(site, mapped(std::move(tensor), [by](float x) { return x * by; }));
}
Result<NamedTensors> network_gate(const Site& site, Tensor tensor) {
  return network(site, std::move(tensor), 0);
}
Result<NamedTensors> network_down(const Site& site, Tensor tensor) {
  return network(site, std::move(tensor), 1);
}

/// Rows of the gate, x, B, C and dt have multipliers of their own.
Result<NamedTensors> ssm_input(const Site& site, Tensor tensor) {
  constexpr size_t kParts = 5;
  CHIMERE_TRY(NamedTensors out, multiplied(site, std::move(tensor), {"ssm_in_multiplier"}));
  CHIMERE_TRY(const auto values, site.config.numbers({"ssm_multipliers"}, kParts));
  CHIMERE_TRY(const int64_t inner, site.config.integer({"mamba_d_ssm"}, 1, 1 << 24));
  CHIMERE_TRY(const int64_t groups, site.config.integer({"mamba_n_groups"}, 1, 65536));
  CHIMERE_TRY(const int64_t state, site.config.integer({"mamba_d_state"}, 1, 65536));
  const std::vector<int64_t> ends = {inner, 2 * inner, 2 * inner + groups * state,
                                     2 * inner + 2 * groups * state};
  Tensor& input = out.front().tensor;
  input = scaled_rows(std::move(input), [ends, values](int64_t row) {
    size_t part = 0;
    while (part < ends.size() && row >= ends[part]) ++part;
    return static_cast<float>(values[part]);
  });
  return out;
}

Result<Rules> rules(const Config& config) {
  CHIMERE_TRY(const bool tied, config.flag_or({"tie_word_embeddings"}, false));
  Rules out;
  add_mamba2(out, "mamba");
  out.insert(out.end(), {{"final_layernorm", "output_norm"},
                         {"lm_head", "output", head},
                         {"layers.*.input_layernorm", "blk.*.attn_norm"},
                         // llama.cpp's files have this name without an end.
                         {"layers.*.pre_ff_layernorm.weight", "blk.*.ffn_norm"},
                         {"layers.*.self_attn.q_proj", "blk.*.attn_q", attention_input},
                         {"layers.*.self_attn.k_proj", "blk.*.attn_k", attention_keys},
                         {"layers.*.self_attn.v_proj", "blk.*.attn_v", attention_input},
                         {"layers.*.self_attn.o_proj", "blk.*.attn_output", attention_output},
                         {"layers.*.feed_forward.gate_proj", "blk.*.ffn_gate", network_gate},
                         {"layers.*.feed_forward.up_proj", "blk.*.ffn_up"},
                         {"layers.*.feed_forward.down_proj", "blk.*.ffn_down", network_down},
                         {"layers.*.mamba.in_proj", "blk.*.ssm_in", ssm_input},
                         {"layers.*.mamba.out_proj", "blk.*.ssm_out", ssm_output}});
  if (tied) {
    out.push_back({"embed_tokens", "token_embd|output", tied_embedding});
  } else {
    out.push_back({"embed_tokens", "token_embd", embedding});
  }
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const int64_t vocabulary, config.integer({"vocab_size"}, 1));
  CHIMERE_TRY(const int64_t inner, config.integer({"mamba_d_ssm"}, 1));
  CHIMERE_TRY(const int64_t head_dim, config.integer({"mamba_d_head"}, 1));
  CHIMERE_TRY(const int64_t taps, config.integer({"mamba_d_conv"}, 1));
  CHIMERE_TRY(const int64_t state, config.integer({"mamba_d_state"}, 1));
  CHIMERE_TRY(const int64_t groups, config.integer({"mamba_n_groups"}, 1));
  if (inner % head_dim != 0) {
    return invalid_data("config.json: mamba_d_ssm (" + std::to_string(inner) +
                        ") must be a multiple of mamba_d_head (" + std::to_string(head_dim) + ")");
  }
  CHIMERE_TRY(const bool before, config.flag_or({"mamba_norm_before_gate"}, false));
  CHIMERE_TRY(const bool norm, config.flag_or({"mamba_rms_norm"}, false));
  if (norm && before) {
    return unsupported(
        "config.json normalises before the gate (mamba_norm_before_gate), which "
        "files of falcon-h1 cannot say");
  }
  out.integer("vocab_size", vocabulary);
  out.integer("ssm.conv_kernel", taps);
  out.integer("ssm.inner_size", inner);
  out.integer("ssm.state_size", state);
  out.integer("ssm.time_step_rank", inner / head_dim);
  out.integer("ssm.group_count", groups);
  return {};
}

}  // namespace
}  // namespace falcon_h1

const Family& falcon_h1_family() {
  static const Family family = {
      .classes = {"FalconH1ForCausalLM"},
      .architecture = falcon_h1::architecture,
      .rules = falcon_h1::rules,
      .keys = falcon_h1::keys,
  };
  return family;
}

}  // namespace chimere::convert
