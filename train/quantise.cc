#include "quantise.h"

namespace chimere::train {
namespace {

using torch::Tensor;

class FourBits : public torch::autograd::Function<FourBits> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* /*context*/, const Tensor& w) {
    const Tensor blocks = w.reshape({-1, 32});
    const Tensor largest = blocks.gather(-1, blocks.abs().argmax(-1, true));
    const Tensor scale = (largest / -8).to(torch::kHalf).to(torch::kFloat);
    const Tensor inverse = torch::where(scale == 0, scale, scale.reciprocal());
    return ((blocks * inverse).round().clamp(-8, 7) * scale).view(w.sizes());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list grads) {
    return grads;
  }
};

}  // namespace

Tensor rounded_to_four_bits(const Tensor& w) { return FourBits::apply(w); }

}  // namespace chimere::train
