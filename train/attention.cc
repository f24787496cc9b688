#include "attention.h"

#include <cmath>

namespace chimere::train {

using torch::Tensor;

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
#if TORCH_VERSION_MAJOR >= 2
  return torch::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
#else
  const int64_t t = q.size(2);
  const Tensor mask = torch::ones({t, t}, torch::device(q.device()).dtype(torch::kBool)).triu(1);
  const Tensor scores = torch::matmul(q, k.transpose(-1, -2)) / std::sqrt(double(q.size(3)));
  return torch::matmul(scores.masked_fill(mask, -INFINITY).softmax(-1), v);
#endif
}

Tensor rotate(const Tensor& x, int64_t n_rot, double base) {
  return rotate(x, torch::arange(x.size(1), torch::device(x.device())), n_rot, base);
}

Tensor rotate(const Tensor& x, const Tensor& positions, int64_t n_rot, double base) {
  const int64_t half = n_rot / 2;
  const auto options = torch::device(x.device()).dtype(torch::kFloat);
  const Tensor frequency = torch::pow(base, torch::arange(half, options) * (-2.0 / double(n_rot)));
  const Tensor angle = positions.to(torch::kFloat).unsqueeze(-1).unsqueeze(-1) * frequency;
  const Tensor c = angle.cos(), s = angle.sin();
  const Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return torch::cat({a * c - b * s, a * s + b * c, x.narrow(-1, 2 * half, x.size(-1) - 2 * half)},
                    -1);
}

}  // namespace chimere::train
