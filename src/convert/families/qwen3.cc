// Qwen3, dense and mixture-of-experts.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace qwen3 {
namespace {

Result<std::string> architecture(const Config& config) {
  return std::string(config.model_class() == "Qwen3MoeForCausalLM" ? "qwen3moe" : "qwen3");
}

Result<Rules> rules(const Config& /*config*/) {
  Rules out;
  add_ends(out);
  add_attention(out);
  add_dense(out);
  add_qwen_experts(out);
  out.push_back({"layers.*.post_attention_layernorm", "blk.*.ffn_norm"});
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  if (!config.has({"moe_intermediate_size"})) return {};
  CHIMERE_TRY(const int64_t width, config.integer({"moe_intermediate_size"}, 1));
  out.integer("expert_feed_forward_length", width);
  return {};
}

}  // namespace
}  // namespace qwen3

const Family& qwen3_family() {
  static const Family family = {
      .classes = {"Qwen3ForCausalLM", "Qwen3Model", "Qwen3MoeForCausalLM"},
      .architecture = qwen3::architecture,
      .rules = qwen3::rules,
      .keys = qwen3::keys,
  };
  return family;
}

}  // namespace chimere::convert
