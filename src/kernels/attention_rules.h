// Constants of attention's arithmetic (docs/numerics.md), shared by all implementations.
#ifndef CHIMERE_KERNELS_ATTENTION_RULES_H_
#define CHIMERE_KERNELS_ATTENTION_RULES_H_

#include "kernels/api.h"

namespace chimere::kernels {

/// Positions per split. Each split has its own maximum and sums, and splits are folded in rising
/// order. Boundaries depend on the absolute position only, so threads can compute splits
/// independently.
inline constexpr int kAttentionSplit = 256;
static_assert(kAttentionSplit % kKvPageTokens == 0);

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_ATTENTION_RULES_H_
