// The gated delta rule (Yang, Kautz, Hatamizadeh 2024, arXiv:2412.06464) as differentiable tensor
// operations.
#ifndef CHIMERE_TRAIN_DELTA_RULE_H_
#define CHIMERE_TRAIN_DELTA_RULE_H_

#include <torch/torch.h>

namespace chimere::train {

/// S_t = exp(g_t) S_{t-1} + k_t (beta_t (v_t - (exp(g_t) S_{t-1})^T k_t))^T,  o_t = S_t^T q_t, from
/// S_0 = 0.
///
/// q, k: [B, T, H, K]; v: [B, T, H, V]; g (log decay, <= 0), beta: [B, T, H]; all f32. Returns o
/// [B, T, H, V]. Chunks of `chunk` tokens are solved at once through the UT transform (one unit
/// lower triangular inverse each), so that all work but a short chain of products over the chunks
/// is batched matrix products.
torch::Tensor chunked_delta_rule(const torch::Tensor& q, const torch::Tensor& k,
                                 const torch::Tensor& v, const torch::Tensor& g,
                                 const torch::Tensor& beta, int64_t chunk = 64);

/// The same, token by token: the definition, which tests compare with.
torch::Tensor recurrent_delta_rule(const torch::Tensor& q, const torch::Tensor& k,
                                   const torch::Tensor& v, const torch::Tensor& g,
                                   const torch::Tensor& beta);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_DELTA_RULE_H_
