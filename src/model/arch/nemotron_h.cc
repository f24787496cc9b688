// Nemotron-H, dense and mixture-of-experts (Nemotron 3).
#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/experts.h"
#include "model/layers/mamba2_mixer.h"
#include "model/layers/self_attention.h"

namespace chimere::model {
namespace {

/// Attention without rotary positions.
Result<AttentionSpec> read_unrotated_attention(const Keys& keys, int block) {
  CHIMERE_TRY(AttentionSpec attention, read_attention(keys, block, /*gated=*/false));
  attention.qk_norm = false;
  attention.shape.rope_dims = 0;
  attention.bias = QkvBias::kOptional;
  return attention;
}

Result<SubLayerSpec> read_network(const Keys& keys, int block, bool experts) {
  if (experts) {
    CHIMERE_TRY(ExpertsSpec network, read_experts(keys, block, SharedExpert::kUngated,
                                                  {.score = kernels::RouterScore::kSigmoid}));
    network.gated = false;
    network.activation = kernels::Activation::kReluSquared;
    return SubLayerSpec(network);
  }
  CHIMERE_TRY(DenseSpec network, read_dense(keys, block));
  network.gated = false;
  network.activation = kernels::Activation::kReluSquared;
  return SubLayerSpec(network);
}

/// Every layer is one sub-layer: attention where it has KV heads, a network where it has a width,
/// state-space duality elsewhere.
Result<ModelSpec> read_nemotron_h(const Keys& keys, bool experts) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const Blocks blocks, read_blocks(keys));
  CHIMERE_TRY(const Mamba2Spec mixer, read_mamba2(keys));
  for (int i = 0; i < blocks.layers; ++i) {
    CHIMERE_TRY(const int kv_heads,
                keys.integer_of_block("attention.head_count_kv", i, 0, kMaxHeads));
    CHIMERE_TRY(const int n_ff, keys.integer_of_block("feed_forward_length", i, 0, kMaxWidth));
    LayerSpec layer;
    if (kv_heads > 0 && n_ff > 0) {
      return unsupported("layer " + std::to_string(i) + " has attention and a network (" +
                         keys.name("attention.head_count_kv") + " and " +
                         keys.name("feed_forward_length") + "); layers of " + keys.architecture() +
                         " have one of both");
    }
    if (kv_heads > 0) {
      CHIMERE_TRY(const AttentionSpec attention, read_unrotated_attention(keys, i));
      layer.mixers = {attention};
    } else if (n_ff > 0) {
      layer.network_norm = "attn_norm.weight";
      CHIMERE_TRY(layer.network, read_network(keys, i, experts));
    } else {
      layer.mixers = {mixer};
    }
    model.layers.push_back(layer);
  }
  return model;
}

}  // namespace

Result<ModelSpec> nemotron_h(const Keys& keys) { return read_nemotron_h(keys, /*experts=*/false); }

Result<ModelSpec> nemotron_h_moe(const Keys& keys) {
  return read_nemotron_h(keys, /*experts=*/true);
}

}  // namespace chimere::model
