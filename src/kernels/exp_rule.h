// How the sums over a row's logits are split into pieces and lanes, on CPUs and GPUs:
// docs/numerics.md, "log_sum_exp".
#ifndef CHIMERE_KERNELS_EXP_RULE_H_
#define CHIMERE_KERNELS_EXP_RULE_H_

#include "kernels/math.h"

namespace chimere::kernels {

inline constexpr int kExpPiece = 256;  ///< logits of a piece
inline constexpr int kExpLanes = 16;   ///< partial sums of a piece; element i goes to lane i mod 16
inline constexpr int kExpLanesOfRow =
    256;  ///< partial sums of a row; piece p goes to lane p mod 256

/// logit - largest, for masked logits too: clamped so that every exponential is a normal number.
CHIMERE_INLINE float below_largest(float logit, float largest) {
  const float below = logit - largest;
  return below < -87.0F ? -87.0F : below;
}

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_EXP_RULE_H_
