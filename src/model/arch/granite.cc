// Granite 3 and 4, and Bamba, which converters write as granitehybrid.
#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/experts.h"
#include "model/layers/mamba2_mixer.h"
#include "model/layers/self_attention.h"

namespace chimere::model {
namespace {

Result<ModelSpec> read_granite(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(model.embedding_scale, keys.multiplier_or("embedding_scale", 1));
  CHIMERE_TRY(const float logit_divisor, keys.multiplier_or("logit_scale", 1));
  model.logit_scale = 1 / logit_divisor;
  return model;
}

/// "rope.scaling.finetuned" says whether positions are rotated at all.
Result<AttentionSpec> read_granite_attention(const Keys& keys, int block) {
  CHIMERE_TRY(AttentionSpec attention, read_llama_attention(keys, block));
  if (keys.has("rope.scaling.finetuned")) {
    CHIMERE_TRY(const bool rotated, keys.file().get_bool(keys.name("rope.scaling.finetuned")));
    if (!rotated) attention.shape.rope_dims = 0;
  }
  return attention;
}

/// Experts, where the file has any, with a shared one where it has a width; else a dense network.
Result<SubLayerSpec> read_granite_network(const Keys& keys, int block) {
  CHIMERE_TRY(const int n_experts, keys.integer_or("expert_count", 0, 0, kMaxCount));
  if (n_experts == 0) {
    CHIMERE_TRY(const DenseSpec network, read_dense(keys, block));
    return SubLayerSpec(network);
  }
  CHIMERE_TRY(const int shared,
              keys.integer_or("expert_shared_feed_forward_length", 0, 0, kMaxWidth));
  CHIMERE_TRY(
      const ExpertsSpec network,
      read_wide_experts(keys, block, shared > 0 ? SharedExpert::kUngated : SharedExpert::kNone));
  return SubLayerSpec(network);
}

}  // namespace

/// Every layer: attention, then a dense network.
Result<ModelSpec> granite(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_granite(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(const float residual_scale, keys.multiplier_or("residual_scale", 1));
  for (int i = 0; i < n_layers; ++i) {
    LayerSpec layer = {.residual_scale = residual_scale};
    CHIMERE_TRY(const AttentionSpec attention, read_granite_attention(keys, i));
    layer.mixers = {attention};
    CHIMERE_TRY(layer.network, read_granite_network(keys, i));
    model.layers.push_back(layer);
  }
  return model;
}

/// Every layer: attention, then experts.
Result<ModelSpec> granitemoe(const Keys& keys) { return granite(keys); }

/// Layers without KV heads have state-space duality in place of attention.
Result<ModelSpec> granitehybrid(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_granite(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(const float residual_scale, keys.multiplier_or("residual_scale", 1));
  CHIMERE_TRY(const Mamba2Spec mixer, read_mamba2(keys));
  for (int i = 0; i < n_layers; ++i) {
    LayerSpec layer = {.residual_scale = residual_scale};
    CHIMERE_TRY(const int kv_heads,
                keys.integer_of_block("attention.head_count_kv", i, 0, kMaxHeads));
    if (kv_heads > 0) {
      CHIMERE_TRY(const AttentionSpec attention, read_granite_attention(keys, i));
      layer.mixers = {attention};
    } else {
      layer.mixers = {mixer};
    }
    CHIMERE_TRY(layer.network, read_granite_network(keys, i));
    model.layers.push_back(layer);
  }
  return model;
}

}  // namespace chimere::model
