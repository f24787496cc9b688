#include "model/layers/dense_ffn.h"

namespace chimere::model {

DenseFfn DenseFfn::bind(WeightBinder& bind, const std::string& block, const Hparams& h) {
  DenseFfn ffn;
  ffn.gate = bind.matrix(block + "ffn_gate.weight", h.n_ff, h.n_embd);
  ffn.up = bind.matrix(block + "ffn_up.weight", h.n_ff, h.n_embd);
  ffn.down = bind.matrix(block + "ffn_down.weight", h.n_embd, h.n_ff);
  return ffn;
}

Status DenseFfn::place(kernels::Ops& ops) {
  for (WeightView* w : {&gate, &up, &down}) {
    CHIMERE_TRY(*w, ops.place(*w));
  }
  return {};
}

void DenseFfn::forward(kernels::Ops& ops, const Activations& act) const {
  const DenseBuffers& b = act.dense;
  const kernels::LinearJob in[] = {{gate, b.gate}, {up, b.up}};
  ops.linear(act.h, in);
  ops.activate(kernels::Activation::kSilu, b.gate, b.up);
  const kernels::LinearJob add_to_stream[] = {{down, act.x, /*accumulate=*/true}};
  ops.linear(b.gate, add_to_stream);
}

}  // namespace chimere::model
