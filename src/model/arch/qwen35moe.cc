// Qwen3.5 mixture-of-experts.
#include "model/arch/registry.h"
#include "model/layers/experts.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/self_attention.h"

namespace chimere::model {

/// Three layers with gated delta nets, then one with gated attention, and so on; each mixer is
/// followed by routed experts and a shared one.
Result<ModelSpec> qwen35moe(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const Blocks blocks, read_blocks(keys));
  CHIMERE_TRY(const std::vector<bool> recurrent, read_recurrent_layers(keys, blocks));
  CHIMERE_TRY(const DeltaNetSpec delta_net, read_delta_net(keys, HeadOrder::kTiled));
  for (int i = 0; i < blocks.layers; ++i) {
    LayerSpec layer = {.network_norm = "post_attention_norm.weight"};
    if (recurrent[static_cast<size_t>(i)]) {
      layer.mixers = {delta_net};
    } else {
      CHIMERE_TRY(const AttentionSpec attention, read_attention(keys, i, /*gated=*/true));
      layer.mixers = {attention};
    }
    CHIMERE_TRY(layer.network, read_experts(keys, i, SharedExpert::kGated));
    model.layers.push_back(layer);
  }
  if (blocks.mtp_heads > 0) {
    CHIMERE_TRY(const AttentionSpec attention, read_attention(keys, blocks.layers, /*gated=*/true));
    CHIMERE_TRY(const ExpertsSpec network, read_experts(keys, blocks.layers, SharedExpert::kGated));
    model.mtp = {.heads = blocks.mtp_heads, .attention = attention, .network = network};
  }
  return model;
}

}  // namespace chimere::model
