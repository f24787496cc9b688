#include "kernels/ref/moe.h"

#include <cmath>
#include <vector>

#include "kernels/math.h"
#include "kernels/ref/linear.h"

namespace chimere::kernels::ref {
namespace {

float biased(float v, const float* bias, int64_t i) { return bias != nullptr ? v + bias[i] : v; }

/// W x, with the row's adapters.
std::vector<float> product(const WeightView& w, const Activations& x, const RowChange& change) {
  std::vector<float> y(static_cast<size_t>(w.n_out));
  for (int64_t o = 0; o < w.n_out; ++o) y[static_cast<size_t>(o)] = dot(w, o, x);
  change.add(w, 1, x.x, y.data());
  return y;
}

std::vector<float> expert_ffn(Activation f, const ExpertWeights& e, const Activations& x,
                              const RowChange& change) {
  std::vector<float> h = product(e.up, x, change);
  std::vector<float> gate;
  if (e.gated()) gate = product(e.gate, x, change);
  for (int64_t o = 0; o < e.up.n_out; ++o) {
    float& v = h[static_cast<size_t>(o)];
    const float up = biased(v, e.up_bias, o);
    v = e.gated() ? kernels::activate(f, biased(gate[static_cast<size_t>(o)], e.gate_bias, o), up)
                  : kernels::activate(f, up);
  }
  const Activations rounded = round_activations(h.data(), e.up.n_out);
  std::vector<float> out = product(e.down, rounded, change);
  for (int64_t o = 0; o < e.down.n_out; ++o) {
    out[static_cast<size_t>(o)] = biased(out[static_cast<size_t>(o)], e.down_bias, o);
  }
  return out;
}

}  // namespace

void moe_ffn(ConstMatrixView x, std::span<const ExpertWeights> experts, const Routing& routing,
             const ExpertWeights* shared, const float* shared_gate, const MoeOptions& options,
             MatrixView y, const StepAdapters* adapters, bool wanted) {
  const auto n_out = static_cast<size_t>(y.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    const Activations a = round_activations(x.row(r), x.cols);
    RowChange change;
    if (adapters != nullptr && !adapters->none()) change = {adapters, adapters->of(r, wanted)};
    std::vector<float> total(n_out);
    for (int rank = 0; rank < routing.n_used; ++rank) {
      const int64_t k = r * routing.n_used + rank;
      if (routing.ids[k] < 0) break;
      const std::vector<float> out =
          expert_ffn(options.activation, experts[static_cast<size_t>(routing.ids[k])], a, change);
      const float weight = routing.weights[k];
      for (size_t o = 0; o < n_out; ++o) {
        total[o] = std::fma(weight, out[o], total[o]);
      }
    }
    if (shared != nullptr) {
      const std::vector<float> out = expert_ffn(options.activation, *shared, a, change);
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
      float& v = h.row(r)[i];
      v = up.data != nullptr ? kernels::activate(f, v, up.row(r)[i]) : kernels::activate(f, v);
    }
  }
}

}  // namespace chimere::kernels::ref
