// Granite 3, dense and mixture-of-experts.
#include "convert/families/granite.h"

#include "convert/families/registry.h"

namespace chimere::convert {
namespace granite {
namespace {

Result<std::string> architecture(const Config& config) {
  return std::string(config.model_class() == "GraniteForCausalLM" ? "granite" : "granitemoe");
}

Result<Rules> rules(const Config& config) {
  CHIMERE_TRY(Rules out, granite_rules(config));
  add_ends(out);
  add_dense(out);
  return out;
}

}  // namespace
}  // namespace granite

Result<Rules> granite_rules(const Config& config) {
  CHIMERE_TRY(const int64_t experts, config.integer_or({"num_local_experts"}, 0));
  Rules out;
  add_attention(out, /*paired=*/true);
  out.insert(out.end(), {{"layers.*.post_attention_layernorm", "blk.*.ffn_norm"},
                         {"layers.*.block_sparse_moe.router.layer", "blk.*.ffn_gate_inp"},
                         {"layers.*.block_sparse_moe.input_linear",
                          "blk.*.ffn_gate_exps|blk.*.ffn_up_exps", halves},
                         {"layers.*.block_sparse_moe.output_linear", "blk.*.ffn_down_exps"}});
  // Without experts, the shared network is the only one.
  const std::string end = experts > 0 ? "_shexp" : "";
  out.insert(out.end(), {{"layers.*.shared_mlp.input_linear",
                          "blk.*.ffn_gate" + end + "|blk.*.ffn_up" + end, halves},
                         {"layers.*.shared_mlp.output_linear", "blk.*.ffn_down" + end}});
  return out;
}

Status write_granite_keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const int64_t vocabulary, config.integer({"vocab_size"}, 1));
  CHIMERE_TRY(const int64_t dims, config.head_dim());
  out.integer("vocab_size", vocabulary);
  out.integer("rope.dimension_count", dims);
  struct Row {
    std::string_view from;
    std::string_view to;
  };
  constexpr Row kMultipliers[] = {{"attention_multiplier", "attention.scale"},
                                  {"embedding_multiplier", "embedding_scale"},
                                  {"residual_multiplier", "residual_scale"},
                                  {"logits_scaling", "logit_scale"}};
  for (const auto& [from, to] : kMultipliers) {
    CHIMERE_TRY(const double value, config.number_or({from}, 0));
    if (value != 0) out.number(to, value);
  }
  CHIMERE_TRY(const int64_t shared, config.integer_or({"shared_intermediate_size"}, 0));
  if (shared > 0) out.integer("expert_shared_feed_forward_length", shared);
  return {};
}

const Family& granite_family() {
  static const Family family = {
      .classes = {"GraniteForCausalLM", "GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"},
      .architecture = granite::architecture,
      .rules = granite::rules,
      .keys = write_granite_keys,
  };
  return family;
}

}  // namespace chimere::convert
