#include "model/layers/moe.h"

namespace chimere::model {

Moe Moe::bind(WeightBinder& bind, const std::string& block, const Hparams& h) {
  const MoeShape& m = h.moe;
  Moe moe;
  moe.router = bind.matrix(block + "ffn_gate_inp.weight", m.n_experts, h.n_embd);
  const std::vector<WeightView> gate =
      bind.experts(block + "ffn_gate_exps.weight", m.n_experts, m.n_used, m.n_ff, h.n_embd);
  const std::vector<WeightView> up =
      bind.experts(block + "ffn_up_exps.weight", m.n_experts, m.n_used, m.n_ff, h.n_embd);
  const std::vector<WeightView> down =
      bind.experts(block + "ffn_down_exps.weight", m.n_experts, m.n_used, h.n_embd, m.n_ff);
  for (size_t e = 0; e < gate.size(); ++e) moe.experts.push_back({gate[e], up[e], down[e]});

  moe.shared_gate = bind.matrix(block + "ffn_gate_inp_shexp.weight", 1, h.n_embd);
  moe.shared.gate = bind.matrix(block + "ffn_gate_shexp.weight", m.n_ff_shared, h.n_embd);
  moe.shared.up = bind.matrix(block + "ffn_up_shexp.weight", m.n_ff_shared, h.n_embd);
  moe.shared.down = bind.matrix(block + "ffn_down_shexp.weight", h.n_embd, m.n_ff_shared);
  return moe;
}

void Moe::forward(kernels::Ops& ops, const Activations& act) const {
  const MoeBuffers& b = act.moe;
  const kernels::LinearJob in[] = {{router, b.router}, {shared_gate, b.shared_gate}};
  ops.linear(act.h, in);
  ops.route(b.router, b.routing);
  ops.moe_ffn(act.h, experts, b.routing, &shared, b.shared_gate.data, act.x);
}

}  // namespace chimere::model
