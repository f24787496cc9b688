// Falcon-H1.
#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/mamba2_mixer.h"
#include "model/layers/self_attention.h"

namespace chimere::model {

/// Every layer: attention and state-space duality, which read the same rows, then a dense network.
/// The model's multipliers are part of a file's weights.
Result<ModelSpec> falcon_h1(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(Mamba2Spec mixer, read_mamba2(keys));
  mixer.norm_required = false;
  // Converted files have the name without its suffix.
  const bool suffix = keys.file().find_tensor("blk.0.ffn_norm.weight") != nullptr;
  const char* const network_norm = suffix ? "ffn_norm.weight" : "ffn_norm";
  for (int i = 0; i < n_layers; ++i) {
    CHIMERE_TRY(AttentionSpec attention, read_attention(keys, i, /*gated=*/false));
    attention.qk_norm = false;
    CHIMERE_TRY(const DenseSpec network, read_dense(keys, i));
    model.layers.push_back(
        {.mixers = {attention, mixer}, .network_norm = network_norm, .network = network});
  }
  return model;
}

}  // namespace chimere::model
