// Routed experts and, in most models, a shared expert with its own gate.
#ifndef CHIMERE_MODEL_LAYERS_MOE_H_
#define CHIMERE_MODEL_LAYERS_MOE_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/activations.h"
#include "model/weight_binder.h"

namespace chimere::model {

struct Moe {
  WeightView router;                            ///< [n_experts, n_embd]
  std::vector<kernels::ExpertWeights> experts;  ///< [n_experts]
  bool has_shared = false;
  WeightView shared_gate;  ///< [1, n_embd]
  kernels::ExpertWeights shared;
  float top_p = 1;  ///< see MoeShape

  /// `block` is the tensors' prefix, "blk.3.". gate and up may be fused in "ffn_gate_up_exps".
  static Moe bind(WeightBinder& bind, const std::string& block, const Hparams& h);

  /// Puts the weights where ops read them; call once. Errors: those of Ops::place().
  Status place(kernels::Ops& ops);

  /// a.x += the experts' output for a.h.
  void forward(kernels::Ops& ops, const Activations& act) const;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_MOE_H_
