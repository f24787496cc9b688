// BERT (Devlin et al. 2018, arXiv:1810.04805) and its relatives: encoders whose norms follow the
// sub-layers, made for embeddings and for scores of pairs.
#include <string>

#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/encoder_attention.h"

namespace chimere::model {
namespace {

Result<ModelSpec> read_encoder(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  model.norm = NormKind::kLayer;
  CHIMERE_TRY(model.norm_eps, keys.positive_or("attention.layer_norm_epsilon", model.norm_eps));
  model.encoder = true;
  model.embedding_norm = "token_embd_norm.weight";
  return model;
}

/// Norms after the sub-layers, and none before the head.
struct PostNormOptions {
  bool rotary = false;
  float alibi_bias = 0;
};
Result<ModelSpec> read_post_norm_encoder(const Keys& keys, const PostNormOptions& options,
                                         const DenseSpec& like) {
  CHIMERE_TRY(ModelSpec model, read_encoder(keys));
  model.output_norm.clear();
  CHIMERE_TRY(const int n_layers, keys.block_count());
  for (int i = 0; i < n_layers; ++i) {
    CHIMERE_TRY(EncoderAttentionSpec attention, read_encoder_attention(keys, i, options.rotary));
    attention.alibi_bias = options.alibi_bias;
    CHIMERE_TRY(const DenseSpec read, read_dense(keys, i));
    DenseSpec network = like;
    network.n_ff = read.n_ff;
    model.layers.push_back({.mixer_norm = {},
                            .mixers = {attention},
                            .mixer_post_norm = "attn_output_norm.weight",
                            .network_norm = {},
                            .network = network,
                            .network_post_norm = "layer_output_norm.weight"});
  }
  return model;
}

int64_t rows_of(const Keys& keys, const char* tensor) {
  const gguf::TensorInfo* found = keys.file().find_tensor(tensor);
  return found != nullptr && found->dims.size() == 2 ? found->dims[1] : 0;
}

/// GELU, unless the file says otherwise.
Result<kernels::Activation> read_activation(const Keys& keys) {
  if (!keys.has("hidden_activation")) return kernels::Activation::kGeluErf;
  CHIMERE_TRY(const std::string name, keys.file().get_string(keys.name("hidden_activation")));
  if (name == "gelu") return kernels::Activation::kGeluErf;
  if (name == "silu") return kernels::Activation::kSilu;
  return unsupported(keys.name("hidden_activation") + " is '" + name +
                     "'; gelu and silu can be run");
}

}  // namespace

/// Learned positions; BGE, E5, MiniLM, RoBERTa.
Result<ModelSpec> bert(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model,
              read_post_norm_encoder(
                  keys, {}, {.gated = false, .activation = kernels::Activation::kGeluErf}));
  model.position_embeddings = true;
  return model;
}

/// Rotary positions and SwiGLU (Nussbaum et al. 2024, arXiv:2402.01613).
Result<ModelSpec> nomic_bert(const Keys& keys) {
  return read_post_norm_encoder(keys, {.rotary = true}, {});
}

/// ALiBi and GEGLU (Günther et al. 2023, arXiv:2310.19923). The gate is a tensor of its own, the
/// first half of "ffn_up", or missing.
Result<ModelSpec> jina_bert_v2(const Keys& keys) {
  constexpr float kUsualBias = 8;
  CHIMERE_TRY(const float bias, keys.multiplier_or("attention.max_alibi_bias", kUsualBias));
  CHIMERE_TRY(const int n_ff, keys.integer_of_block("feed_forward_length", 0, 1, kMaxWidth));
  DenseSpec network = {.activation = kernels::Activation::kGeluErf};
  const bool own_gate = keys.file().find_tensor("blk.0.ffn_gate.weight") != nullptr;
  network.fused = !own_gate && rows_of(keys, "blk.0.ffn_up.weight") == 2 * int64_t{n_ff};
  network.gated = own_gate || network.fused;
  return read_post_norm_encoder(keys, {.alibi_bias = bias}, network);
}

/// Norms before the sub-layers; every n-th layer attends globally, the others within a window, with
/// a rotary base of their own (Warner et al. 2024, arXiv:2412.13663).
Result<ModelSpec> modern_bert(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_encoder(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(const int window, keys.integer_or("attention.sliding_window", 0, 0, kMaxWidth));
  CHIMERE_TRY(const int interval,
              keys.integer_or("attention.sliding_window_pattern", 3, 1, kMaxCount));
  constexpr float kLocalBase = 1e4F;
  CHIMERE_TRY(const float local_base, keys.positive_or("rope.freq_base_swa", kLocalBase));
  CHIMERE_TRY(const kernels::Activation activation, read_activation(keys));
  for (int i = 0; i < n_layers; ++i) {
    CHIMERE_TRY(EncoderAttentionSpec attention, read_encoder_attention(keys, i, /*rotary=*/true));
    if (window > 1 && i % interval != 0) {
      attention.shape.window = window / 2;
      attention.shape.heads.rope_base = local_base;
    }
    CHIMERE_TRY(DenseSpec network, read_dense(keys, i));
    network.fused = true;
    network.activation = activation;
    LayerSpec layer = {.mixers = {attention}, .network = network};
    // The first layer reads the rows that the embedding norm leaves.
    if (i == 0) layer.mixer_norm.clear();
    model.layers.push_back(layer);
  }
  return model;
}

}  // namespace chimere::model
