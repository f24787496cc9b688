// Qwen2 and Qwen2.5, the dense models.
#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/self_attention.h"

namespace chimere::model {

/// Every layer: attention with biases, then a dense network.
Result<ModelSpec> qwen2(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  for (int i = 0; i < n_layers; ++i) {
    CHIMERE_TRY(AttentionSpec attention, read_attention(keys, i, /*gated=*/false));
    attention.qk_norm = false;
    attention.bias = QkvBias::kRequired;
    CHIMERE_TRY(const DenseSpec network, read_dense(keys, i));
    model.layers.push_back({.mixers = {attention}, .network = network});
  }
  return model;
}

}  // namespace chimere::model
