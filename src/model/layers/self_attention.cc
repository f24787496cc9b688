#include "model/layers/self_attention.h"

#include <cmath>
#include <string>

namespace chimere::model {

Result<AttentionSpec> read_attention(const Keys& keys, int block, bool gated) {
  kernels::AttentionShape a;
  a.gated = gated;
  CHIMERE_TRY(a.n_heads, keys.integer_of_block("attention.head_count", block, 1, kMaxHeads));
  CHIMERE_TRY(a.n_kv_heads, keys.integer_of_block("attention.head_count_kv", block, 1, a.n_heads));
  CHIMERE_TRY(a.head_dim, keys.head_dim("attention.key_length"));
  CHIMERE_TRY(const int value_dim, keys.integer("attention.value_length", 1, kMaxWidth));
  if (gated) {
    CHIMERE_TRY(a.rope_dims, keys.integer("rope.dimension_count", 2, a.head_dim));
  } else {  // whole heads are rotated unless the file says otherwise
    CHIMERE_TRY(a.rope_dims, keys.integer_or("rope.dimension_count", a.head_dim, 2, a.head_dim));
  }
  CHIMERE_TRY(a.rope_base, keys.positive("rope.freq_base"));
  a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
  if (a.n_heads % a.n_kv_heads != 0) {
    return invalid_data(keys.name("attention.head_count") + " (" + std::to_string(a.n_heads) +
                        ") must be a multiple of " + keys.name("attention.head_count_kv") + " (" +
                        std::to_string(a.n_kv_heads) + ")");
  }
  if (value_dim != a.head_dim) {
    return unsupported("keys of " + std::to_string(a.head_dim) + " and values of " +
                       std::to_string(value_dim) + " elements; they must have the same length");
  }
  if (a.rope_dims % 2 != 0) {
    return invalid_data(keys.name("rope.dimension_count") + " must be even");
  }
  return AttentionSpec{.shape = a};
}

std::unique_ptr<SelfAttention> AttentionSpec::bind(const SubLayerBinding& to) const {
  const int64_t out_dim = int64_t{shape.n_heads} * shape.head_dim;
  const int64_t q_dim = int64_t{shape.n_heads} * shape.query_stride();
  const int64_t kv_dim = int64_t{shape.n_kv_heads} * shape.head_dim;
  WeightBinder& weights = to.weights;
  auto attention = std::make_unique<SelfAttention>();
  attention->shape_ = shape;
  attention->block_ = to.block;
  attention->norm_eps_ = to.norm_eps;
  const std::string fused = to.tensor("attn_qkv.weight");
  if (weights.has(fused) && !weights.has(to.tensor("attn_q.weight"))) {
    const WeightView all = weights.matrix(fused, q_dim + 2 * kv_dim, to.n_embd);
    attention->qg_ = all.rows_from(0, q_dim);
    attention->k_ = all.rows_from(q_dim, kv_dim);
    attention->v_ = all.rows_from(q_dim + kv_dim, kv_dim);
  } else {
    attention->qg_ = weights.matrix(to.tensor("attn_q.weight"), q_dim, to.n_embd);
    attention->k_ = weights.matrix(to.tensor("attn_k.weight"), kv_dim, to.n_embd);
    attention->v_ = weights.matrix(to.tensor("attn_v.weight"), kv_dim, to.n_embd);
  }
  attention->out_ = weights.matrix(to.tensor("attn_output.weight"), to.n_embd, out_dim);
  if (!qk_norm) return attention;
  attention->q_norm_ = weights.vector(to.tensor("attn_q_norm.weight"), shape.head_dim);
  attention->k_norm_ = weights.vector(to.tensor("attn_k_norm.weight"), shape.head_dim);
  return attention;
}

Status SelfAttention::place(Placement& to) {
  for (WeightView* w : {&qg_, &k_, &v_, &out_}) {
    CHIMERE_TRY(*w, to.ops.place(*w));
  }
  for (const float** norm : {&q_norm_, &k_norm_}) {
    if (*norm == nullptr) continue;
    CHIMERE_TRY(*norm, to.ops.place_floats(*norm, shape_.head_dim));
  }
  return {};
}

Status SelfAttention::add_state(StateBuilder& states) { return states.add_kv(block_, shape_, kv_); }

SelfAttention::Buffers SelfAttention::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.qg = at.matrix(rows, int64_t{shape_.n_heads} * shape_.query_stride());
  b.k = at.matrix(rows, int64_t{shape_.n_kv_heads} * shape_.head_dim);
  b.v = at.matrix(rows, int64_t{shape_.n_kv_heads} * shape_.head_dim);
  b.out = at.matrix(rows, int64_t{shape_.n_heads} * shape_.head_dim);
  return b;
}

GpuScratch SelfAttention::gpu_scratch() const {
  return {.widest = int64_t{shape_.n_heads} * shape_.head_dim};
}

void SelfAttention::forward(const SubLayerRows& rows) const {
  kernels::Ops& ops = rows.ops;
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const kernels::LinearJob in[] = {{qg_, b.qg}, {k_, b.k}, {v_, b.v}};
  ops.linear(rows.h, in);
  ops.qk_norm_rope_append(rows.batch, shape_, q_norm_, k_norm_, norm_eps_, b.qg, b.k, b.v, kv_);
  ops.attend(rows.batch, shape_, b.qg, kv_, b.out);
  const kernels::LinearJob add_to_stream[] = {{out_, rows.x, /*accumulate=*/true, rows.scale}};
  ops.linear(b.out, add_to_stream);
}

void SelfAttention::append(const SubLayerRows& rows) const {
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const kernels::LinearJob in[] = {{k_, b.k}, {v_, b.v}};
  rows.ops.linear(rows.h, in);
  // The op rotates queries too, which are not needed here: pass the smallest valid number of query
  // heads.
  kernels::AttentionShape shape = shape_;
  shape.n_heads = shape.n_kv_heads;
  const MatrixView unused = {b.qg.data, b.qg.rows, int64_t{shape.n_heads} * shape.query_stride(),
                             b.qg.stride};
  rows.ops.qk_norm_rope_append(rows.batch, shape, q_norm_, k_norm_, norm_eps_, unused, b.k, b.v,
                               kv_);
}

}  // namespace chimere::model
