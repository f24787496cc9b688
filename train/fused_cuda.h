// The GPU forms of fused.h and delta_rule.h, built where nvcc is (CHIMERE_TRAIN_CUDA).
#ifndef CHIMERE_TRAIN_FUSED_CUDA_H_
#define CHIMERE_TRAIN_FUSED_CUDA_H_

#include <torch/torch.h>

namespace chimere::train::cuda {

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps);
torch::Tensor gated_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& z, double eps);
torch::Tensor conv_unit(const torch::Tensor& x, const torch::Tensor& weight, int64_t n_k,
                        double eps);
torch::Tensor gated_unit(const torch::Tensor& gate_up, const torch::Tensor& scale);
torch::Tensor mean_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& embedding,
                                 const torch::Tensor& target, torch::Tensor* choice);
/// out = w + share (rounded(w) - w), see kernels/four_bits.h; both contiguous f32, may be the same.
void round_to_four_bits(const torch::Tensor& w, torch::Tensor& out, double share);
torch::Tensor delta_rule(const torch::Tensor& mixed, const torch::Tensor& g,
                         const torch::Tensor& beta, int64_t n_k);

}  // namespace chimere::train::cuda

#endif  // CHIMERE_TRAIN_FUSED_CUDA_H_
