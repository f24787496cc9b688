// Llama 2 and 3, and what converters write like them: Mistral, Mixtral, SmolLM.
#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/experts.h"
#include "model/layers/self_attention.h"

namespace chimere::model {

/// Every layer: attention, then a dense network or, as in Mixtral, experts.
Result<ModelSpec> llama(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(const int n_experts, keys.integer_or("expert_count", 0, 0, kMaxCount));
  for (int i = 0; i < n_layers; ++i) {
    CHIMERE_TRY(const AttentionSpec attention, read_llama_attention(keys, i));
    LayerSpec layer = {.mixers = {attention}};
    if (n_experts > 0) {
      CHIMERE_TRY(layer.network, read_wide_experts(keys, i, SharedExpert::kNone));
    } else {
      CHIMERE_TRY(layer.network, read_dense(keys, i));
    }
    model.layers.push_back(layer);
  }
  return model;
}

}  // namespace chimere::model
