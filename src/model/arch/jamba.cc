// Jamba.
#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/experts.h"
#include "model/layers/mamba_mixer.h"
#include "model/layers/self_attention.h"

namespace chimere::model {
namespace {

bool has_router(const Keys& keys, int block) {
  return keys.file().find_tensor("blk." + std::to_string(block) + ".ffn_gate_inp.weight") !=
         nullptr;
}

}  // namespace

/// Attention without rotary positions where a layer has KV heads, else a selective scan; then
/// experts where a layer has a router, else a dense network.
Result<ModelSpec> jamba(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(MambaSpec mixer, read_mamba(keys));
  mixer.norms = MambaSpec::InnerNorms::kWeighted;
  for (int i = 0; i < n_layers; ++i) {
    LayerSpec layer;
    CHIMERE_TRY(const int kv_heads,
                keys.integer_of_block("attention.head_count_kv", i, 0, kMaxHeads));
    if (kv_heads > 0) {
      CHIMERE_TRY(AttentionSpec attention, read_attention(keys, i, /*gated=*/false));
      attention.qk_norm = false;
      attention.shape.rope_dims = 0;
      layer.mixers = {attention};
    } else {
      layer.mixers = {mixer};
    }
    if (has_router(keys, i)) {
      CHIMERE_TRY(layer.network,
                  read_wide_experts(keys, i, SharedExpert::kNone, {.normalise = false}));
    } else {
      CHIMERE_TRY(layer.network, read_dense(keys, i));
    }
    model.layers.push_back(layer);
  }
  return model;
}

}  // namespace chimere::model
