#include "quantise.h"

#include <ATen/Parallel.h>

#include "kernels/four_bits.h"
#ifdef CHIMERE_TRAIN_CUDA
#include "fused_cuda.h"
#endif

namespace chimere::train {
namespace {

using torch::Tensor;

/// out = w + share (rounded(w) - w); both contiguous f32.
void round_blocks(const Tensor& w, Tensor& out, double share) {
  TORCH_CHECK(w.is_contiguous() && w.numel() % kFourBitBlock == 0,
              "rows of blocks of 32 are rounded");
#ifdef CHIMERE_TRAIN_CUDA
  if (w.is_cuda()) return cuda::round_to_four_bits(w, out, share);
#endif
  const float* from = w.data_ptr<float>();
  auto* to = out.data_ptr<float>();
  at::parallel_for(0, w.numel() / kFourBitBlock, 256, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t at = block * kFourBitBlock;
      round_four_bit_block(from + at, to + at, static_cast<float>(share));
    }
  });
}

class FourBits : public torch::autograd::Function<FourBits> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* /*context*/, const Tensor& w) {
    Tensor out = torch::empty_like(w);
    round_blocks(w, out, 1.0);
    return out;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list grads) {
    return grads;
  }
};

}  // namespace

bool has_four_bits(std::string_view name, const Tensor& value) {
  if (value.dim() == 1) return false;
  for (const char* part : {"ssm_conv1d", "ffn_gate_inp", "ssm_alpha", "ssm_beta"}) {
    if (name.find(part) != std::string_view::npos) return false;
  }
  return true;
}

Tensor rounded_to_four_bits(const Tensor& w) { return FourBits::apply(w); }

void pull_to_four_bits(Tensor& w, double share) {
  const torch::NoGradGuard no_grad;
  round_blocks(w, w, share);
}

}  // namespace chimere::train
