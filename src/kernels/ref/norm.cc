#include <cmath>
#include <vector>

#include "kernels/math.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::ref {

float dot16(const float* x, const float* y, int64_t n) {
  float s[16] = {};
  for (int64_t i = 0; i < n; ++i) s[i % 16] = std::fma(x[i], y[i], s[i % 16]);
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) s[j] += s[j + half];
  }
  return s[0];
}

void rms_norm(ConstMatrixView x, const float* weight, float eps, MatrixView y) {
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* in = x.row(r);
    float* out = y.row(r);
    const float mean = dot16(in, in, x.cols) / static_cast<float>(x.cols);
    const float scale = 1.0F / std::sqrt(mean + eps);
    for (int64_t i = 0; i < x.cols; ++i) out[i] = in[i] * scale * weight[i];
  }
}

void layer_norm(ConstMatrixView x, const float* weight, const float* bias, float eps,
                MatrixView y) {
  const auto n = static_cast<float>(x.cols);
  std::vector<float> d(static_cast<size_t>(x.cols));
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* in = x.row(r);
    float* out = y.row(r);
    float s[16] = {};
    for (int64_t i = 0; i < x.cols; ++i) s[i % 16] += in[i];
    for (int half = 8; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) s[j] += s[j + half];
    }
    const float mean = s[0] / n;
    for (int64_t i = 0; i < x.cols; ++i) d[i] = in[i] - mean;
    const float scale = 1.0F / std::sqrt(dot16(d.data(), d.data(), x.cols) / n + eps);
    for (int64_t i = 0; i < x.cols; ++i) {
      const float normed = d[i] * scale;
      out[i] = bias != nullptr ? std::fma(normed, weight[i], bias[i]) : normed * weight[i];
    }
  }
}

void gated_rms_norm(ConstMatrixView x, ConstMatrixView z, const float* weight, int head_dim,
                    float eps, MatrixView y) {
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t begin = 0; begin < x.cols; begin += head_dim) {
      const float* in = x.row(r) + begin;
      const float* gate = z.row(r) + begin;
      float* out = y.row(r) + begin;
      const float mean = dot16(in, in, head_dim) / static_cast<float>(head_dim);
      const float scale = 1.0F / std::sqrt(mean + eps);
      for (int i = 0; i < head_dim; ++i) out[i] = in[i] * scale * weight[i] * silu(gate[i]);
    }
  }
}

}  // namespace chimere::kernels::ref
