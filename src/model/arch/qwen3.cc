// Qwen3, the dense transformers, and the embedding models made of them.
#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/self_attention.h"

namespace chimere::model {

/// Every layer: attention, then a dense network.
Result<ModelSpec> qwen3(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  for (int i = 0; i < n_layers; ++i) {
    CHIMERE_TRY(const AttentionSpec attention, read_attention(keys, i, /*gated=*/false));
    CHIMERE_TRY(const DenseSpec network, read_dense(keys, i));
    model.layers.push_back({.mixers = {attention}, .network = network});
  }
  return model;
}

}  // namespace chimere::model
