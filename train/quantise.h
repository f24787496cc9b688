// Quantisation-aware training: matrices rounded to the types of the shipped file.
#ifndef CHIMERE_TRAIN_QUANTISE_H_
#define CHIMERE_TRAIN_QUANTISE_H_

#include <torch/torch.h>

#include <string_view>

namespace chimere::train {

/// Whether the shipped file holds this parameter as Q4_0: every matrix but routers, convolutions
/// and the delta rule's gates.
bool has_four_bits(std::string_view name, const torch::Tensor& value);

/// The values of Q4_0 blocks of 32 in a row, each with the best of a few f16 scales (see
/// kernels/four_bits.h). Encoding the result changes nothing, nor does rounding it again. The
/// gradient is passed on as it is (straight-through estimator, Bengio et al. 2013,
/// arXiv:1308.3432).
torch::Tensor rounded_to_four_bits(const torch::Tensor& w);

/// Moves w by `share` of the way to its rounded values, in place. Small shares after each update
/// keep weights from oscillating between two levels (Nagel et al. 2022, arXiv:2203.11086, there as
/// a penalty), so that at last the unrounded weights are the rounded ones.
void pull_to_four_bits(torch::Tensor& w, double share);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_QUANTISE_H_
