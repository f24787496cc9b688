#include "fused.h"

#ifdef CHIMERE_TRAIN_CUDA
#include "fused_cuda.h"
#endif

namespace chimere::train {

using torch::Tensor;
namespace F = torch::nn::functional;

#ifdef CHIMERE_TRAIN_CUDA
namespace {

/// Whether the kernels support x; they require bf16 activations.
bool has_kernels(const Tensor& x, torch::Dtype type) {
  return x.is_cuda() && type == torch::kBFloat16;
}

}  // namespace
#endif

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, torch::Dtype type) {
#ifdef CHIMERE_TRAIN_CUDA
  const int64_t n = x.size(-1);
  if (has_kernels(x, type) && (n == 256 || n == 512 || n == 1024)) {
    return cuda::rms_norm(x, weight, eps);
  }
#endif
  const Tensor x32 = x.to(torch::kFloat);
  return (x32 * torch::rsqrt(x32.square().mean(-1, true) + eps) * weight).to(type);
}

Tensor gated_norm(const Tensor& x, const Tensor& weight, const Tensor& z, double eps) {
#ifdef CHIMERE_TRAIN_CUDA
  if (has_kernels(x, z.scalar_type())) return cuda::gated_norm(x, weight, z, eps);
#endif
  return rms_norm(x, weight, eps, z.scalar_type()) * torch::silu(z);
}

Tensor conv_unit(const Tensor& x, const Tensor& weight, int64_t n_k, double eps) {
#ifdef CHIMERE_TRAIN_CUDA
  if (has_kernels(x, x.scalar_type())) return cuda::conv_unit(x, weight, n_k, eps);
#endif
  const int64_t taps = weight.size(1), b = x.size(0), t = x.size(1), keys = n_k * 64;
  const Tensor padded = F::pad(x, F::PadFuncOptions({0, 0, taps - 1, 0}));
  const Tensor w = weight.to(x.dtype());
  Tensor sum = padded.narrow(1, 0, t) * w.select(1, 0);
  for (int64_t i = 1; i < taps; ++i) sum = sum + padded.narrow(1, i, t) * w.select(1, i);
  const Tensor y = torch::silu(sum);
  const auto unit = [&](int64_t start) {
    const Tensor part = y.narrow(-1, start, keys).reshape({b, t, n_k, 64});
    return F::normalize(part, F::NormalizeFuncOptions().p(2).dim(-1).eps(eps))
        .reshape({b, t, keys});
  };
  return torch::cat({unit(0) / 8.0, unit(keys), y.narrow(-1, 2 * keys, x.size(-1) - 2 * keys)}, -1);
}

Tensor gated_unit(const Tensor& gate_up, const Tensor& scale) {
#ifdef CHIMERE_TRAIN_CUDA
  if (has_kernels(gate_up, gate_up.scalar_type())) return cuda::gated_unit(gate_up, scale);
#endif
  const int64_t width = gate_up.size(2) / scale.size(1);
  const Tensor each = scale.repeat_interleave(width, -1).to(gate_up.dtype());
  return torch::silu(gate_up.select(1, 0)) * gate_up.select(1, 1) * each;
}

Tensor mean_cross_entropy(const Tensor& hidden, const Tensor& embedding, const Tensor& target,
                          Tensor* choice) {
#ifdef CHIMERE_TRAIN_CUDA
  if (has_kernels(hidden, hidden.scalar_type())) {
    return cuda::mean_cross_entropy(hidden, embedding, target, choice);
  }
#endif
  const Tensor logits = torch::linear(hidden, embedding).to(torch::kFloat);
  if (choice != nullptr) *choice = logits.detach().argmax(-1);
  return F::cross_entropy(logits, target);
}

}  // namespace chimere::train
