// Mamba 2.
#include "model/arch/registry.h"
#include "model/layers/mamba2_mixer.h"

namespace chimere::model {

/// Every layer: state-space duality, no network.
Result<ModelSpec> mamba2(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(const Mamba2Spec mixer, read_mamba2(keys));
  for (int i = 0; i < n_layers; ++i) model.layers.push_back({.mixers = {mixer}});
  return model;
}

}  // namespace chimere::model
