// Sums of exponentials over a vocabulary (ExpSums), in pieces of one size: the order is the same on
// every processor and card. docs/numerics.md, "exp_sums".
#ifndef CHIMERE_KERNELS_EXP_SUMS_H_
#define CHIMERE_KERNELS_EXP_SUMS_H_

#include <cstdint>
#include <span>

#include "kernels/api.h"

namespace chimere::kernels {

/// The ExpSums of a row from those of its pieces, in their order.
ExpSums add_exp_pieces(std::span<const ExpSums> pieces);

/// The definition, by plain loops.
ExpSums row_exp_sums(const float* logits, int64_t n);

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_EXP_SUMS_H_
