// Mamba and FalconMamba.
#include "model/arch/registry.h"
#include "model/layers/mamba_mixer.h"

namespace chimere::model {

/// Every layer: a selective scan, no network.
Result<ModelSpec> mamba(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(const MambaSpec mixer, read_mamba(keys));
  for (int i = 0; i < n_layers; ++i) model.layers.push_back({.mixers = {mixer}});
  return model;
}

}  // namespace chimere::model
