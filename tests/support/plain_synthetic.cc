#include "support/plain_synthetic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace chimere::test {
namespace {

using Vector = std::vector<double>;

constexpr double kEps = 1e-6;
constexpr int kExperts = 8;
constexpr int kUsed = 3;
constexpr int kGroups = 4;
constexpr int kGroupsUsed = 2;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}
double relu_squared(double x) { return x > 0 ? x * x : 0; }

/// RMS norm of n elements in place, times `weight`.
void normalise(double* x, int n, const float* weight) {
  double squares = 0;
  for (int i = 0; i < n; ++i) squares += x[i] * x[i];
  for (int i = 0; i < n; ++i) x[i] *= weight[i] / std::sqrt(squares / n + kEps);
}

Vector normalised(Vector x, const float* weight) {
  normalise(x.data(), static_cast<int>(x.size()), weight);
  return x;
}

void rotate(double* x, int dims, int position) {
  for (int i = 0; i < dims / 2; ++i) {
    const double angle = position * std::pow(1e4, -2.0 * i / dims);
    const double a = x[i];
    const double b = x[i + dims / 2];
    x[i] = a * std::cos(angle) - b * std::sin(angle);
    x[i + dims / 2] = b * std::cos(angle) + a * std::sin(angle);
  }
}

void add(Vector& x, const Vector& y, double scale) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += scale * y[i];
}

/// Indices of the `n` largest, ties to the lower one.
std::vector<int> largest(const Vector& values, int n) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return values[a] > values[b]; });
  order.resize(static_cast<size_t>(n));
  return order;
}

template <typename F>
Vector gated(const F& f, const Vector& gate, Vector up) {
  for (size_t i = 0; i < up.size(); ++i) up[i] *= f(gate[i]);
  return up;
}

template <typename F>
Vector ungated(const F& f, Vector up) {
  for (double& x : up) x = f(x);
  return up;
}

}  // namespace

const float* PlainSynthetic::tensor(int block, const std::string& name) const {
  const std::string full = block < 0 ? name : "blk." + std::to_string(block) + "." + name;
  return static_cast<const float*>(file_.find_tensor(full)->data);
}

Vector PlainSynthetic::multiply(const float* w, const Vector& x, int n_out) const {
  Vector y(static_cast<size_t>(n_out));
  for (double& sum : y) {
    for (const double v : x) sum += *w++ * v;
  }
  return y;
}

