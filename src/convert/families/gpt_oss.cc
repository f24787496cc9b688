// gpt-oss: experts, in MXFP4 or not, whose gates and ups alternate; sinks and sliding windows.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace gpt_oss {
namespace {

Result<std::string> architecture(const Config& /*config*/) { return std::string("gpt-oss"); }

/// Rows (of each expert) of gate and up, which alternate.
NamedTensors alternating_rows(const Site& site, const Tensor& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  shape[shape.size() - 2] /= 2;
  NamedTensors out;
  for (int64_t part = 0; part < 2; ++part) {
    std::vector<int64_t> order;
    for (int64_t row = part; row < tensor.rows(); row += 2) order.push_back(row);
    out.push_back(
        {site.targets[static_cast<size_t>(part)], with_rows(tensor, std::move(order), shape)});
  }
  return out;
}

/// Experts in MXFP4 are published as the products need them, others transposed.
Result<Tensor> outputs_by_inputs(Tensor tensor) {
  if (tensor.read_stored) return tensor;
  return transposed(std::move(tensor));
}

/// [experts, n_embd, 2 n_ff], or in MXFP4 [experts, 2 n_ff, n_embd], to two of
/// [experts, n_ff, n_embd].
Result<NamedTensors> gate_and_up(const Site& site, Tensor tensor) {
  const bool three = tensor.shape.size() == 3;
  if (!three || (tensor.read_stored ? tensor.shape[1] : tensor.shape[2]) % 2 != 0) {
    return invalid_data("the tensor '" + site.name + "' must have the shape [experts, n, 2 m]");
  }
  CHIMERE_TRY(const Tensor rows, outputs_by_inputs(std::move(tensor)));
  return alternating_rows(site, rows);
}

/// [experts, 2 n_ff] to two of [experts, n_ff].
Result<NamedTensors> gate_and_up_biases(const Site& site, Tensor tensor) {
  if (tensor.shape.size() != 2 || tensor.width() % 2 != 0) {
    return invalid_data("the tensor '" + site.name + "' must have the shape [experts, 2 m]");
  }
  std::vector<int64_t> gates;
  std::vector<int64_t> ups;
  for (int64_t i = 0; i < tensor.width(); ++i) (i % 2 == 0 ? gates : ups).push_back(i);
  NamedTensors out;
  out.push_back({site.targets[0], with_columns(tensor, std::move(gates))});
  out.push_back({site.targets[1], with_columns(std::move(tensor), std::move(ups))});
  return out;
}

Result<NamedTensors> down(const Site& site, Tensor tensor) {
  CHIMERE_TRY(Tensor out, outputs_by_inputs(std::move(tensor)));
  return only(site, std::move(out));
}

Result<Rules> rules(const Config& /*config*/) {
  Rules out;
  add_ends(out);
  add_attention(out);
  out.insert(out.end(), {{"layers.*.post_attention_layernorm", "blk.*.post_attention_norm"},
                         {"layers.*.self_attn.sinks", "blk.*.attn_sinks.weight"},
                         {"layers.*.mlp.router", "blk.*.ffn_gate_inp"},
                         {"layers.*.mlp.experts.gate_up_proj",
                          "blk.*.ffn_gate_exps.weight|blk.*.ffn_up_exps.weight", gate_and_up},
                         {"layers.*.mlp.experts.gate_up_proj_bias",
                          "blk.*.ffn_gate_exps.bias|blk.*.ffn_up_exps.bias", gate_and_up_biases},
                         {"layers.*.mlp.experts.down_proj", "blk.*.ffn_down_exps.weight", down},
                         {"layers.*.mlp.experts.down_proj_bias", "blk.*.ffn_down_exps.bias"}});
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const int64_t window, config.integer({"sliding_window"}, 1));
  CHIMERE_TRY(const int64_t width, config.integer({"intermediate_size"}, 1));
  out.integer("attention.sliding_window", window);
  out.integer("expert_feed_forward_length", width);
  return {};
}

}  // namespace
}  // namespace gpt_oss

const Family& gpt_oss_family() {
  static const Family family = {
      .classes = {"GptOssForCausalLM"},
      .architecture = gpt_oss::architecture,
      .rules = gpt_oss::rules,
      .keys = gpt_oss::keys,
  };
  return family;
}

}  // namespace chimere::convert
