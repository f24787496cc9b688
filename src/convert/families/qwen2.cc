// Qwen2 and Qwen2.5, dense.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace qwen2 {
namespace {

Result<std::string> architecture(const Config& /*config*/) { return std::string("qwen2"); }

Result<Rules> rules(const Config& /*config*/) {
  Rules out;
  add_ends(out);
  add_attention(out);
  add_dense(out);
  out.push_back({"layers.*.post_attention_layernorm", "blk.*.ffn_norm"});
  return out;
}

}  // namespace
}  // namespace qwen2

const Family& qwen2_family() {
  static const Family family = {
      .classes = {"Qwen2ForCausalLM", "Qwen2Model"},
      .architecture = qwen2::architecture,
      .rules = qwen2::rules,
      .keys = write_text_keys,
  };
  return family;
}

}  // namespace chimere::convert
