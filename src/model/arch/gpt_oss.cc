// gpt-oss (OpenAI 2025, arXiv:2508.10925).
#include "model/arch/registry.h"
#include "model/layers/experts.h"
#include "model/layers/self_attention.h"

namespace chimere::model {

/// Every layer: attention with biases and sinks, then experts with biases, whose weights are the
/// softmax of the selected. Every second layer, from the first on, has a window, unless
/// "attention.sliding_window_pattern" n says that every n-th layer has none.
Result<ModelSpec> gpt_oss(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(const int window, keys.integer("attention.sliding_window", 1, kMaxWindow));
  CHIMERE_TRY(const int period,
              keys.integer_or("attention.sliding_window_pattern", 2, 1, kMaxCount));
  for (int i = 0; i < n_layers; ++i) {
    CHIMERE_TRY(AttentionSpec attention, read_attention(keys, i, /*gated=*/false));
    attention.qk_norm = false;
    attention.bias = QkvBias::kRequired;
    attention.sinks = true;
    if (i % period < period - 1) attention.shape.window = window;
    CHIMERE_TRY(ExpertsSpec experts,
                read_experts(keys, i, SharedExpert::kNone,
                             {.score = kernels::RouterScore::kSelectedSoftmax}));
    experts.activation = kernels::Activation::kClampedSwiglu;
    model.layers.push_back(
        {.mixers = {attention}, .network_norm = "post_attention_norm.weight", .network = experts});
  }
  return model;
}

}  // namespace chimere::model
