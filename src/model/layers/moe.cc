#include "model/layers/moe.h"

namespace chimere::model {

Moe Moe::bind(WeightBinder& bind, const std::string& block, const Hparams& h) {
  const MoeShape& m = h.moe;
  Moe moe;
  moe.top_p = m.top_p;
  moe.router = bind.matrix(block + "ffn_gate_inp.weight", m.n_experts, h.n_embd);
  auto experts = [&](const char* name, int64_t n_out, int64_t n_in) {
    return bind.experts(block + name, m.n_experts, m.n_used, n_out, n_in);
  };
  const std::vector<WeightView> down = experts("ffn_down_exps.weight", h.n_embd, m.n_ff);
  if (bind.has(block + "ffn_gate_up_exps.weight")) {
    const auto fused = experts("ffn_gate_up_exps.weight", int64_t{2} * m.n_ff, h.n_embd);
    for (size_t e = 0; e < down.size(); ++e) {
      moe.experts.push_back(
          {fused[e].rows_from(0, m.n_ff), fused[e].rows_from(m.n_ff, m.n_ff), down[e]});
    }
  } else {
    const auto gate = experts("ffn_gate_exps.weight", m.n_ff, h.n_embd);
    const auto up = experts("ffn_up_exps.weight", m.n_ff, h.n_embd);
    for (size_t e = 0; e < down.size(); ++e) moe.experts.push_back({gate[e], up[e], down[e]});
  }
  moe.has_shared = m.n_ff_shared > 0;
  if (!moe.has_shared) return moe;
  moe.shared_gate = bind.matrix(block + "ffn_gate_inp_shexp.weight", 1, h.n_embd);
  moe.shared.gate = bind.matrix(block + "ffn_gate_shexp.weight", m.n_ff_shared, h.n_embd);
  moe.shared.up = bind.matrix(block + "ffn_up_shexp.weight", m.n_ff_shared, h.n_embd);
  moe.shared.down = bind.matrix(block + "ffn_down_shexp.weight", h.n_embd, m.n_ff_shared);
  return moe;
}

Status Moe::place(kernels::Ops& ops) {
  CHIMERE_TRY(router, ops.place(router));
  if (!has_shared) return ops.place_experts(experts, nullptr);
  CHIMERE_TRY(shared_gate, ops.place(shared_gate));
  return ops.place_experts(experts, &shared);
}

void Moe::forward(kernels::Ops& ops, const Activations& act) const {
  const MoeBuffers& b = act.moe;
  const kernels::LinearJob in[] = {{router, b.router}, {shared_gate, b.shared_gate}};
  ops.linear(act.h, std::span(in).first(has_shared ? 2 : 1));
  ops.route(b.router, {}, b.routing);
  if (!b.classes.empty()) ops.keep_top_p(b.routing, b.classes, top_p, b.use);
  ops.moe_ffn(act.h, experts, b.routing, has_shared ? &shared : nullptr,
              has_shared ? b.shared_gate.data : nullptr, {}, act.x);
}

}  // namespace chimere::model
