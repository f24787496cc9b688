// Log-sum-exp statistics of a row of logits, in pieces of fixed size, so that the order of sums is
// the same on every CPU and GPU. docs/numerics.md, "log_sum_exp".
#ifndef CHIMERE_KERNELS_LOG_SUM_EXP_H_
#define CHIMERE_KERNELS_LOG_SUM_EXP_H_

#include <cstdint>
#include <span>

#include "kernels/api.h"

namespace chimere::kernels {

/// The LogSumExp of a row from those of its pieces, in order.
LogSumExp add_exp_pieces(std::span<const LogSumExp> pieces);

/// The reference implementation, in plain loops.
LogSumExp row_log_sum_exp(const float* logits, int64_t n);

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_LOG_SUM_EXP_H_
