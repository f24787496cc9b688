#include "kernels/cpu/vector/functions.h"
#include "kernels/cpu/vector/hadamard.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

float rms_scale(const float* x, float eps, int64_t n) {
  return 1.0F / __builtin_sqrtf(dot16(x, x, n) / static_cast<float>(n) + eps);
}

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* y) {
  const float scale = rms_scale(x, eps, n);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    (F32x16::load(x + i) * F32x16::set(scale) * F32x16::load(weight + i)).store(y + i);
  }
  for (; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n,
                float* y) {
  F32x16 sums = F32x16::set(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sums = sums + F32x16::load(x + i);
  float tail[kLanes] = {};
  for (int64_t j = i; j < n; ++j) tail[j - i] = x[j];
  if (i < n) sums = sums + F32x16::load(tail);
  const auto count = static_cast<float>(n);
  const float mean = tree_sum(sums) / count;
  const F32x16 all_mean = F32x16::set(mean);
  F32x16 squares = F32x16::set(0);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    const F32x16 d = F32x16::load(x + i) - all_mean;
    squares = fma(d, d, squares);
  }
  if (i < n) {
    for (int64_t j = i; j < n; ++j) tail[j - i] = x[j] - mean;
    squares = fma(F32x16::load(tail), F32x16::load(tail), squares);
  }
  const float scale = 1.0F / __builtin_sqrtf(tree_sum(squares) / count + eps);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    const F32x16 normed = (F32x16::load(x + i) - all_mean) * F32x16::set(scale);
    const F32x16 w = F32x16::load(weight + i);
    (bias != nullptr ? fma(normed, w, F32x16::load(bias + i)) : normed * w).store(y + i);
  }
  for (; i < n; ++i) {
    const float normed = (x[i] - mean) * scale;
    y[i] = bias != nullptr ? __builtin_fmaf(normed, weight[i], bias[i]) : normed * weight[i];
  }
}

void gated_rms_norm(const float* x, const float* z, const float* weight, float eps, int64_t n,
                    float* y) {
  const float scale = rms_scale(x, eps, n);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32x16 normed = F32x16::load(x + i) * F32x16::set(scale) * F32x16::load(weight + i);
    (normed * silu_lanes(F32x16::load(z + i))).store(y + i);
  }
  for (; i < n; ++i) y[i] = x[i] * scale * weight[i] * silu(z[i]);
}

void norm_rope(const NormRope& u) {
  if (u.weight != nullptr) {
    rms_norm(u.x, u.weight, u.eps, u.head_dim, u.y);
  } else if (u.y != u.x) {
    for (int i = 0; i < u.head_dim; ++i) u.y[i] = u.x[i];
  }
  const int half = u.rope_dims / 2;
  float* low = u.y;
  float* high = u.y + half;
  const float* cosines = u.cos_sin;
  const float* sines = u.cos_sin + half;
  int i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const F32x16 c = F32x16::load(cosines + i);
    const F32x16 s = F32x16::load(sines + i);
    const F32x16 a = F32x16::load(low + i);
    const F32x16 b = F32x16::load(high + i);
    fma(a, c, F32x16::set(-0.0F) - b * s).store(low + i);
    fma(b, c, a * s).store(high + i);
  }
  for (; i < half; ++i) {
    const float a = low[i];
    const float b = high[i];
    low[i] = __builtin_fmaf(a, cosines[i], -(b * sines[i]));
    high[i] = __builtin_fmaf(b, cosines[i], a * sines[i]);
  }
  if (u.hadamard) rotate_head(u.y, u.head_dim);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
