// The gated delta rule (Yang, Kautz, Hatamizadeh 2024, arXiv:2412.06464) as differentiable tensor
// operations.
#ifndef CHIMERE_TRAIN_DELTA_RULE_H_
#define CHIMERE_TRAIN_DELTA_RULE_H_

#include <torch/torch.h>

namespace chimere::train {

/// S_t = exp(g_t) S_{t-1} + k_t (beta_t (v_t - (exp(g_t) S_{t-1})^T k_t))^T,  o_t = S_t^T q_t, from
/// S_0 = 0.
///
/// mixed: [B, T, (2 n_k + n_v) * 64], the queries, keys and values of a token in heads of 64, in
/// bf16 on a GPU and f32 elsewhere; value head h reads key head h mod n_k. g (log decay, <= 0),
/// beta: [B, T, n_v] f32. Returns o [B, T, n_v, 64]. Chunks of 64 tokens are solved at once, see
/// kernels/delta_rule_block.h, which is also the CPU's code.
torch::Tensor chunked_delta_rule(const torch::Tensor& mixed, const torch::Tensor& g,
                                 const torch::Tensor& beta, int64_t n_k);

/// The same, token by token: the definition, which tests compare with.
torch::Tensor recurrent_delta_rule(const torch::Tensor& mixed, const torch::Tensor& g,
                                   const torch::Tensor& beta, int64_t n_k);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_DELTA_RULE_H_
