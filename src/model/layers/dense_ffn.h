// A dense feed-forward network with a gated unit (SwiGLU, Shazeer 2020, arXiv:2002.05202).
#ifndef CHIMERE_MODEL_LAYERS_DENSE_FFN_H_
#define CHIMERE_MODEL_LAYERS_DENSE_FFN_H_

#include <string>

#include "base/result.h"
#include "kernels/api.h"
#include "model/activations.h"
#include "model/weight_binder.h"

namespace chimere::model {

struct DenseFfn {
  WeightView gate;  ///< [n_ff, n_embd]
  WeightView up;    ///< [n_ff, n_embd]
  WeightView down;  ///< [n_embd, n_ff]

  /// `block` is the tensors' prefix, "blk.3.".
  static DenseFfn bind(WeightBinder& bind, const std::string& block, const Hparams& h);

  /// Puts the weights where ops read them; call once. Errors: those of Ops::place().
  Status place(kernels::Ops& ops);

  /// a.x += down(silu(gate a.h) ∘ up a.h).
  void forward(kernels::Ops& ops, const Activations& act) const;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_DENSE_FFN_H_
