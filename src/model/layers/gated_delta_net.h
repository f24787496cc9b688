// The linear-time mixer: gated delta rule over a fixed-size state (Yang et al. 2024,
// arXiv:2412.06464), as used by Qwen3-Next and Qwen3.5.
#ifndef CHIMERE_MODEL_LAYERS_GATED_DELTA_NET_H_
#define CHIMERE_MODEL_LAYERS_GATED_DELTA_NET_H_

#include <string>

#include "base/result.h"
#include "kernels/api.h"
#include "model/activations.h"
#include "model/weight_binder.h"

namespace chimere::model {

struct GatedDeltaNet {
  WeightView qkv;                  ///< [conv_dim, n_embd]
  WeightView z;                    ///< [value_dim, n_embd] output gate
  WeightView alpha;                ///< [n_v_heads, n_embd] decay
  WeightView beta;                 ///< [n_v_heads, n_embd] write strength
  WeightView out;                  ///< [n_embd, value_dim]
  const float* conv = nullptr;     ///< [conv_dim, conv_kernel]
  const float* a = nullptr;        ///< [n_v_heads], negative
  const float* dt_bias = nullptr;  ///< [n_v_heads]
  const float* norm = nullptr;     ///< [head_dim]

  kernels::RecurrentView conv_state;
  kernels::RecurrentView scan_state;

  /// `block` is the tensors' prefix, "blk.3.". Where v heads are grouped by k head, z may be fused
  /// with q, k and v in "ssm_in", and beta with alpha in "ssm_ba".
  static GatedDeltaNet bind(WeightBinder& bind, const std::string& block, const Hparams& h);

  /// Puts the weights where ops read them; call once. Errors: those of Ops::place().
  Status place(kernels::Ops& ops, const Hparams& h);

  /// a.x += the mixer's output for a.h. Reads and writes the sequences' states.
  void forward(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
               const Activations& act) const;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_GATED_DELTA_NET_H_
