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
};

/// 2 u of GELU's tanh form, u = sqrt(2 / pi) (x + 0.044715 x³).
template <class V>
CHIMERE_INLINE V gelu_argument(V x) {
  return V::set(0x1.988454p+0F) * x * fma(V::set(0.044715F), x * x, V::set(1.0F));
}

/// f(x)
template <class V>
CHIMERE_INLINE V activate_lanes(Activation f, V x) {
  if (f == Activation::kReluSquared) {
    const V positive = max(V::set(0.0F), x);
    return positive * positive;
  }
  // GELU, x (1 + tanh u) / 2, is x sigmoid(2 u).
  return x /
         (V::set(1.0F) + exp_lanes(V::set(0.0F) - (f == Activation::kGelu ? gelu_argument(x) : x)));
}

CHIMERE_INLINE float activate(Activation f, float x) { return activate_lanes(f, F32x1{x}).v; }

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_ACTIVATION_H_