Vector PlainSynthetic::attention(int block, const AttentionShape& shape, const Vector& h) {
  const int dim = m_.head_dim;
  const int stride = shape.gated ? 2 * dim : dim;
  Vector q = multiply(block, "attn_q.weight", h, m_.n_heads * stride);
  Vector k = multiply(block, "attn_k.weight", h, shape.n_kv_heads * dim);
  for (int i = 0; i < m_.n_heads; ++i) {
    double* const head = q.data() + static_cast<ptrdiff_t>(i) * stride;
    if (shape.norms) normalise(head, dim, tensor(block, "attn_q_norm.weight"));
    rotate(head, shape.rope_dims, position_);
  }
  for (int i = 0; i < shape.n_kv_heads; ++i) {
    double* const head = k.data() + static_cast<ptrdiff_t>(i) * dim;
    if (shape.norms) normalise(head, dim, tensor(block, "attn_k_norm.weight"));
    rotate(head, shape.rope_dims, position_);
  }
  keys_[block].push_back(k);
  values_[block].push_back(multiply(block, "attn_v.weight", h, shape.n_kv_heads * dim));
  Vector out(static_cast<size_t>(m_.n_heads * dim));
  for (int i = 0; i < m_.n_heads; ++i) {
    const int kv = i / (m_.n_heads / shape.n_kv_heads) * dim;
    Vector weights;
    for (const Vector& key : keys_[block]) {
      double score = 0;
      for (int d = 0; d < dim; ++d) score += q[i * stride + d] * key[kv + d];
      weights.push_back(std::exp(score * shape.scale));
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (int d = 0; d < dim; ++d) {
      double& o = out[i * dim + d];
      for (size_t p = 0; p < weights.size(); ++p) {
        o += weights[p] / sum * values_[block][p][kv + d];
      }
      if (shape.gated) o *= sigmoid(q[i * stride + dim + d]);
    }
  }
  return multiply(block, "attn_output.weight", out, m_.n_embd);
}

Vector PlainSynthetic::delta_net(int block, const Vector& h) {
  const int dim = m_.state_dim;
  const int key_dim = m_.n_k_heads * dim;
  const int value_dim = m_.n_v_heads * dim;
  const int conv_dim = 2 * key_dim + value_dim;
  DeltaNetState& state = states_[block];
  if (state.heads.empty()) {
    state.inputs.assign(3, Vector(static_cast<size_t>(conv_dim)));
    state.heads.assign(static_cast<size_t>(m_.n_v_heads), Vector(static_cast<size_t>(dim * dim)));
  }
  state.inputs.push_back(multiply(block, "attn_qkv.weight", h, conv_dim));
  const float* const conv = tensor(block, "ssm_conv1d.weight");
  Vector qkv(static_cast<size_t>(conv_dim));
  for (int c = 0; c < conv_dim; ++c) {
    double sum = 0;
    for (int t = 0; t < 4; ++t) sum += conv[c * 4 + t] * state.inputs[t][c];
    qkv[c] = silu(sum);
  }
  state.inputs.erase(state.inputs.begin());
  for (int i = 0; i < 2 * m_.n_k_heads; ++i) {
    double squares = 0;
    for (int d = 0; d < dim; ++d) squares += qkv[i * dim + d] * qkv[i * dim + d];
    for (int d = 0; d < dim; ++d) qkv[i * dim + d] /= std::sqrt(squares + kEps);
  }
  const Vector alpha = multiply(block, "ssm_alpha.weight", h, m_.n_v_heads);
  const Vector beta = multiply(block, "ssm_beta.weight", h, m_.n_v_heads);
  const Vector z = multiply(block, "attn_gate.weight", h, value_dim);
  Vector out(static_cast<size_t>(value_dim));
  for (int i = 0; i < m_.n_v_heads; ++i) {
    const double* const q = qkv.data() + static_cast<ptrdiff_t>(i % m_.n_k_heads) * dim;
    const double* const k = q + key_dim;
    const double* const v = qkv.data() + 2 * key_dim + static_cast<ptrdiff_t>(i) * dim;
    Vector& s = state.heads[i];  // [k, v]
    const double x = alpha[i] + tensor(block, "ssm_dt.bias")[i];
    const double decay = std::exp(tensor(block, "ssm_a")[i] * std::log1p(std::exp(x)));
    for (double& cell : s) cell *= decay;
    for (int d = 0; d < dim; ++d) {
      double stored = 0;
      for (int r = 0; r < dim; ++r) stored += k[r] * s[r * dim + d];
      const double change = sigmoid(beta[i]) * (v[d] - stored);
      for (int r = 0; r < dim; ++r) s[r * dim + d] += k[r] * change;
      for (int r = 0; r < dim; ++r) {
        out[i * dim + d] += q[r] / std::sqrt(static_cast<double>(dim)) * s[r * dim + d];
      }
    }
    normalise(out.data() + static_cast<ptrdiff_t>(i) * dim, dim, tensor(block, "ssm_norm.weight"));
  }
  for (int d = 0; d < value_dim; ++d) out[d] *= silu(z[d]);
  return multiply(block, "ssm_out.weight", out, m_.n_embd);
}

Vector PlainSynthetic::experts(int block, bool gates, bool shared, const Vector& h) const {
  Vector scores = multiply(block, "ffn_gate_inp.weight", h, kExperts);
  for (double& s : scores) s = sigmoid(s);
  Vector biased = scores;
  for (int e = 0; e < kExperts; ++e) biased[e] += tensor(block, "exp_probs_b.bias")[e];
  // Groups of two: the sum of a group's two largest is the sum of its experts.
  Vector of_group;
  for (int g = 0; g < kGroups; ++g) of_group.push_back(biased[2 * g] + biased[2 * g + 1]);
  const std::vector<int> groups = largest(of_group, kGroupsUsed);
  for (int e = 0; e < kExperts; ++e) {
    if (std::ranges::find(groups, e / 2) == groups.end()) biased[e] = -1e9;
  }
  const std::vector<int> chosen = largest(biased, kUsed);
  double sum = 0;
  for (const int e : chosen) sum += scores[e];
  Vector out(h.size());
  for (const int e : chosen) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(e) * m_.n_ff * m_.n_embd;
    const Vector up = multiply(tensor(block, "ffn_up_exps.weight") + at, h, m_.n_ff);
    const Vector inner =
        gates ? gated(silu, multiply(tensor(block, "ffn_gate_exps.weight") + at, h, m_.n_ff), up)
              : ungated(gelu, up);
    add(out, multiply(tensor(block, "ffn_down_exps.weight") + at, inner, m_.n_embd),
        1.5 * scores[e] / sum);
  }
  if (!shared) return out;
  const Vector inner = gated(silu, multiply(block, "ffn_gate_shexp.weight", h, m_.n_ff_shared),
                             multiply(block, "ffn_up_shexp.weight", h, m_.n_ff_shared));
  add(out, multiply(block, "ffn_down_shexp.weight", inner, m_.n_embd), 1);
  return out;
}

