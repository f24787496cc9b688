#include "delta_rule.h"

#include <ATen/Parallel.h>

#include <vector>

#include "kernels/delta_rule_block.h"
#ifdef CHIMERE_TRAIN_CUDA
#include "fused_cuda.h"
#endif

namespace chimere::train {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Runs a block's work for every head of every sequence.
template <typename Work>
void for_heads(const DeltaRule& call, int tiles, Work work) {
  at::parallel_for(0, call.n_batch * call.n_v, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> memory(static_cast<size_t>(tiles * kTileFloats + kVectorFloats));
    for (int64_t head = begin; head < end; ++head) work(call, head, memory.data());
  });
}

class HostDeltaRule : public torch::autograd::Function<HostDeltaRule> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& mixed_in, const Tensor& g_in,
                        const Tensor& beta_in, int64_t n_k) {
    const Tensor mixed = mixed_in.contiguous(), g = g_in.contiguous(), beta = beta_in.contiguous();
    const int64_t b = g.size(0), t = g.size(1), n_v = g.size(2);
    TORCH_CHECK(mixed.size(2) == (2 * n_k + n_v) * kTile, "delta-rule heads have 64 dimensions");
    Tensor out = torch::empty({b, t, n_v, kTile}, mixed.options());
    Tensor states = torch::empty({b, n_v, (t + kTile - 1) / kTile, kTile, kTile}, mixed.options());
    DeltaRule call = shapes(mixed, g, beta, states, n_k);
    call.out = out.data_ptr<float>();
    for_heads(call, kForwardTiles, delta_rule_forward);
    context->save_for_backward({mixed, g, beta, states});
    context->saved_data["n_k"] = n_k;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &mixed = saved[0], &g = saved[1], &beta = saved[2], d_out = grads[0].contiguous();
    const int64_t n_k = context->saved_data["n_k"].toInt();
    const int64_t b = g.size(0), t = g.size(1), n_v = g.size(2);
    const Tensor d_q = torch::empty_like(d_out), d_k = torch::empty_like(d_out),
                 d_v = torch::empty_like(d_out), d_g = torch::empty_like(g),
                 d_beta = torch::empty_like(beta);
    DeltaRule call = shapes(mixed, g, beta, saved[3], n_k);
    call.d_out = d_out.data_ptr<float>();
    call.d_q = d_q.data_ptr<float>();
    call.d_k = d_k.data_ptr<float>();
    call.d_v = d_v.data_ptr<float>();
    call.d_g = d_g.data_ptr<float>();
    call.d_beta = d_beta.data_ptr<float>();
    for_heads(call, kBackwardTiles, delta_rule_backward);
    const auto shared = [&](const Tensor& d) {
      return d.view({b, t, n_v / n_k, n_k, kTile}).sum(2).view({b, t, n_k * kTile});
    };
    return {torch::cat({shared(d_q), shared(d_k), d_v.view({b, t, n_v * kTile})}, -1), d_g, d_beta,
            Tensor()};
  }

 private:
  static DeltaRule shapes(const Tensor& mixed, const Tensor& g, const Tensor& beta,
                          const Tensor& states, int64_t n_k) {
    DeltaRule call{};
    call.n_batch = g.size(0);
    call.n_time = g.size(1);
    call.n_k = n_k;
    call.n_v = g.size(2);
    call.mixed = mixed.data_ptr<float>();
    call.g = g.data_ptr<float>();
    call.beta = beta.data_ptr<float>();
    call.states = states.data_ptr<float>();
    return call;
  }
};

}  // namespace

Tensor chunked_delta_rule(const Tensor& mixed, const Tensor& g, const Tensor& beta, int64_t n_k) {
#ifdef CHIMERE_TRAIN_CUDA
  if (mixed.is_cuda()) {
    return cuda::delta_rule(mixed.to(torch::kBFloat16), g, beta, n_k).to(mixed.dtype());
  }
#endif
  return HostDeltaRule::apply(mixed, g, beta, n_k);
}

Tensor recurrent_delta_rule(const Tensor& mixed, const Tensor& g, const Tensor& beta, int64_t n_k) {
  const int64_t b = g.size(0), time = g.size(1), n_v = g.size(2);
  const auto heads = [&](int64_t first, int64_t n) {
    return mixed.narrow(2, first * kTile, n * kTile).reshape({b, time, n, kTile});
  };
  const Tensor q = heads(0, n_k).repeat({1, 1, n_v / n_k, 1});
  const Tensor k = heads(n_k, n_k).repeat({1, 1, n_v / n_k, 1}), v = heads(2 * n_k, n_v);
  Tensor state = torch::zeros({b, n_v, kTile, kTile}, mixed.options());
  std::vector<Tensor> out;
  for (int64_t t = 0; t < time; ++t) {
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
