// LFM2, dense and mixture-of-experts.
#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/experts.h"
#include "model/layers/self_attention.h"
#include "model/layers/short_convolution.h"

namespace chimere::model {
namespace {

/// Attention where a layer has KV heads, else a short convolution; then a dense network in the
/// first `n_dense` layers and experts in the others.
Result<ModelSpec> read_lfm2(const Keys& keys, int n_dense) {
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  model.output_norm = "token_embd_norm.weight";
  CHIMERE_TRY(const int n_layers, keys.block_count());
  CHIMERE_TRY(const ShortConvolutionSpec convolution, read_short_convolution(keys));
  for (int i = 0; i < n_layers; ++i) {
    LayerSpec layer;
    CHIMERE_TRY(const int kv_heads,
                keys.integer_of_block("attention.head_count_kv", i, 0, kMaxHeads));
    if (kv_heads > 0) {
      CHIMERE_TRY(const AttentionSpec attention, read_attention(keys, i, /*gated=*/false));
      layer.mixers = {attention};
    } else {
      layer.mixers = {convolution};
    }
    if (i < n_dense) {
      CHIMERE_TRY(layer.network, read_dense(keys, i));
    } else {
      CHIMERE_TRY(layer.network, read_experts(keys, i, SharedExpert::kNone,
                                              {.score = kernels::RouterScore::kSigmoid}));
    }
    model.layers.push_back(layer);
  }
  return model;
}

}  // namespace

Result<ModelSpec> lfm2(const Keys& keys) { return read_lfm2(keys, kMaxCount); }

Result<ModelSpec> lfm2moe(const Keys& keys) {
  CHIMERE_TRY(const int n_dense, keys.integer_or("leading_dense_block_count", 0, 0, kMaxCount));
  return read_lfm2(keys, n_dense);
}

}  // namespace chimere::model
