// BERT, and what has its names, such as XLM-RoBERTa; ModernBERT.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace bert {
namespace {

Result<std::string> bert_architecture(const Config& /*config*/) { return std::string("bert"); }

/// Without the prefix of the classes that have a head.
Result<std::string> rename(const Config& /*config*/, const std::string& name) {
  for (const std::string_view prefix : {"bert.", "roberta."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

/// Positions of RoBERTa begin behind the number of its padding token.
Result<int64_t> first_position(const Config& config) {
  if (!config.model_class().starts_with("XLMRoberta")) return 0;
  CHIMERE_TRY(const int64_t padding, config.integer_or({"pad_token_id"}, 1));
  return padding + 1;
}

Result<NamedTensors> positions(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const int64_t first, first_position(site.config));
  if (first == 0) return only(site, std::move(tensor));
  if (tensor.shape.size() != 2 || tensor.shape[0] <= first) {
    return invalid_data("the tensor '" + site.name + "' must have more than " +
                        std::to_string(first) + " rows");
  }
  std::vector<int64_t> rows;
  for (int64_t row = first; row < tensor.shape[0]; ++row) rows.push_back(row);
  const std::vector<int64_t> shape = {tensor.shape[0] - first, tensor.shape[1]};
  return only(site, with_rows(std::move(tensor), std::move(rows), shape));
}

Result<Rules> bert_rules(const Config& /*config*/) {
  return Rules{
      {"embeddings.word_embeddings", "token_embd"},
      {"embeddings.position_embeddings", "position_embd", positions},
      {"embeddings.token_type_embeddings", "token_types"},
      {"embeddings.LayerNorm", "token_embd_norm"},
      {"embeddings.position_ids", ""},
      {"encoder.layer.*.attention.self.query", "blk.*.attn_q"},
      {"encoder.layer.*.attention.self.key", "blk.*.attn_k"},
      {"encoder.layer.*.attention.self.value", "blk.*.attn_v"},
      {"encoder.layer.*.attention.output.dense", "blk.*.attn_output"},
      {"encoder.layer.*.attention.output.LayerNorm", "blk.*.attn_output_norm"},
      {"encoder.layer.*.intermediate.dense", "blk.*.ffn_up"},
      {"encoder.layer.*.output.dense", "blk.*.ffn_down"},
      {"encoder.layer.*.output.LayerNorm", "blk.*.layer_output_norm"},
      {"classifier.dense", "cls"},
      {"classifier.out_proj", "cls.output"},
      // Of the pre-training's heads.
      {"pooler.dense", ""},
      {"cls.predictions.bias", ""},
      {"cls.predictions.decoder", ""},
      {"cls.predictions.transform.dense", ""},
      {"cls.predictions.transform.LayerNorm", ""},
      {"cls.seq_relationship", ""},
  };
}

Status bert_keys(const Config& config, KeyWriter& out) {
  CHIMERE_TRY(const std::string activation, config.text_or({"hidden_act"}, "gelu"));
  CHIMERE_TRY(const std::string kind, config.text_or({"position_embedding_type"}, "absolute"));
  if (activation != "gelu" || kind != "absolute") {
    return unsupported("config.json has the activation '" + activation + "' and positions '" +
                       kind + "'; files of bert have gelu and absolute positions");
  }
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const int64_t first, first_position(config));
  if (first > 0) {
    CHIMERE_TRY(const int64_t rows, config.integer({"max_position_embeddings"}, first + 1));
    out.integer("context_length", rows - first);
  }
  if (config.model_class() == "XLMRobertaForSequenceClassification") {
    constexpr int64_t kRank = 4;
    out.integer("pooling_type", kRank);
  }
  out.flag("attention.causal", false);
  return {};
}

Result<std::string> modern_architecture(const Config& /*config*/) {
  return std::string("modern-bert");
}

Result<Rules> modern_rules(const Config& /*config*/) {
  return Rules{
      {"embeddings.tok_embeddings", "token_embd"},
      {"embeddings.norm", "token_embd_norm"},
      {"final_norm", "output_norm"},
      {"layers.*.attn_norm", "blk.*.attn_norm"},
      {"layers.*.attn.Wqkv", "blk.*.attn_qkv"},
      {"layers.*.attn.Wo", "blk.*.attn_output"},
      {"layers.*.mlp_norm", "blk.*.ffn_norm"},
      {"layers.*.mlp.Wi", "blk.*.ffn_up"},
      {"layers.*.mlp.Wo", "blk.*.ffn_down"},
  };
}

Status modern_keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const int64_t window, config.integer({"local_attention"}, 1));
  CHIMERE_TRY(const int64_t interval, config.integer_or({"global_attn_every_n_layers"}, 3, 1));
  CHIMERE_TRY(const int64_t vocabulary, config.integer({"vocab_size"}, 1));
  CHIMERE_TRY(const std::string activation, config.text_or({"hidden_activation"}, "gelu"));
  CHIMERE_TRY(const double eps, config.number_or({"norm_eps"}, 1e-5));
  CHIMERE_TRY(const double global, config.rope_number_or("rope_theta", 160000));
  // Older files name the local base beside the other one.
  CHIMERE_TRY(const double old_local, config.number_or({"local_rope_theta"}, 10000));
  CHIMERE_TRY(const double local,
              config.rope_number_or("rope_theta", old_local, "sliding_attention"));
  out.flag("attention.causal", false);
  out.integer("attention.sliding_window", window);
  out.integer("attention.sliding_window_pattern", interval);
  out.number("attention.layer_norm_epsilon", eps);
  out.number("rope.freq_base", global);
  out.number("rope.freq_base_swa", config.has({"rope_parameters"}) ? local : old_local);
  out.text("rope.scaling.type", "none");
  out.integer("vocab_size", vocabulary);
  out.text("hidden_activation", activation);
  return {};
}

}  // namespace
}  // namespace bert

const Family& bert_family() {
  static const Family family = {
      .classes = {"BertModel", "BertForMaskedLM", "XLMRobertaModel",
                  "XLMRobertaForSequenceClassification"},
      .architecture = bert::bert_architecture,
      .rules = bert::bert_rules,
      .keys = bert::bert_keys,
      .extra = nullptr,
      .rename = bert::rename,
  };
  return family;
}

const Family& modern_bert_family() {
  static const Family family = {
      .classes = {"ModernBertModel"},
      .architecture = bert::modern_architecture,
      .rules = bert::modern_rules,
      .keys = bert::modern_keys,
  };
  return family;
}

}  // namespace chimere::convert
