// The activation functions of feed-forward networks: docs/numerics.md, "Activations".
#ifndef CHIMERE_KERNELS_ACTIVATION_H_
#define CHIMERE_KERNELS_ACTIVATION_H_

#include <cstdint>

#include "kernels/math.h"

namespace chimere::kernels {

enum class Activation : int32_t {
  kSilu,         ///< x sigmoid(x)
  kGelu,         ///< GELU in its tanh form (Hendrycks and Gimpel, arXiv:1606.08415)
  kReluSquared,  ///< max(0, x)² (So et al., arXiv:2109.08668)
  kGeluErf,      ///< GELU itself, x Φ(x), as BERT has it
  /// Of gate and up, as gpt-oss has it (arXiv:2508.10925): g sigmoid(1.702 g) (u + 1), with g =
  /// gate up to 7 and u = up from -7 to 7. Only for networks with a gate.
  kClampedSwiglu,
};
inline constexpr int kActivations = 5;

/// 2 u of GELU's tanh form, u = sqrt(2 / pi) (x + 0.044715 x³).
template <class V>
CHIMERE_INLINE V gelu_argument(V x) {
  return V::set(0x1.988454p+0F) * x * fma(V::set(0.044715F), x * x, V::set(1.0F));
}

/// x Φ(x) = max(0, x) - |x| Q(|x|), where Q(a) = 1 - Φ(a) = e^(-a² / 2) p(t), t = 1 / (1 + c a),
/// and p is a polynomial of degree 9: relative error 3.2e-8 where the result is above 1e-9. Beyond
/// 16, Q is 0 in f32.
template <class V>
CHIMERE_INLINE V gelu_erf_lanes(V x) {
  const V zero = V::set(0.0F);
  const V a = min(max(x, zero - x), V::set(16.0F));
  const V t = V::set(1.0F) / fma(V::set(0x1.fadaa8p-3F), a, V::set(1.0F));
  V p = fma(V::set(0x1.3a4946p-5F), t, V::set(-0x1.d3cf12p-3F));
  p = fma(p, t, V::set(0x1.f3e63ep-2F));
  p = fma(p, t, V::set(-0x1.db23c4p-2F));
  p = fma(p, t, V::set(0x1.ab558ap-2F));
  p = fma(p, t, V::set(-0x1.544290p-4F));
  p = fma(p, t, V::set(0x1.24d376p-3F));
  p = fma(p, t, V::set(0x1.6bea58p-4F));
  p = fma(p, t, V::set(0x1.990608p-4F));
  p = fma(p, t, V::set(-0x1.da4724p-15F));
  const V q = p * exp_lanes(a * a * V::set(-0.5F));
  return fma(zero - a, q, max(zero, x));
}

/// f(x)
template <class V>
CHIMERE_INLINE V activate_lanes(Activation f, V x) {
  if (f == Activation::kReluSquared) {
    const V positive = max(V::set(0.0F), x);
    return positive * positive;
  }
  if (f == Activation::kGeluErf) return gelu_erf_lanes(x);
  // GELU, x (1 + tanh u) / 2, is x sigmoid(2 u).
  return x /
         (V::set(1.0F) + exp_lanes(V::set(0.0F) - (f == Activation::kGelu ? gelu_argument(x) : x)));
}

CHIMERE_INLINE float activate(Activation f, float x) { return activate_lanes(f, F32x1{x}).v; }

/// f(gate) ∘ up, or f(gate, up). A NaN propagates.
template <class V>
CHIMERE_INLINE V gated_lanes(Activation f, V gate, V up) {
  if (f != Activation::kClampedSwiglu) return activate_lanes(f, gate) * up;
  const V limit = V::set(7.0F);
  const V g = min(limit, gate);
  const V u = max(V::set(-7.0F), min(limit, up));
  const V one = V::set(1.0F);
  return g / (one + exp_lanes(V::set(0.0F) - V::set(1.702F) * g)) * (u + one);
}

CHIMERE_INLINE float activate(Activation f, float gate, float up) {
  return gated_lanes(f, F32x1{gate}, F32x1{up}).v;
}

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_ACTIVATION_H_
