// The pieces in which exponentials of logits are added up, for processors and GPUs:
// docs/numerics.md, "log_sum_exp".
#ifndef CHIMERE_KERNELS_EXP_RULE_H_
#define CHIMERE_KERNELS_EXP_RULE_H_

#include "kernels/math.h"

namespace chimere::kernels {

inline constexpr int kExpPiece = 256;  ///< logits of a piece
inline constexpr int kExpLanes = 16;   ///< partial sums of a piece, of element i the (i mod 16)th
inline constexpr int kExpLanesOfRow = 256;  ///< partial sums of a row, of piece p the (p mod 256)th

/// logit - largest, of a masked logit too: bounded so that every exponential is a normal number.
CHIMERE_INLINE float below_largest(float logit, float largest) {
  const float below = logit - largest;
  return below < -87.0F ? -87.0F : below;
}

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_EXP_RULE_H_
