#include "model/rank_head.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/model_spec.h"
#include "model/weight_binder.h"
#include "quant/quant.h"

namespace chimere::model {
namespace {

constexpr int64_t kMostOutputs = 2;

/// x · y in double; the sum has four partial sums.
double product(const float* x, std::span<const double> y) {
  double sums[4] = {};
  for (size_t i = 0; i < y.size(); ++i) sums[i % 4] += static_cast<double>(x[i]) * y[i];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

void layer_norm(std::span<double> x, std::span<const float> weight, double eps) {
  const auto n = static_cast<double>(x.size());
  double mean = 0;
  for (const double v : x) mean += v / n;
  double variance = 0;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  const double scale = 1 / std::sqrt(variance + eps);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean) * scale * weight[i];
}

}  // namespace

RankHead::Linear RankHead::bind_linear(const char* name, int64_t n_out, int64_t n_in,
                                       WeightBinder& weights) {
  Linear linear;
  const std::string tensor = std::string(name) + ".weight";
  if (!weights.has(tensor)) return linear;
  const WeightView w = weights.matrix(tensor, n_out, n_in);
  linear.n_out = static_cast<size_t>(n_out);
  linear.weight.resize(static_cast<size_t>(w.n_out * w.n_in));
  for (int64_t r = 0; r < w.n_out; ++r) {
    quant::decode(w.type, w.row(r), linear.weight.data() + r * w.n_in, w.n_in);
  }
  const std::string bias = std::string(name) + ".bias";
  if (!weights.has(bias)) return linear;
  if (const float* const b = weights.vector(bias, n_out)) linear.bias.assign(b, b + n_out);
  return linear;
}

std::unique_ptr<RankHead> RankHead::bind(const ModelSpec& model, WeightBinder& weights) {
  auto head = std::make_unique<RankHead>();
  const bool modern = model.architecture == "modern-bert";
  head->input_ = !model.encoder ? Pooling::kLast : modern ? Pooling::kMean : Pooling::kCls;
  head->gelu_ = modern;
  head->norm_eps_ = model.norm_eps;
  const auto outputs_of = [&](const char* name) {
    return std::clamp<int64_t>(weights.rows_of(name), 1, kMostOutputs);
  };
  const bool has_output = weights.has("cls.output.weight");
  if (!has_output && !weights.has("cls.weight")) {
    weights.add_problem("pooling_type is rank (4), but there is no cls.output.weight");
    return head;
  }
  head->dense_ = bind_linear("cls", has_output ? model.n_embd : outputs_of("cls.weight"),
                             model.n_embd, weights);
  if (!has_output) return head;
  const char* const norm = "cls.norm.weight";
  if (head->dense_.n_out > 0 && weights.has(norm)) {
    const float* const values = weights.vector(norm, model.n_embd);
    if (values != nullptr) head->norm_.assign(values, values + model.n_embd);
  }
  head->output_ = bind_linear("cls.output", outputs_of("cls.output.weight"), model.n_embd, weights);
  return head;
}

size_t RankHead::outputs() const { return output_.n_out > 0 ? output_.n_out : dense_.n_out; }

std::vector<double> RankHead::Linear::apply(std::span<const double> x) const {
  std::vector<double> y(n_out);
  for (size_t r = 0; r < n_out; ++r) {
    y[r] = product(weight.data() + r * x.size(), x) + (bias.empty() ? 0 : bias[r]);
  }
  return y;
}

std::vector<double> RankHead::logits(std::span<const double> hidden) const {
  std::vector<double> x(hidden.begin(), hidden.end());
  if (dense_.n_out > 0) {
    x = dense_.apply(x);
    for (double& v : x) v = gelu_ ? v * std::erfc(-v / std::sqrt(2.0)) / 2 : std::tanh(v);
    if (!norm_.empty()) layer_norm(x, norm_, norm_eps_);
  }
  return output_.n_out > 0 ? output_.apply(x) : x;
}

double RankHead::probability(std::span<const double> logits) {
  const double other = logits.size() > 1 ? logits[1] : 0;
  return 1 / (1 + std::exp(other - logits[0]));
}

}  // namespace chimere::model
