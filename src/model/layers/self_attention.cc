#include "model/layers/self_attention.h"

namespace chimere::model {

SelfAttention SelfAttention::bind(WeightBinder& bind, const std::string& block, const Hparams& h) {
  const int64_t head_dim = h.attention.head_dim;
  const int64_t out_dim = h.attention.n_heads * head_dim;
  const int64_t q_dim = int64_t{h.attention.n_heads} * h.attention.query_stride();
  const int64_t kv_dim = h.attention.n_kv_heads * head_dim;
  SelfAttention attention;
  const std::string fused = block + "attn_qkv.weight";
  if (bind.has(fused)) {
    const WeightView all = bind.matrix(fused, q_dim + 2 * kv_dim, h.n_embd);
    attention.qg = all.rows_from(0, q_dim);
    attention.k = all.rows_from(q_dim, kv_dim);
    attention.v = all.rows_from(q_dim + kv_dim, kv_dim);
  } else {
    attention.qg = bind.matrix(block + "attn_q.weight", q_dim, h.n_embd);
    attention.k = bind.matrix(block + "attn_k.weight", kv_dim, h.n_embd);
    attention.v = bind.matrix(block + "attn_v.weight", kv_dim, h.n_embd);
  }
  attention.out = bind.matrix(block + "attn_output.weight", h.n_embd, out_dim);
  attention.q_norm = bind.vector(block + "attn_q_norm.weight", head_dim);
  attention.k_norm = bind.vector(block + "attn_k_norm.weight", head_dim);
  return attention;
}

Status SelfAttention::place(kernels::Ops& ops, const Hparams& h) {
  for (WeightView* w : {&qg, &k, &v, &out}) {
    CHIMERE_TRY(*w, ops.place(*w));
  }
  for (const float** norm : {&q_norm, &k_norm}) {
    CHIMERE_TRY(*norm, ops.place_floats(*norm, h.attention.head_dim));
  }
  return {};
}

void SelfAttention::forward(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
                            const Activations& act) const {
  const AttentionBuffers& b = act.attention;
  const kernels::LinearJob in[] = {{qg, b.qg}, {k, b.k}, {v, b.v}};
  ops.linear(act.h, in);
  ops.qk_norm_rope_append(batch, h.attention, q_norm, k_norm, h.norm_eps, b.qg, b.k, b.v, kv);
  ops.attend(batch, h.attention, b.qg, kv, b.out);
  const kernels::LinearJob add_to_stream[] = {{out, act.x, /*accumulate=*/true}};
  ops.linear(b.out, add_to_stream);
}

void SelfAttention::append(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
                           const Activations& act) const {
  const AttentionBuffers& b = act.attention;
  const kernels::LinearJob in[] = {{k, b.k}, {v, b.v}};
  ops.linear(act.h, in);
  // The op rotates queries too, which are not needed here: pass the smallest valid number of query
  // heads.
  kernels::AttentionShape shape = h.attention;
  shape.n_heads = shape.n_kv_heads;
  const MatrixView unused = {b.qg.data, b.qg.rows, int64_t{shape.n_heads} * shape.query_stride(),
                             b.qg.stride};
  ops.qk_norm_rope_append(batch, shape, q_norm, k_norm, h.norm_eps, unused, b.k, b.v, kv);
}

}  // namespace chimere::model
