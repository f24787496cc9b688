#include "delta_rule.h"

#include <limits>
#include <vector>

namespace chimere::train {
namespace {

using torch::Tensor;

/// (I + A)^-1 for strictly lower triangular A [..., C, C]. The gradient is -M^T dM M^T, so nothing
/// but the result is kept and the triangular solve itself is never differentiated.
class UnitLowerInverse : public torch::autograd::Function<UnitLowerInverse> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& a) {
    const Tensor eye = torch::eye(a.size(-1), a.options()).expand_as(a);
    const Tensor inverse =
        torch::linalg_solve_triangular(a + eye, eye, /*upper=*/false, /*left=*/true,
                                       /*unitriangular=*/true);
    context->save_for_backward({inverse});
    return inverse;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const Tensor transposed = context->get_saved_variables()[0].transpose(-1, -2);
    return {torch::matmul(torch::matmul(transposed, grads[0]), transposed).neg().tril(-1)};
  }
};

/// [B, T, H, D] -> [N, B*H, C, D]: chunk-major, so that the chain over chunks reads contiguous
/// memory.
Tensor by_chunk(const Tensor& x, int64_t chunk) {
  const int64_t b = x.size(0), n = x.size(1) / chunk, h = x.size(2), d = x.size(3);
  return x.reshape({b, n, chunk, h, d}).permute({1, 0, 3, 2, 4}).reshape({n, b * h, chunk, d});
}

Tensor pad_time(const Tensor& x, int64_t pad) {
  if (pad == 0) return x;
  std::vector<int64_t> shape = x.sizes().vec();
  shape[1] = pad;
  return torch::cat({x, torch::zeros(shape, x.options())}, 1);
}

}  // namespace

Tensor chunked_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                          const Tensor& beta, int64_t chunk) {
  const int64_t b = q.size(0), t = q.size(1), h = q.size(2), dv = v.size(3);
  // Padding tokens have beta = 0 and decay 1: they leave the state alone.
  const int64_t pad = (chunk - t % chunk) % chunk;
  const Tensor qc = by_chunk(pad_time(q, pad), chunk), kc = by_chunk(pad_time(k, pad), chunk);
  const Tensor vc = by_chunk(pad_time(v, pad), chunk);
  const Tensor bc = by_chunk(pad_time(beta, pad).unsqueeze(-1), chunk);
  const Tensor decay = by_chunk(pad_time(g, pad).unsqueeze(-1), chunk).cumsum(2);  // [N, BH, C, 1]

  // exp(decay_i - decay_j) for i >= j; the rest is masked before exp, where it would overflow.
  const Tensor mask = torch::ones({chunk, chunk}, q.options()).triu(1).to(torch::kBool);
  const Tensor ratio = (decay - decay.transpose(-1, -2))
                           .masked_fill(mask, -std::numeric_limits<float>::infinity())
                           .exp();
  const Tensor k_beta = kc * bc, k_t = kc.transpose(-1, -2), grown = decay.exp();
  const Tensor solve = UnitLowerInverse::apply((torch::matmul(k_beta, k_t) * ratio).tril(-1));
  const Tensor u = torch::matmul(solve, vc * bc);  // values to write, were the state empty
  const Tensor w =
      torch::matmul(solve, k_beta * grown);  // what they read of the state before the chunk
  const Tensor last = decay.select(2, chunk - 1).unsqueeze(2);         // [N, BH, 1, 1]
  const Tensor k_out = (kc * (last - decay).exp()).transpose(-1, -2);  // [N, BH, K, C]

  Tensor state = torch::zeros({b * h, q.size(3), dv}, q.options());
  const auto us = u.unbind(0), ws = w.unbind(0), ks = k_out.unbind(0), keep = last.exp().unbind(0);
  std::vector<Tensor> states, written;
  for (size_t n = 0; n < us.size(); ++n) {
    states.push_back(state);
    written.push_back(torch::baddbmm(us[n], ws[n], state, 1, -1));
    state = torch::baddbmm(state * keep[n], ks[n], written.back());
  }
  const Tensor within = torch::matmul(qc, k_t) * ratio;
  const Tensor out = torch::matmul(qc * grown, torch::stack(states)) +
                     torch::matmul(within, torch::stack(written));
  return out.reshape({-1, b, h, chunk, dv})
      .permute({1, 0, 3, 2, 4})
      .reshape({b, t + pad, h, dv})
      .narrow(1, 0, t);
}

Tensor recurrent_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                            const Tensor& beta) {
  Tensor state = torch::zeros({q.size(0), q.size(2), q.size(3), v.size(3)}, q.options());
  std::vector<Tensor> out;
  for (int64_t t = 0; t < q.size(1); ++t) {
    state = state * g.select(1, t).exp().unsqueeze(-1).unsqueeze(-1);
    const Tensor key = k.select(1, t).unsqueeze(-1);  // [B, H, K, 1]
    const Tensor read = (state * key).sum(2);
    const Tensor change = beta.select(1, t).unsqueeze(-1) * (v.select(1, t) - read);
    state = state + key * change.unsqueeze(2);
    out.push_back((state * q.select(1, t).unsqueeze(-1)).sum(2));
  }
  return torch::stack(out, 1);
}

}  // namespace chimere::train
