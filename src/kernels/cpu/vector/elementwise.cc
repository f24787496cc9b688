// Elementwise steps of feed-forward networks.
#include "kernels/activation.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/simd.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

namespace {

template <Activation kF, bool kGated>
void activate_row(float* h, const float* up, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32x16 v = F32x16::load(h + i);
    if constexpr (kGated) {
      gated_lanes(kF, v, F32x16::load(up + i)).store(h + i);
    } else {
      activate_lanes(kF, v).store(h + i);
    }
  }
  for (; i < n; ++i) {
    if constexpr (kGated) {
      h[i] = kernels::activate(kF, h[i], up[i]);
    } else {
      h[i] = kernels::activate(kF, h[i]);
    }
  }
}

template <Activation kF>
void activate_row(float* h, const float* up, int64_t n) {
  if (up != nullptr) {
    activate_row<kF, true>(h, up, n);
  } else {
    activate_row<kF, false>(h, nullptr, n);
  }
}

}  // namespace

void activate(Activation f, float* h, const float* up, int64_t n) {
  switch (f) {
    case Activation::kSilu:
      return activate_row<Activation::kSilu>(h, up, n);
    case Activation::kGelu:
      return activate_row<Activation::kGelu>(h, up, n);
    case Activation::kReluSquared:
      return activate_row<Activation::kReluSquared>(h, up, n);
    case Activation::kClampedSwiglu:
      return activate_row<Activation::kClampedSwiglu>(h, up, n);
    case Activation::kGeluErf:
      return activate_row<Activation::kGeluErf>(h, up, n);
  }
}

void add_scaled(float* total, float weight, const float* out, int64_t n) {
  const F32x16 w = F32x16::set(weight);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    fma(w, F32x16::load(out + i), F32x16::load(total + i)).store(total + i);
  }
  for (; i < n; ++i) total[i] = __builtin_fmaf(weight, out[i], total[i]);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
