// Llama 2 and 3, Mistral, SmolLM; Mixtral's experts.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace llama {
namespace {

Result<std::string> architecture(const Config& config) {
  // A window over all layers; llama.cpp's converter drops it, and longer prompts are then wrong.
  CHIMERE_TRY(const int64_t window, config.integer_or({"sliding_window"}, 0));
  CHIMERE_TRY(const int64_t context, config.integer({"max_position_embeddings"}, 1));
  if (window > 0 && window < context) {
    return unsupported("config.json limits attention to a sliding window of " +
                       std::to_string(window) + " tokens, which files of llama cannot say");
  }
  return std::string("llama");
}

Result<Rules> rules(const Config& /*config*/) {
  Rules out;
  add_ends(out);
  add_attention(out, /*paired=*/true);
  add_dense(out);
  out.insert(out.end(), {{"layers.*.post_attention_layernorm", "blk.*.ffn_norm"},
                         {"layers.*.block_sparse_moe.gate", "blk.*.ffn_gate_inp"},
                         {"layers.*.block_sparse_moe.experts.#.w1", "blk.*.ffn_gate_exps"},
                         {"layers.*.block_sparse_moe.experts.#.w2", "blk.*.ffn_down_exps"},
                         {"layers.*.block_sparse_moe.experts.#.w3", "blk.*.ffn_up_exps"}});
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const int64_t vocabulary, config.integer({"vocab_size"}, 1));
  CHIMERE_TRY(const int64_t dims, config.head_dim());
  out.integer("vocab_size", vocabulary);
  out.integer("rope.dimension_count", dims);
  return {};
}

}  // namespace
}  // namespace llama

const Family& llama_family() {
  static const Family family = {
      .classes = {"LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"},
      .architecture = llama::architecture,
      .rules = llama::rules,
      .keys = llama::keys,
      .extra = rope_factors,
  };
  return family;
}

}  // namespace chimere::convert
