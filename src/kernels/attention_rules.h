// Numbers that are part of attention's arithmetic (docs/numerics.md), shared by its
// implementations.
#ifndef CHIMERE_KERNELS_ATTENTION_RULES_H_
#define CHIMERE_KERNELS_ATTENTION_RULES_H_

#include "kernels/api.h"

namespace chimere::kernels {

/// Positions of a split: each has its own maximum and sums, and splits are folded in rising order.
/// A function of the absolute position alone, so that splits may go to different threads.
inline constexpr int kAttentionSplit = 256;
static_assert(kAttentionSplit % kKvPageTokens == 0);

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_ATTENTION_RULES_H_
