// Zamba 2. No other program has files of it: chimere convert writes them (docs/convert.md).
#include <cmath>

#include "model/arch/registry.h"
#include "model/layers/mamba2_mixer.h"
#include "model/layers/shared_block.h"

namespace chimere::model {

/// Every layer: Mamba 2. Layers with KV heads begin with a shared transformer block; the blocks
/// ("shared_block_count") take turns. Scores are divided by the root of half a head's size.
Result<ModelSpec> zamba2(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(const int n_shared, keys.integer("shared_block_count", 1, n_layers));
  CHIMERE_TRY(const Mamba2Spec mixer, read_mamba2(keys));
  CHIMERE_TRY(const int n_ff, keys.integer("feed_forward_length", 1, kMaxWidth));
  bool rotated = true;
  if (keys.has("rope.scaling.finetuned")) {
    CHIMERE_TRY(rotated, keys.file().get_bool(keys.name("rope.scaling.finetuned")));
  }
  model.keeps_embedding = true;
  int uses = 0;
  for (int i = 0; i < n_layers; ++i) {
    LayerSpec layer;
    CHIMERE_TRY(const int kv_heads,
                keys.integer_of_block("attention.head_count_kv", i, 0, kMaxHeads));
    if (kv_heads > 0) {
      SharedBlockSpec block = {
          .attention = {}, .n_ff = n_ff, .shared = uses++ % n_shared, .mamba = mixer};
      CHIMERE_TRY(block.attention, read_attention(keys, i, /*gated=*/false));
      kernels::AttentionShape& shape = block.attention.shape;
      const auto scale = static_cast<float>(1 / std::sqrt(shape.head_dim / 2.0));
      CHIMERE_TRY(shape.scale, keys.multiplier_or("attention.scale", scale));
      if (!rotated) shape.rope_dims = 0;
      if (rotated && shape.rope_dims != shape.head_dim) {
        return unsupported(keys.name("rope.dimension_count") +
                           " must be the size of a head: heads of zamba2 are rotated as a whole");
      }
      layer.mixer_norm = "";  // the block has its own
      layer.mixers = {block};
    } else {
      layer.mixers = {mixer};
    }
    model.layers.push_back(layer);
  }
  if (uses < n_shared) {
    return invalid_data(keys.name("shared_block_count") + " is " + std::to_string(n_shared) +
                        ", but only " + std::to_string(uses) + " layers have a shared block");
  }
  return model;
}

}  // namespace chimere::model
