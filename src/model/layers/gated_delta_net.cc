#include "model/layers/gated_delta_net.h"

namespace chimere::model {

GatedDeltaNet GatedDeltaNet::bind(WeightBinder& bind, const std::string& block, const Hparams& h) {
  const kernels::GdnShape& g = h.delta_net;
  GatedDeltaNet net;
  net.qkv = bind.matrix(block + "attn_qkv.weight", g.conv_dim(), h.n_embd);
  net.z = bind.matrix(block + "attn_gate.weight", g.value_dim(), h.n_embd);
  net.alpha = bind.matrix(block + "ssm_alpha.weight", g.n_v_heads, h.n_embd);
  net.beta = bind.matrix(block + "ssm_beta.weight", g.n_v_heads, h.n_embd);
  net.out = bind.matrix(block + "ssm_out.weight", h.n_embd, g.value_dim());
  net.conv = bind.f32_matrix(block + "ssm_conv1d.weight", g.conv_dim(), g.conv_kernel);
  net.a = bind.vector(block + "ssm_a", g.n_v_heads);
  net.dt_bias = bind.vector(block + "ssm_dt.bias", g.n_v_heads);
  net.norm = bind.vector(block + "ssm_norm.weight", g.head_dim);
  return net;
}

void GatedDeltaNet::forward(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
                            const Activations& act) const {
  const kernels::GdnShape& shape = h.delta_net;
  const DeltaNetBuffers& b = act.delta_net;
  const kernels::LinearJob in[] = {{qkv, b.qkv}, {z, b.z}, {alpha, b.alpha}, {beta, b.beta}};
  ops.linear(act.h, in);
  ops.gdn_conv(batch, shape, conv, h.norm_eps, conv_state, b.qkv);
  ops.gdn_scan(batch, shape, b.qkv, b.alpha, b.beta, a, dt_bias, scan_state, b.out);
  ops.gated_rms_norm(b.out, b.z, norm, shape.head_dim, h.norm_eps, b.out);
  const kernels::LinearJob add_to_stream[] = {{out, act.x, /*accumulate=*/true}};
  ops.linear(b.out, add_to_stream);
}

}  // namespace chimere::model
