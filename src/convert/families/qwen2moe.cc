// Qwen1.5-MoE and Qwen2, mixture-of-experts.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace qwen2moe {
namespace {

Result<std::string> architecture(const Config& config) {
  CHIMERE_TRY(const bool normalised, config.flag_or({"norm_topk_prob"}, false));
  if (normalised) {
    return unsupported(
        "config.json normalises the weights of the chosen experts "
        "(norm_topk_prob), which files of qwen2moe cannot say");
  }
  return std::string("qwen2moe");
}

Result<Rules> rules(const Config& /*config*/) {
  Rules out;
  add_ends(out);
  add_attention(out);
  add_qwen_experts(out);
  out.push_back({"layers.*.post_attention_layernorm", "blk.*.ffn_norm"});
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const int64_t width, config.integer({"moe_intermediate_size"}, 1));
  CHIMERE_TRY(const int64_t shared, config.integer({"shared_expert_intermediate_size"}, 1));
  out.integer("expert_feed_forward_length", width);
  out.integer("expert_shared_feed_forward_length", shared);
  return {};
}

}  // namespace
}  // namespace qwen2moe

const Family& qwen2moe_family() {
  static const Family family = {
      .classes = {"Qwen2MoeForCausalLM"},
      .architecture = qwen2moe::architecture,
      .rules = qwen2moe::rules,
      .keys = qwen2moe::keys,
  };
  return family;
}

}  // namespace chimere::convert
