#include "model/layers/encoder_attention.h"

#include <bit>
#include <cmath>
#include <string>

#include "model/layers/self_attention.h"

namespace chimere::model {

std::vector<float> alibi_slopes(int heads, float bias) {
  const auto n = static_cast<int>(std::bit_floor(static_cast<unsigned>(heads)));
  std::vector<float> slopes;
  for (int h = 0; h < heads; ++h) {
    const double power = h < n ? (h + 1.0) / n : (2.0 * (h - n) + 1) / (2.0 * n);
    slopes.push_back(static_cast<float>(std::exp2(-bias * power)));
  }
  return slopes;
}

Result<EncoderAttentionSpec> read_encoder_attention(const Keys& keys, int block, bool rotary) {
  if (keys.has("attention.causal")) {
    CHIMERE_TRY(const bool causal, keys.file().get_bool(keys.name("attention.causal")));
    if (causal) {
      return unsupported(keys.name("attention.causal") +
                         " is true; encoders of this architecture attend in both directions");
    }
  }
  CHIMERE_TRY(const AttentionSpec causal, read_attention(keys, block, /*gated=*/false));
  EncoderAttentionSpec spec;
  spec.shape.heads = causal.shape;
  spec.scaling = causal.scaling;
  if (!rotary) spec.shape.heads.rope_dims = 0;
  if (causal.shape.head_dim > kernels::kMaxSequenceHeadDim) {
    return unsupported("heads of " + std::to_string(causal.shape.head_dim) +
                       " elements; those of encoders have at most " +
                       std::to_string(kernels::kMaxSequenceHeadDim));
  }
  return spec;
}

std::unique_ptr<EncoderAttention> EncoderAttentionSpec::bind(const SubLayerBinding& to) const {
  const kernels::AttentionShape& heads = shape.heads;
  const int64_t q_dim = int64_t{heads.n_heads} * heads.head_dim;
  const int64_t kv_dim = int64_t{heads.n_kv_heads} * heads.head_dim;
  WeightBinder& weights = to.weights;
  auto attention = std::make_unique<EncoderAttention>();
  EncoderAttention& a = *attention;
  a.shape_ = shape;
  a.norm_eps_ = to.norm_eps;
  if (heads.rope_dims > 0) {
    a.shape_.heads.scale *= scaling.magnitude() * scaling.magnitude();
    if (scaling.scales()) {
      a.divisors_ = rope_divisors(scaling, heads.rope_dims, heads.rope_base);
      a.shape_.heads.rope_factors = a.divisors_.data();
    }
  }
  if (alibi_bias > 0) a.slopes_ = alibi_slopes(heads.n_heads, alibi_bias);
  const auto optional = [&](const char* name, int64_t n) {
    const std::string tensor = to.tensor(name);
    return weights.has(tensor) ? weights.vector(tensor, n) : nullptr;
  };
  const std::string fused = to.tensor("attn_qkv.weight");
  if (weights.has(fused) && !weights.has(to.tensor("attn_q.weight"))) {
    const WeightView all = weights.matrix(fused, q_dim + 2 * kv_dim, to.n_embd);
    a.q_.weight = all.rows_from(0, q_dim);
    a.k_.weight = all.rows_from(q_dim, kv_dim);
    a.v_.weight = all.rows_from(q_dim + kv_dim, kv_dim);
    if (const float* const bias = optional("attn_qkv.bias", q_dim + 2 * kv_dim)) {
      a.q_.bias = bias;
      a.k_.bias = bias + q_dim;
      a.v_.bias = bias + q_dim + kv_dim;
    }
  } else {
    a.q_ = {weights.matrix(to.tensor("attn_q.weight"), q_dim, to.n_embd),
            optional("attn_q.bias", q_dim)};
    a.k_ = {weights.matrix(to.tensor("attn_k.weight"), kv_dim, to.n_embd),
            optional("attn_k.bias", kv_dim)};
    a.v_ = {weights.matrix(to.tensor("attn_v.weight"), kv_dim, to.n_embd),
            optional("attn_v.bias", kv_dim)};
  }
  a.q_.norm = optional("attn_q_norm.weight", q_dim);
  a.q_.norm_bias = optional("attn_q_norm.bias", q_dim);
  a.k_.norm = optional("attn_k_norm.weight", kv_dim);
  a.k_.norm_bias = optional("attn_k_norm.bias", kv_dim);
  a.out_ = weights.matrix(to.tensor("attn_output.weight"), to.n_embd, q_dim);
  a.out_bias_ = optional("attn_output.bias", to.n_embd);
  return attention;
}

Status EncoderAttention::Projection::place(kernels::Ops& ops) {
  CHIMERE_TRY(weight, ops.place(weight));
  for (const float** values : {&bias, &norm, &norm_bias}) {
    if (*values == nullptr) continue;
    CHIMERE_TRY(*values, ops.place_floats(*values, weight.n_out));
  }
  return {};
}

void EncoderAttention::Projection::finish(kernels::Ops& ops, MatrixView y, float eps,
                                          kernels::StepRows rows) const {
  if (bias != nullptr) ops.add_bias(y, bias);
  if (norm != nullptr) ops.layer_norm(y, norm, norm_bias, eps, y, rows);
}

Status EncoderAttention::place(Placement& to) {
  for (Projection* p : {&q_, &k_, &v_}) CHIMERE_CHECK_OK(p->place(to.ops));
  CHIMERE_TRY(out_, to.ops.place(out_));
  if (out_bias_ != nullptr) {
    CHIMERE_TRY(out_bias_, to.ops.place_floats(out_bias_, out_.n_out));
  }
  if (slopes_.empty()) return {};
  CHIMERE_TRY(shape_.alibi_slopes,
              to.ops.place_floats(slopes_.data(), static_cast<int64_t>(slopes_.size())));
  return {};
}

EncoderAttention::Buffers EncoderAttention::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.q = at.matrix(rows, q_.weight.n_out);
  b.k = at.matrix(rows, k_.weight.n_out);
  b.v = at.matrix(rows, v_.weight.n_out);
  b.out = at.matrix(rows, q_.weight.n_out);
  return b;
}

void EncoderAttention::forward(const SubLayerRows& rows) const {
  kernels::Ops& ops = rows.ops;
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const kernels::LinearJob in[] = {{q_.weight, b.q}, {k_.weight, b.k}, {v_.weight, b.v}};
  ops.linear(rows.h, in);
  q_.finish(ops, b.q, norm_eps_, rows.h.rows);
  k_.finish(ops, b.k, norm_eps_, rows.h.rows);
  v_.finish(ops, b.v, norm_eps_, rows.h.rows);
  ops.attend_sequences(rows.batch, shape_, b.q, b.k, b.v, b.out);
  const kernels::LinearJob add_to_stream[] = {{out_, rows.x, /*accumulate=*/true, rows.scale}};
  ops.linear(b.out, add_to_stream);
  if (out_bias_ != nullptr) ops.add_bias(rows.x, out_bias_);
}

}  // namespace chimere::model
