#include "kernels/ref/moe.h"

#include <cmath>
#include <vector>

#include "kernels/math.h"
#include "kernels/ref/linear.h"

namespace chimere::kernels::ref {
namespace {

std::vector<float> expert_ffn(Activation f, const ExpertWeights& e, const Activations& x) {
  std::vector<float> h(static_cast<size_t>(e.up.n_out));
  for (int64_t o = 0; o < e.up.n_out; ++o) {
    const float up = dot(e.up, o, x);
    h[static_cast<size_t>(o)] =
        e.gated() ? kernels::activate(f, dot(e.gate, o, x)) * up : kernels::activate(f, up);
  }
  const Activations rounded = round_activations(h.data(), e.up.n_out);
  std::vector<float> out(static_cast<size_t>(e.down.n_out));
  for (int64_t o = 0; o < e.down.n_out; ++o) {
    out[static_cast<size_t>(o)] = dot(e.down, o, rounded);
  }
  return out;
}

}  // namespace

void moe_ffn(ConstMatrixView x, std::span<const ExpertWeights> experts, const Routing& routing,
             const ExpertWeights* shared, const float* shared_gate, const MoeOptions& options,
             MatrixView y) {
  const auto n_out = static_cast<size_t>(y.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    const Activations a = round_activations(x.row(r), x.cols);
    std::vector<float> total(n_out);
    for (int rank = 0; rank < routing.n_used; ++rank) {
      const int64_t k = r * routing.n_used + rank;
      if (routing.ids[k] < 0) break;
      const std::vector<float> out =
          expert_ffn(options.activation, experts[static_cast<size_t>(routing.ids[k])], a);
      const float weight = routing.weights[k];
      for (size_t o = 0; o < n_out; ++o) {
        total[o] = std::fma(weight, out[o], total[o]);
      }
    }
    if (shared != nullptr) {
      const std::vector<float> out = expert_ffn(options.activation, *shared, a);
      const float weight = shared_gate != nullptr ? sigmoid(shared_gate[r]) : 1;
      for (size_t o = 0; o < n_out; ++o) total[o] = std::fma(weight, out[o], total[o]);
    }
    float* y_row = y.row(r);
    for (size_t o = 0; o < n_out; ++o) y_row[o] += total[o] * options.scale;
  }
}

void activate(Activation f, MatrixView h, ConstMatrixView up) {
  for (int64_t r = 0; r < h.rows; ++r) {
    for (int64_t i = 0; i < h.cols; ++i) {
      const float v = kernels::activate(f, h.row(r)[i]);
      h.row(r)[i] = up.data != nullptr ? v * up.row(r)[i] : v;
    }
  }
}

}  // namespace chimere::kernels::ref
