#include "model/layers/gated_delta_net.h"

#include <vector>

namespace chimere::model {
namespace {

/// A fused projection as published with Qwen3-Next: per k head, its rows of the first part, then of
/// the second part, and so on.
class FusedByKeyHead {
 public:
  /// `widths`: rows per k head of each part.
  FusedByKeyHead(std::string name, int n_k_heads, std::vector<int64_t> widths)
      : name_(std::move(name)), n_k_heads_(n_k_heads), widths_(std::move(widths)) {
    for (const int64_t w : widths_) stride_ += w;
  }

  /// Gathers the rows of `parts`, one whole part after the other.
  WeightView bind(WeightBinder& bind, const Hparams& h, const std::vector<size_t>& parts) const {
    std::vector<int64_t> rows;
    for (const size_t part : parts) {
      int64_t begin = 0;
      for (size_t p = 0; p < part; ++p) begin += widths_[p];
      for (int head = 0; head < n_k_heads_; ++head) {
        for (int64_t i = 0; i < widths_[part]; ++i) rows.push_back(head * stride_ + begin + i);
      }
    }
    return bind.gathered(name_, n_k_heads_ * stride_, h.n_embd, rows);
  }

 private:
  std::string name_;
  int n_k_heads_;
  std::vector<int64_t> widths_;
  int64_t stride_ = 0;
};

}  // namespace

GatedDeltaNet GatedDeltaNet::bind(WeightBinder& bind, const std::string& block, const Hparams& h) {
  const kernels::GdnShape& g = h.delta_net;
  GatedDeltaNet net;
  // Fused tensors group v heads by k head, which tiled heads do not do.
  const bool fused_in = !g.tiled_heads && bind.has(block + "ssm_in.weight");
  const bool fused_ba = !g.tiled_heads && bind.has(block + "ssm_ba.weight");
  const int64_t v_heads = g.n_v_heads / g.n_k_heads;
  if (fused_in) {
    const int64_t k = g.head_dim;
    const int64_t v = v_heads * g.head_dim;
    const FusedByKeyHead in(block + "ssm_in.weight", g.n_k_heads, {k, k, v, v});
    net.qkv = in.bind(bind, h, {0, 1, 2});
    net.z = in.bind(bind, h, {3});
  } else {
    net.qkv = bind.matrix(block + "attn_qkv.weight", g.conv_dim(), h.n_embd);
    net.z = bind.matrix(block + "attn_gate.weight", g.value_dim(), h.n_embd);
  }
  if (fused_ba) {
    const FusedByKeyHead ba(block + "ssm_ba.weight", g.n_k_heads, {v_heads, v_heads});
    net.beta = ba.bind(bind, h, {0});
    net.alpha = ba.bind(bind, h, {1});
  } else {
    net.beta = bind.matrix(block + "ssm_beta.weight", g.n_v_heads, h.n_embd);
    net.alpha = bind.matrix(block + "ssm_alpha.weight", g.n_v_heads, h.n_embd);
  }
  net.out = bind.matrix(block + "ssm_out.weight", h.n_embd, g.value_dim());
  net.conv = bind.f32_matrix(block + "ssm_conv1d.weight", g.conv_dim(), g.conv_kernel);
  net.a = bind.vector(block + "ssm_a", g.n_v_heads);
  net.dt_bias = bind.vector(block + "ssm_dt.bias", g.n_v_heads);
  net.norm = bind.vector(block + "ssm_norm.weight", g.head_dim);
  return net;
}

Status GatedDeltaNet::place(kernels::Ops& ops, const Hparams& h) {
  const kernels::GdnShape& g = h.delta_net;
  for (WeightView* w : {&qkv, &z, &alpha, &beta, &out}) {
    CHIMERE_TRY(*w, ops.place(*w));
  }
  CHIMERE_TRY(conv, ops.place_floats(conv, int64_t{g.conv_dim()} * g.conv_kernel));
  CHIMERE_TRY(a, ops.place_floats(a, g.n_v_heads));
  CHIMERE_TRY(dt_bias, ops.place_floats(dt_bias, g.n_v_heads));
  CHIMERE_TRY(norm, ops.place_floats(norm, g.head_dim));
  return {};
}

void GatedDeltaNet::forward(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
                            const Activations& act) const {
  const kernels::GdnShape& shape = h.delta_net;
  const DeltaNetBuffers& b = act.delta_net;
  const kernels::LinearJob in[] = {{qkv, b.qkv}, {z, b.z}, {alpha, b.alpha}, {beta, b.beta}};
  ops.linear(act.h, in);
  const kernels::GdnOperands operands = {conv,       conv_state, a,         dt_bias,
                                         scan_state, norm,       h.norm_eps};
  ops.gdn_mix(batch, shape, operands, b.qkv, b.alpha, b.beta, b.z, b.out);
  const kernels::LinearJob add_to_stream[] = {{out, act.x, /*accumulate=*/true}};
  ops.linear(b.out, add_to_stream);
}

}  // namespace chimere::model
