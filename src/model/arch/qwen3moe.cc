// Qwen3 mixture-of-experts.
#include "model/arch/registry.h"
#include "model/layers/experts.h"
#include "model/layers/self_attention.h"

namespace chimere::model {

/// Every layer: attention, then routed experts without a shared one.
Result<ModelSpec> qwen3moe(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  for (int i = 0; i < n_layers; ++i) {
    CHIMERE_TRY(const AttentionSpec attention, read_attention(keys, i, /*gated=*/false));
    CHIMERE_TRY(const ExpertsSpec experts, read_experts(keys, i, SharedExpert::kNone));
    model.layers.push_back({.mixers = {attention}, .network = experts});
  }
  return model;
}

}  // namespace chimere::model
