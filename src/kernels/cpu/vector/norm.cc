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
