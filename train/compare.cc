#include "compare.h"

#include <cstdio>

#include "model.h"

namespace chimere::train {
namespace {

using torch::Tensor;

std::map<std::string, Tensor> gradients(const ModelConfig& config, const Tensor& tokens,
                                        torch::Device device, torch::Dtype compute) {
  Model model(config, 1, device, compute);
  const Tensor in = tokens.to(device);
  const auto shifted = [&](int64_t by) { return in.narrow(1, by, in.size(1) - 2); };
  Forward f = model.forward(shifted(0));
  Tensor loss = model.cross_entropy(f.hidden, shifted(1));
  loss = loss + model.cross_entropy(model.forward_mtp(f.hidden, shifted(1), f), shifted(2)) +
         f.balance + f.router_z;
  loss.backward();
  std::map<std::string, Tensor> out{{"loss", loss.detach().cpu().to(torch::kFloat)}};
  for (const auto& [name, value] : model.parameters()) out[name] = value.grad().cpu();
  return out;
}

}  // namespace

void compare_devices(ModelConfig config, torch::Device device, torch::Dtype compute) {
  torch::manual_seed(2);
  // All experts are chosen: a routing decision changed by rounding would hide kernel errors.
  config.n_expert = config.n_expert_used = 2;
  const Tensor tokens = torch::randint(config.n_vocab, {2, 152}, torch::kInt64);
  const auto exact = gradients(config, tokens, torch::kCPU, torch::kFloat);
  const auto other = gradients(config, tokens, device, compute);
  for (const auto& [name, value] : exact) {
    const Tensor difference = value - other.at(name);
    std::printf("%-36s %.2e\n", name.c_str(),
                (difference.norm() / (value.norm() + 1e-30)).item<double>());
  }
}

}  // namespace chimere::train
