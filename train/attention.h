// Attention operations of all models in this folder.
#ifndef CHIMERE_TRAIN_ATTENTION_H_
#define CHIMERE_TRAIN_ATTENTION_H_

#include <torch/torch.h>

namespace chimere::train {

/// Causal attention of q [B, H, T, D] over k, v of the same shape, scaled by 1 / sqrt(D).
torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v);

/// Rotary positions (Su et al. 2021, arXiv:2104.09864) of x [B, T, H, D]: the pairs (i, i + n_rot /
/// 2) of the first n_rot dimensions, as NeoX has them.
torch::Tensor rotate(const torch::Tensor& x, int64_t n_rot, double base);
/// The same at given positions, [T] or [B, T].
torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& positions, int64_t n_rot,
                     double base);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_ATTENTION_H_
