// Nomic BERT: rotary positions and SwiGLU, under the names of its own code and those of
// transformers.
#include <algorithm>
#include <string>

#include "convert/families/registry.h"

namespace chimere::convert {
namespace nomic_bert {
namespace {

Result<std::string> architecture(const Config& /*config*/) { return std::string("nomic-bert"); }

Result<Rules> rules(const Config& /*config*/) {
  Rules out = {
      {"embeddings.word_embeddings", "token_embd"},
      {"embeddings.token_type_embeddings", "token_types"},
      {"embeddings.position_ids", ""},
      {"emb_ln", "token_embd_norm"},
      {"encoder.layers.*.attn.Wqkv", "blk.*.attn_qkv"},
      {"encoder.layers.*.attn.out_proj", "blk.*.attn_output"},
      {"encoder.layers.*.norm1", "blk.*.attn_output_norm"},
      {"encoder.layers.*.mlp.fc11", "blk.*.ffn_up"},
      {"encoder.layers.*.mlp.fc12", "blk.*.ffn_gate"},
      {"encoder.layers.*.mlp.fc2", "blk.*.ffn_down"},
      {"encoder.layers.*.norm2", "blk.*.layer_output_norm"},
      // Those of transformers.
      {"embeddings.LayerNorm", "token_embd_norm"},
      {"layers.*.self_attn.o_proj", "blk.*.attn_output"},
      {"layers.*.post_attention_layernorm", "blk.*.attn_output_norm"},
      {"layers.*.post_mlp_layernorm", "blk.*.layer_output_norm"},
      // Of the pre-training's heads.
      {"pooler.dense", ""},
      {"cls.predictions.decoder", ""},
      {"cls.predictions.transform.dense", ""},
      {"cls.predictions.transform.layer_norm", ""},
  };
  for (const char* projection : {"q", "k", "v"}) {
    out.push_back({"layers.*.self_attn." + std::string(projection) + "_proj",
                   "blk.*.attn_" + std::string(projection)});
  }
  add_dense(out);
  return out;
}

/// What the architecture has one way only.
Status check(const Config& config) {
  CHIMERE_TRY(const std::string activation, config.text_or({"activation_function"}, "swiglu"));
  CHIMERE_TRY(const std::string gate, config.text_or({"hidden_act"}, "silu"));
  CHIMERE_TRY(const double rotated, config.number_or({"rotary_emb_fraction"}, 1));
  CHIMERE_TRY(const double scaled, config.number_or({"rotary_scaling_factor"}, 1));
  CHIMERE_TRY(const int64_t experts_every, config.integer_or({"moe_every_n_layers"}, 0));
  struct Case {
    const char* member;
    bool good;
  };
  const Case cases[] = {{"activation_function", activation == "swiglu"},
                        {"hidden_act", gate == "silu" || config.has({"activation_function"})},
                        {"rotary_emb_fraction", rotated == 1},
                        {"rotary_scaling_factor", scaled == 1},
                        {"moe_every_n_layers", experts_every == 0}};
  for (const Case& one : cases) {
    if (one.good) continue;
    return unsupported("config.json: files of nomic-bert cannot express '" +
                       std::string(one.member) + "'");
  }
  for (const char* member :
       {"prenorm", "causal", "rotary_emb_interleaved", "use_rms_norm", "parallel_block"}) {
    CHIMERE_TRY(const bool set, config.flag_or({member}, false));
    if (!set) continue;
    return unsupported("config.json: files of nomic-bert cannot express '" + std::string(member) +
                       "'");
  }
  return {};
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(check(config));
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  if (config.has({"n_positions"})) {
    // Longer texts need scaled positions, whatever "n_positions" says.
    constexpr int64_t kTrained = 2048;
    CHIMERE_TRY(const int64_t positions, config.integer({"n_positions"}, 1));
    CHIMERE_TRY(const int64_t trained, config.integer_or({"max_trained_positions"}, kTrained, 1));
    out.integer("context_length", std::min(positions, trained));
  }
  CHIMERE_TRY(const double old_base, config.number_or({"rotary_emb_base"}, 1000));
  CHIMERE_TRY(const double base, config.rope_number_or("rope_theta", old_base));
  out.number("rope.freq_base", base);
  out.flag("attention.causal", false);
  return {};
}

}  // namespace
}  // namespace nomic_bert

const Family& nomic_bert_family() {
  static const Family family = {
      .classes = {"NomicBertModel"},
      .architecture = nomic_bert::architecture,
      .rules = nomic_bert::rules,
      .keys = nomic_bert::keys,
  };
  return family;
}

}  // namespace chimere::convert
