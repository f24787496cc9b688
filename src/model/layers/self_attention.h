// Grouped-query attention with normalised queries and keys and rotary positions (Qwen3); with
// partial rotation and a sigmoid gate on the output where the shape says so (Qwen3-Next, Qwen3.5).
#ifndef CHIMERE_MODEL_LAYERS_SELF_ATTENTION_H_
#define CHIMERE_MODEL_LAYERS_SELF_ATTENTION_H_

#include <string>

#include "base/result.h"
#include "kernels/api.h"
#include "model/activations.h"
#include "model/weight_binder.h"

namespace chimere::model {

struct SelfAttention {
  WeightView qg;   ///< [n_heads * query_stride, n_embd] per head the query, then its gate if any
  WeightView k;    ///< [n_kv_heads * head_dim, n_embd]
  WeightView v;    ///< [n_kv_heads * head_dim, n_embd]
  WeightView out;  ///< [n_embd, n_heads * head_dim]
  const float* q_norm = nullptr;  ///< [head_dim]
  const float* k_norm = nullptr;  ///< [head_dim]

  kernels::KvView kv;

  /// `block` is the tensors' prefix, "blk.3.". q, k and v may be fused in one tensor, "attn_qkv".
  static SelfAttention bind(WeightBinder& bind, const std::string& block, const Hparams& h);

  /// Puts the weights where ops read them; call once. Errors: those of Ops::place().
  Status place(kernels::Ops& ops, const Hparams& h);

  /// a.x += the mixer's output for a.h. Appends to the sequences' KV pages.
  void forward(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
               const Activations& act) const;
  /// Appends the KV of a.h; does not change a.x.
  void append(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
              const Activations& act) const;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_SELF_ATTENTION_H_
