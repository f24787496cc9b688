// Operations of a training step: fused kernels on a GPU (kernels/launch.h), plain
// tensor operations on the CPU. All are differentiable.
#ifndef CHIMERE_TRAIN_FUSED_H_
#define CHIMERE_TRAIN_FUSED_H_

#include <torch/torch.h>

namespace chimere::train {

/// x / rms(x) * weight over the last dimension; x f32, the result in `type`.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps,
                       torch::Dtype type);

/// norm(x) * weight * silu(z), x and z [.., 64] in the compute type.
torch::Tensor gated_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& z, double eps);

/// Causal depthwise convolution (weight [C, 4], the last tap is the present) of x [B, T, C], SiLU,
/// and of each head of 64 channels among the first 2 * n_k its unit vector; the first n_k, the
/// queries, are also divided by 8, the square root of 64.
torch::Tensor conv_unit(const torch::Tensor& x, const torch::Tensor& weight, int64_t n_k,
                        double eps);

/// silu(gate) * up * scale: gate_up [N, 2, groups * width], scale [N, groups] -> [N, groups *
/// width].
torch::Tensor gated_unit(const torch::Tensor& gate_up, const torch::Tensor& scale);

/// Mean cross entropy of softmax(hidden embedding^T) against target [N], in nats; hidden [N, E]
/// and embedding [V, E] in the compute type. `choice`, if given, becomes the likeliest ids [N].
torch::Tensor mean_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& embedding,
                                 const torch::Tensor& target, torch::Tensor* choice = nullptr);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_FUSED_H_
