#include "optimizer.h"

#include <algorithm>
#include <cmath>

namespace chimere::train {
namespace {

using torch::Tensor;

constexpr double kMomentum = 0.95, kBeta1 = 0.9, kBeta2 = 0.95, kAdamEps = 1e-10;
constexpr double kMuonScale = 0.2;  // about the root mean square of an Adam update

/// Matrices of the blocks: mixers, experts, projections. Routers and per-head gates are small and
/// stay with Adam.
bool is_hidden_matrix(const std::string& name) {
  for (const char* part : {"attn_qkv.", "attn_gate.", "ssm_out.", "attn_q.", "attn_k.", "attn_v.",
                           "attn_output.", "_exps.", "gate_shexp.", "up_shexp.", "down_shexp.",
                           "eh_proj.", "fc.weight", "ffn_gate.", "ffn_up.", "ffn_down."}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

/// Moves the singular values of each [m, n] matrix of a batch towards 1. The quintic's coefficients
/// are those of Jordan et al.: the steepest slope at 0 whose fixed band stays near 1.
Tensor orthogonalise(const Tensor& batch) {
  const bool tall = batch.size(1) > batch.size(2);
  Tensor x = tall ? batch.transpose(1, 2) : batch;
  x = x / (x.norm(2, {1, 2}, true) + 1e-7);
  if (x.is_cuda()) x = x.to(torch::kBFloat16);
  for (int i = 0; i < 5; ++i) {
    const Tensor a = torch::bmm(x, x.transpose(1, 2));
    const Tensor b = torch::baddbmm(a, a, a, -4.7750, 2.0315);
    x = torch::baddbmm(x, b, x, 3.4445, 1.0);
  }
  return (tall ? x.transpose(1, 2) : x).to(torch::kFloat);
}

}  // namespace

double learning_rate(const Recipe& recipe, int64_t step) {
  const double warm = std::min(1.0, double(step + 1) / double(std::max<int64_t>(1, recipe.warmup)));
  const double from = std::max(double(recipe.warmup), recipe.decay_from * double(recipe.steps));
  const double left = double(recipe.steps - step) / std::max(1.0, double(recipe.steps) - from);
  return recipe.learning_rate * std::min(warm, std::clamp(left, 0.0, 1.0));
}

double pull_share(const Recipe& recipe, int64_t step) {
  const double from = std::max(recipe.pull_from, recipe.quantise_from) * double(recipe.steps);
  const double done = double(step + 1) - from;
  return recipe.pull * std::clamp(done / std::max(1.0, double(recipe.steps) - from), 0.0, 1.0);
}

Optimizer::Optimizer(std::map<std::string, Tensor>& parameters, const Recipe& recipe)
    : parameters_(parameters), recipe_(recipe) {
  std::map<std::vector<int64_t>, std::vector<std::string>> by_shape;
  for (auto& [name, value] : parameters_) {
    state_["first." + name] = torch::zeros_like(value).detach();
    if (is_hidden_matrix(name)) {
      by_shape[{value.size(-2), value.size(-1)}].push_back(name);
    } else {
      state_["second." + name] = torch::zeros_like(value).detach();
      adam_names_.push_back(name);
    }
  }
  for (auto& [shape, names] : by_shape) muon_groups_.push_back(names);
}

void Optimizer::clear_gradients() {
  for (auto& [name, value] : parameters_) value.mutable_grad() = Tensor();
}

Tensor Optimizer::step(double rate) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> norms;
  for (auto& [name, value] : parameters_) {
    if (value.grad().defined()) norms.push_back(value.grad().norm());
  }
  const Tensor norm = torch::stack(norms).norm();
  const Tensor factor = (recipe_.clip / norm).clamp_max(1.0).nan_to_num(0.0);
  for (auto& [name, value] : parameters_) {
    if (value.grad().defined()) value.mutable_grad().nan_to_num_(0.0, 0.0, 0.0).mul_(factor);
  }
  ++count_;
  for (const auto& names : muon_groups_) muon(names, rate);
  for (const auto& name : adam_names_) adam(name, rate);
  clear_gradients();
  return norm;
}

void Optimizer::muon(const std::vector<std::string>& names, double rate) {
  std::vector<Tensor> directions;
  for (const auto& name : names) {
    Tensor& value = parameters_.at(name);
    Tensor& momentum = state_.at("first." + name);
    momentum.mul_(kMomentum).add_(value.grad(), 1 - kMomentum);
    const Tensor look_ahead = value.grad().lerp(momentum, kMomentum);
    directions.push_back(look_ahead.view({-1, value.size(-2), value.size(-1)}));
  }
  const Tensor update = orthogonalise(torch::cat(directions));
  const double size = kMuonScale * std::sqrt(double(std::max(update.size(1), update.size(2))));
  int64_t at = 0;
  for (const auto& name : names) {
    Tensor& value = parameters_.at(name);
    const int64_t n = value.dim() == 3 ? value.size(0) : 1;
    value.mul_(1 - rate * recipe_.weight_decay)
        .add_(update.narrow(0, at, n).view(value.sizes()), -rate * size);
    at += n;
  }
}

void Optimizer::adam(const std::string& name, double rate) {
  Tensor& value = parameters_.at(name);
  if (!value.grad().defined()) return;
  Tensor &first = state_.at("first." + name), &second = state_.at("second." + name);
  first.lerp_(value.grad(), 1 - kBeta1);
  second.mul_(kBeta2).addcmul_(value.grad(), value.grad(), 1 - kBeta2);
  const double correct1 = 1 - std::pow(kBeta1, double(count_));
  const double correct2 = 1 - std::pow(kBeta2, double(count_));
  const Tensor denominator = (second / correct2).sqrt_().add_(kAdamEps);
  value.addcdiv_(first, denominator, -rate / correct1);
}

}  // namespace chimere::train
