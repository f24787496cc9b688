// Qwen1.5-MoE and Qwen2, mixture-of-experts.
#include "model/arch/registry.h"
#include "model/layers/experts.h"
#include "model/layers/self_attention.h"

namespace chimere::model {

/// Every layer: attention with biases, then routed experts, whose weights are the softmax of all,
/// and a shared one with a gate.
Result<ModelSpec> qwen2moe(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  for (int i = 0; i < n_layers; ++i) {
    CHIMERE_TRY(AttentionSpec attention, read_attention(keys, i, /*gated=*/false));
    attention.qk_norm = false;
    attention.bias = QkvBias::kRequired;
    CHIMERE_TRY(const ExpertsSpec experts,
                read_experts(keys, i, SharedExpert::kGated, {.normalise = false}));
    model.layers.push_back({.mixers = {attention}, .network = experts});
  }
  return model;
}

}  // namespace chimere::model
