#include "model/layers/self_attention.h"

#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace chimere::model {
namespace {

constexpr float kDefaultRopeBase = 1e4F;  // of the GGUF format

const float* bind_rope_factors(WeightBinder& weights, const std::string& name, int rope_dims) {
  const int n = rope_dims / 2;
  const float* const factors = weights.vector(name, n);
  for (int i = 0; factors != nullptr && i < n; ++i) {
    if (factors[i] >= kMinRopeDivisor && factors[i] <= kMaxRopeDivisor) continue;
    weights.add_problem(name + "[" + std::to_string(i) + "] is " + std::to_string(factors[i]) +
                        ", which cannot divide a frequency");
    break;
  }
  return factors;
}

/// The rows of `heads` heads in the order that RopePairs::kHalves has them.
std::vector<int64_t> rows_in_halves(const kernels::AttentionShape& shape, int heads) {
  std::vector<int64_t> rows;
  for (int head = 0; head < heads; ++head) {
    const int64_t first = static_cast<int64_t>(head) * shape.head_dim;
    for (int half = 0; half < 2; ++half) {
      for (int i = half; i < shape.rope_dims; i += 2) rows.push_back(first + i);
    }
    for (int i = shape.rope_dims; i < shape.head_dim; ++i) rows.push_back(first + i);
  }
  return rows;
}

/// begin .. begin + n - 1
std::vector<int64_t> rows_from(int64_t begin, int64_t n) {
  std::vector<int64_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

std::vector<int64_t> shifted(std::vector<int64_t> rows, int64_t by) {
  for (int64_t& row : rows) row += by;
  return rows;
}

/// Binds the biases of a projection, in the order of `rows`, or as they are if that is empty.
const float* bind_bias(WeightBinder& weights, const std::string& name, int64_t n,
                       const std::vector<int64_t>& rows,
                       std::vector<std::vector<float>>& reordered) {
  const float* const bias = weights.vector(name, n);
  if (bias == nullptr || rows.empty()) return bias;
  std::vector<float> copy;
  copy.reserve(rows.size());
  for (const int64_t row : rows) copy.push_back(bias[row]);
  reordered.push_back(std::move(copy));
  return reordered.back().data();
}

const float* scaled_bias(const float* bias, int64_t n, float scale,
                         std::vector<std::vector<float>>& memory) {
  if (bias == nullptr || scale == 1) return bias;
  std::vector<float>& copy = memory.emplace_back(bias, bias + n);
  for (float& b : copy) b = b * scale;
  return copy.data();
}

}  // namespace

Result<AttentionSpec> read_attention(const Keys& keys, int block, bool gated, Window window) {
  kernels::AttentionShape a;
  a.gated = gated;
  CHIMERE_TRY(a.n_heads, keys.integer_of_block("attention.head_count", block, 1, kMaxHeads));
  a.n_kv_heads = a.n_heads;
  if (keys.has("attention.head_count_kv")) {
    CHIMERE_TRY(a.n_kv_heads,
                keys.integer_of_block("attention.head_count_kv", block, 1, a.n_heads));
  }
  CHIMERE_TRY(const int n_embd, keys.integer("embedding_length", 1, kMaxWidth));
  CHIMERE_TRY(a.head_dim, keys.head_dim_or("attention.key_length", n_embd / a.n_heads));
  CHIMERE_TRY(const int value_dim,
              keys.integer_or("attention.value_length", a.head_dim, 1, kMaxWidth));
  if (gated) {
    CHIMERE_TRY(a.rope_dims, keys.integer("rope.dimension_count", 2, a.head_dim));
  } else {  // whole heads are rotated unless the file says otherwise
    CHIMERE_TRY(a.rope_dims, keys.integer_or("rope.dimension_count", a.head_dim, 2, a.head_dim));
  }
  CHIMERE_TRY(a.rope_base, keys.positive_or("rope.freq_base", kDefaultRopeBase));
  if (keys.rope().freq_base) a.rope_base = *keys.rope().freq_base;
  if (window == Window::kOfFile) {
    CHIMERE_TRY(a.window, keys.integer_or("attention.sliding_window", 0, 0, kMaxWindow));
  }
  CHIMERE_TRY(a.scale, keys.multiplier_or("attention.scale",
                                          1.0F / std::sqrt(static_cast<float>(a.head_dim))));
  if (a.n_heads % a.n_kv_heads != 0) {
    return invalid_data(keys.name("attention.head_count") + " (" + std::to_string(a.n_heads) +
                        ") must be a multiple of " + keys.name("attention.head_count_kv") + " (" +
                        std::to_string(a.n_kv_heads) + ")");
  }
  if (value_dim != a.head_dim) {
    return unsupported(keys.name("attention.key_length") + " is " + std::to_string(a.head_dim) +
                       ", " + keys.name("attention.value_length") + " " +
                       std::to_string(value_dim) + "; keys and values must have the same length");
  }
  if (a.rope_dims % 2 != 0) {
    return invalid_data(keys.name("rope.dimension_count") + " must be even");
  }
  // Frequencies above 1 would be outside of the range of the rotations' series.
  if (a.rope_base <= 1) return invalid_data(keys.name("rope.freq_base") + " must be above 1");
  CHIMERE_TRY(const RopeScaling scaling, read_rope_scaling(keys));
  return AttentionSpec{
      .shape = a, .scaling = scaling, .user_base = keys.rope().freq_base.has_value()};
}

Result<AttentionSpec> read_llama_attention(const Keys& keys, int block) {
  CHIMERE_TRY(AttentionSpec spec, read_attention(keys, block, /*gated=*/false, Window::kOfFile));
  spec.qk_norm = false;
  spec.rope_pairs = RopePairs::kAdjacent;
  spec.bias = QkvBias::kOptional;
  spec.rope_freqs = true;
  return spec;
}

std::unique_ptr<SelfAttention> AttentionSpec::bind(const SubLayerBinding& to) const {
  const int64_t out_dim = int64_t{shape.n_heads} * shape.head_dim;
  const int64_t q_dim = int64_t{shape.n_heads} * shape.query_stride();
  const int64_t kv_dim = int64_t{shape.n_kv_heads} * shape.head_dim;
  WeightBinder& weights = to.weights;
  auto attention = std::make_unique<SelfAttention>();
  attention->shape_ = shape;
  // Of heads that are rotated as a whole, queries and keys are not multiplied by the magnitude, but
  // their scores by its square. Of others, the elements that are rotated are multiplied: by the
  // heads' norms, or without norms by an op of their own.
  const float magnitude = shape.rope_dims > 0 ? scaling.magnitude() : 1;
  const bool partly = magnitude != 1 && shape.rope_dims < shape.head_dim;
  if (!partly) attention->shape_.scale *= magnitude * magnitude;
  if (partly && !qk_norm) attention->rotated_scale_ = magnitude;
  attention->block_ = to.block;
  attention->norm_eps_ = to.norm_eps;
  if (shape.rope_dims > 0) bind_rope(*this, weights, attention->shape_, attention->divisors_);
  const bool reorders = rope_pairs == RopePairs::kAdjacent && shape.rope_dims > 0;
  const auto rows_of = [&](int heads) {
    return reorders ? rows_in_halves(shape, heads) : std::vector<int64_t>();
  };
  const std::vector<int64_t> q_rows = rows_of(shape.n_heads);
  const std::vector<int64_t> k_rows = rows_of(shape.n_kv_heads);
  const std::string fused = to.tensor("attn_qkv.weight");
  const bool is_fused = weights.has(fused) && !weights.has(to.tensor("attn_q.weight"));
  if (is_fused && reorders) {
    const std::vector<int64_t> v_rows = rows_from(0, kv_dim);
    const auto part = [&](int64_t begin, const std::vector<int64_t>& rows) {
      return weights.gathered(fused, q_dim + 2 * kv_dim, to.n_embd, shifted(rows, begin));
    };
    attention->qg_ = part(0, q_rows);
    attention->k_ = part(q_dim, k_rows);
    attention->v_ = part(q_dim + kv_dim, v_rows);
  } else if (is_fused) {
    const WeightView all = weights.matrix(fused, q_dim + 2 * kv_dim, to.n_embd);
    attention->qg_ = all.rows_from(0, q_dim);
    attention->k_ = all.rows_from(q_dim, kv_dim);
    attention->v_ = all.rows_from(q_dim + kv_dim, kv_dim);
  } else {
    const auto projection = [&](const char* name, int64_t n, const std::vector<int64_t>& rows) {
      return rows.empty() ? weights.matrix(to.tensor(name), n, to.n_embd)
                          : weights.gathered(to.tensor(name), n, to.n_embd, rows);
    };
    attention->qg_ = projection("attn_q.weight", q_dim, q_rows);
    attention->k_ = projection("attn_k.weight", kv_dim, k_rows);
    attention->v_ = projection("attn_v.weight", kv_dim, {});
  }
  if (bias == QkvBias::kRequired ||
      (bias == QkvBias::kOptional && weights.has(to.tensor("attn_q.bias")))) {
    const auto vector = [&](const char* name, int64_t n, const std::vector<int64_t>& rows) {
      return bind_bias(weights, to.tensor(name), n, rows, attention->reordered_);
    };
    attention->q_bias_ = vector("attn_q.bias", q_dim, q_rows);
    attention->k_bias_ = vector("attn_k.bias", kv_dim, k_rows);
    attention->v_bias_ = vector("attn_v.bias", kv_dim, {});
  }
  attention->out_ = weights.matrix(to.tensor("attn_output.weight"), to.n_embd, out_dim);
  if (const std::string name = to.tensor("attn_output.bias"); weights.has(name)) {
    attention->out_bias_ =
        scaled_bias(weights.vector(name, to.n_embd), to.n_embd, to.scale, attention->reordered_);
  }
  if (sinks) attention->sinks_ = weights.vector(to.tensor("attn_sinks.weight"), shape.n_heads);
  if (!qk_norm) return attention;
  const auto norm = [&](const char* name) {
    const float* const values = weights.vector(to.tensor(name), shape.head_dim);
    if (!partly || values == nullptr) return values;
    std::vector<float>& copy = attention->reordered_.emplace_back(values, values + shape.head_dim);
    for (int i = 0; i < shape.rope_dims; ++i) copy[static_cast<size_t>(i)] *= magnitude;
    return static_cast<const float*>(copy.data());
  };
  attention->q_norm_ = norm("attn_q_norm.weight");
  attention->k_norm_ = norm("attn_k_norm.weight");
  return attention;
}

void bind_rope(const AttentionSpec& spec, WeightBinder& weights, kernels::AttentionShape& shape,
               std::vector<float>& memory) {
  const RopeScaling& scaling = spec.scaling;
  const int dims = spec.shape.rope_dims;
  const std::string freqs = "rope_freqs.weight";
  if (scaling.type == RopeScalingType::kLongrope) {
    const std::string names[] = {"rope_factors_short.weight", "rope_factors_long.weight"};
    const float* const factors[] = {bind_rope_factors(weights, names[0], dims),
                                    bind_rope_factors(weights, names[1], dims)};
    shape.rope_factors = factors[scaling.is_long() ? 1 : 0];
  } else if (scaling.scales()) {
    memory = rope_divisors(scaling, dims, shape.rope_base);
    shape.rope_factors = memory.data();
  }
  if (spec.rope_freqs && weights.has(freqs)) {
    const float* const factors = bind_rope_factors(weights, freqs, dims);
    if (scaling.scales() && !scaling.user) {
      weights.add_problem(freqs + " and rope.scaling.factor exclude each other");
    }
    if (memory.empty()) {
      shape.rope_factors = factors;
    } else if (factors != nullptr) {  // the user's scaling comes on top of Llama 3.1's
      for (size_t i = 0; i < memory.size(); ++i) memory[i] *= factors[i];
    }
  }
  if (!scaling.user && !spec.user_base) return;
  weights.depend_on("rope.freq_base", shape.rope_base);
  weights.depend_on("rope.magnitude", scaling.magnitude());
  for (int i = 0; i < dims / 2 && shape.rope_factors != nullptr; ++i) {
    weights.depend_on("rope.divisor." + std::to_string(i), shape.rope_factors[i]);
  }
}

Status SelfAttention::place(Placement& to) {
  for (WeightView* w : {&qg_, &k_, &v_, &out_}) {
    CHIMERE_TRY(*w, to.ops.place(*w));
  }
  for (const float** norm : {&q_norm_, &k_norm_}) {
    if (*norm == nullptr) continue;
    CHIMERE_TRY(*norm, to.ops.place_floats(*norm, shape_.head_dim));
  }
  if (out_bias_ != nullptr) {
    CHIMERE_TRY(out_bias_, to.ops.place_floats(out_bias_, out_.n_out));
  }
  if (sinks_ != nullptr) {
    CHIMERE_TRY(shape_.sinks, to.ops.place_floats(sinks_, shape_.n_heads));
  }
  if (q_bias_ == nullptr) return {};
  CHIMERE_TRY(q_bias_, to.ops.place_floats(q_bias_, qg_.n_out));
  CHIMERE_TRY(k_bias_, to.ops.place_floats(k_bias_, k_.n_out));
  CHIMERE_TRY(v_bias_, to.ops.place_floats(v_bias_, v_.n_out));
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

SelfAttention::Buffers SelfAttention::append_buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.qg = at.matrix(rows, int64_t{shape_.n_kv_heads} * shape_.query_stride());
  b.k = at.matrix(rows, int64_t{shape_.n_kv_heads} * shape_.head_dim);
  b.v = at.matrix(rows, int64_t{shape_.n_kv_heads} * shape_.head_dim);
  return b;
}

GpuScratch SelfAttention::gpu_scratch() const {
  return {.widest = int64_t{shape_.n_heads} * shape_.head_dim};
}

void SelfAttention::add_biases(kernels::Ops& ops, const Buffers& b) const {
  if (q_bias_ == nullptr) return;
  ops.add_bias(b.qg, q_bias_);
  ops.add_bias(b.k, k_bias_);
  ops.add_bias(b.v, v_bias_);
}

void SelfAttention::scale_rotated(kernels::Ops& ops, const MatrixView& heads, int count,
                                  int stride) const {
  if (rotated_scale_ == 1) return;
  for (int64_t head = 0; head < count; ++head) {
    ops.scale({heads.data + head * stride, heads.rows, shape_.rope_dims, heads.stride},
              rotated_scale_);
  }
}

void SelfAttention::forward(const SubLayerRows& rows) const {
  kernels::Ops& ops = rows.ops;
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const kernels::LinearJob in[] = {{qg_, b.qg}, {k_, b.k}, {v_, b.v}};
  ops.linear(rows.h, in);
  add_biases(ops, b);
  scale_rotated(ops, b.qg, shape_.n_heads, shape_.query_stride());
  scale_rotated(ops, b.k, shape_.n_kv_heads, shape_.head_dim);
  ops.qk_norm_rope_append(rows.batch, shape_, q_norm_, k_norm_, norm_eps_, b.qg, b.k, b.v, kv_);
  const kernels::Operand attended = ops.attend(rows.batch, shape_, b.qg, kv_, b.out);
  const kernels::LinearJob add_to_stream[] = {{out_, rows.x, /*accumulate=*/true, rows.scale}};
  ops.linear(attended, add_to_stream);
  if (out_bias_ != nullptr) ops.add_bias(rows.x, out_bias_);
}

void SelfAttention::project_append(const SubLayerRows& rows,
                                   std::vector<kernels::LinearJob>& jobs) const {
  BufferLayout at = rows.buffers;
  const Buffers b = append_buffers(at, rows.h.x.rows);
  jobs.push_back({k_, b.k});
  jobs.push_back({v_, b.v});
}

void SelfAttention::append(const SubLayerRows& rows) const {
  BufferLayout at = rows.buffers;
  const Buffers b = append_buffers(at, rows.h.x.rows);
  if (k_bias_ != nullptr) {
    rows.ops.add_bias(b.k, k_bias_);
    rows.ops.add_bias(b.v, v_bias_);
  }
  scale_rotated(rows.ops, b.k, shape_.n_kv_heads, shape_.head_dim);
  // The op rotates queries too, whatever they contain.
  kernels::AttentionShape shape = shape_;
  shape.n_heads = shape.n_kv_heads;
  rows.ops.qk_norm_rope_append(rows.batch, shape, q_norm_, k_norm_, norm_eps_, b.qg, b.k, b.v, kv_);
}

}  // namespace chimere::model
