#include "kernels/ref/moe.h"

#include <cmath>
#include <vector>

#include "kernels/math.h"
#include "kernels/ref/linear.h"

namespace chimere::kernels::ref {
namespace {

std::vector<float> expert_ffn(const ExpertWeights& e, const Activations& x) {
  std::vector<float> h(static_cast<size_t>(e.gate.n_out));
  for (int64_t o = 0; o < e.gate.n_out; ++o) {
    h[static_cast<size_t>(o)] = silu(dot(e.gate, o, x)) * dot(e.up, o, x);
  }
  const Activations rounded = round_activations(h.data(), e.gate.n_out);
  std::vector<float> out(static_cast<size_t>(e.down.n_out));
  for (int64_t o = 0; o < e.down.n_out; ++o) {
    out[static_cast<size_t>(o)] = dot(e.down, o, rounded);
  }
  return out;
}

}  // namespace

void moe_ffn(ConstMatrixView x, std::span<const ExpertWeights> experts, const Routing& routing,
             const ExpertWeights* shared, const float* shared_gate, MatrixView y) {
  const auto n_out = static_cast<size_t>(y.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    const Activations a = round_activations(x.row(r), x.cols);
    std::vector<float> total(n_out);
    for (int rank = 0; rank < routing.n_used; ++rank) {
      const int64_t k = r * routing.n_used + rank;
      if (routing.ids[k] < 0) break;
      const std::vector<float> out = expert_ffn(experts[static_cast<size_t>(routing.ids[k])], a);
      const float weight = routing.weights[k];
      for (size_t o = 0; o < n_out; ++o) {
        total[o] = std::fma(weight, out[o], total[o]);
      }
    }
    if (shared != nullptr) {
      const std::vector<float> out = expert_ffn(*shared, a);
      const float weight = sigmoid(shared_gate[r]);
      for (size_t o = 0; o < n_out; ++o) total[o] = std::fma(weight, out[o], total[o]);
    }
    float* y_row = y.row(r);
    for (size_t o = 0; o < n_out; ++o) y_row[o] += total[o];
  }
}

void silu_multiply(MatrixView gate, ConstMatrixView up) {
  for (int64_t r = 0; r < gate.rows; ++r) {
    for (int64_t i = 0; i < gate.cols; ++i) gate.row(r)[i] = silu(gate.row(r)[i]) * up.row(r)[i];
  }
}

}  // namespace chimere::kernels::ref
