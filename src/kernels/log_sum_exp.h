// Sums of exponentials over a vocabulary (LogSumExp), in pieces of one size: the order is the same
// on every processor and card. docs/numerics.md, "log_sum_exp".
#ifndef CHIMERE_KERNELS_LOG_SUM_EXP_H_
#define CHIMERE_KERNELS_LOG_SUM_EXP_H_

#include <cstdint>
#include <span>

#include "kernels/api.h"

namespace chimere::kernels {

/// The LogSumExp of a row from those of its pieces, in their order.
LogSumExp add_exp_pieces(std::span<const LogSumExp> pieces);

/// The definition, by plain loops.
LogSumExp row_log_sum_exp(const float* logits, int64_t n);

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_LOG_SUM_EXP_H_
