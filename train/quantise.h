// Quantisation-aware training: matrices rounded as the shipped file holds them.
#ifndef CHIMERE_TRAIN_QUANTISE_H_
#define CHIMERE_TRAIN_QUANTISE_H_

#include <torch/torch.h>

namespace chimere::train {

/// The nearest values of Q4_0 blocks of 32 in a row, whose scale is the largest magnitude over -8,
/// as f16. Encoding the result changes nothing. The gradient is passed on as it is
/// (straight-through estimator, Bengio et al. 2013, arXiv:1308.3432).
torch::Tensor rounded_to_four_bits(const torch::Tensor& w);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_QUANTISE_H_