Vector PlainSynthetic::step(int32_t token) {
  const float* const embedding = tensor(-1, "token_embd.weight");
  const float* const row = embedding + static_cast<ptrdiff_t>(token) * m_.n_embd;
  Vector x(row, row + m_.n_embd);
  for (double& v : x) v *= 3;
  const double scale = 1 / std::sqrt(static_cast<double>(m_.head_dim));
  const auto up = [&](int block, const Vector& h, int n) {
    return multiply(block, "ffn_up.weight", h, n);
  };
  const auto gate = [&](int block, const Vector& h) {
    return multiply(block, "ffn_gate.weight", h, m_.n_ff);
  };
  const auto down = [&](int block, const Vector& inner) {
    return multiply(block, "ffn_down.weight", inner, m_.n_embd);
  };

  Vector h = normalised(x, tensor(0, "attn_norm.weight"));
  add(x, attention(0, {m_.n_kv_heads, true, true, m_.rope_dims, scale}, h), 0.5);
  add(x, delta_net(0, h), 0.5);

  h = normalised(x, tensor(1, "ffn_norm.weight"));
  add(x, down(1, ungated(relu_squared, up(1, h, 2 * m_.n_ff))), 1);

  h = normalised(x, tensor(2, "attn_norm.weight"));
  add(x, attention(2, {m_.n_heads, false, false, 0, 0.2}, h), 0.5);
  h = normalised(x, tensor(2, "ffn_norm.weight"));
  add(x, experts(2, /*gates=*/true, /*shared=*/true, h), 0.5);

  h = normalised(x, tensor(3, "attn_norm.weight"));
  add(x, attention(3, {1, false, true, m_.rope_dims, scale}, h), 1);
  h = normalised(x, tensor(3, "ffn_norm.weight"));
  add(x, experts(3, /*gates=*/false, /*shared=*/false, h), 1);

  h = normalised(x, tensor(4, "attn_norm.weight"));
  add(x, delta_net(4, h), 1);
  add(x, down(4, gated(silu, gate(4, h), up(4, h, m_.n_ff))), 1);

  h = normalised(x, tensor(5, "ffn_norm.weight"));
  add(x, down(5, gated(gelu, gate(5, h), up(5, h, m_.n_ff))), 0.5);

  ++position_;
  const bool tied = file_.find_tensor("output.weight") == nullptr;
  Vector logits = multiply(tied ? embedding : tensor(-1, "output.weight"),
                           normalised(x, tensor(-1, "output_norm.weight")), m_.n_vocab);
  for (double& l : logits) l *= 0.25;
  return logits;
}

}  // namespace chimere::test
