#include "fused_cuda.h"

#include <ATen/cuda/CUDAContext.h>

#include "kernels/launch.h"

namespace chimere::train::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Stream stream() { return {at::cuda::getCurrentCUDAStream().stream()}; }
Tensor partials(const Tensor& like, int64_t width) {
  return torch::empty({kPartials, width}, like.options().dtype(torch::kFloat));
}
void check_bf16(const Tensor& x) {
  TORCH_CHECK(x.scalar_type() == torch::kBFloat16 && x.is_contiguous(), "not contiguous bf16");
}

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        double eps) {
    const Tensor x = input.to(torch::kFloat).contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    TORCH_CHECK(width == 256 || width == 512 || width == 1024, "no norm kernel of this width");
    Tensor y = torch::empty_like(x, torch::kBFloat16);
    Tensor scale = torch::empty({rows}, x.options());
    cuda::rms_norm(x.data_ptr<float>(), weight.data_ptr<float>(), static_cast<float>(eps),
                   y.data_ptr(), scale.data_ptr<float>(), rows, static_cast<int>(width), stream());
    context->save_for_backward({x, weight, scale});
    context->saved_data["type"] = input.scalar_type();
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Tensor d_y = grads[0].contiguous();
    check_bf16(d_y);
    const int64_t width = x.size(-1);
    Tensor d_x = torch::empty_like(x), sums = partials(x, width);
    cuda::rms_norm_backward(x.data_ptr<float>(), weight.data_ptr<float>(),
                            saved[2].data_ptr<float>(), d_y.data_ptr(), d_x.data_ptr<float>(),
                            sums.data_ptr<float>(), x.numel() / width, static_cast<int>(width),
                            stream());
    return {d_x.to(context->saved_data["type"].toScalarType()), sums.sum(0), Tensor()};
  }
};

class GatedNorm : public torch::autograd::Function<GatedNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_in, const Tensor& weight,
                        const Tensor& z_in, double eps) {
    const Tensor x = x_in.contiguous(), z = z_in.contiguous();
    check_bf16(x);
    check_bf16(z);
    TORCH_CHECK(x.size(-1) == 64, "gated norms have rows of 64");
    Tensor y = torch::empty_like(x);
    cuda::gated_norm(x.data_ptr(), weight.data_ptr<float>(), z.data_ptr(), static_cast<float>(eps),
                     y.data_ptr(), x.numel() / 64, stream());
    context->save_for_backward({x, weight, z});
    context->saved_data["eps"] = eps;
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor d_y = grads[0].contiguous();
    check_bf16(d_y);
    Tensor d_x = torch::empty_like(saved[0]), d_z = torch::empty_like(saved[2]);
    Tensor sums = partials(d_y, 64);
    cuda::gated_norm_backward(saved[0].data_ptr(), saved[1].data_ptr<float>(), saved[2].data_ptr(),
                              static_cast<float>(context->saved_data["eps"].toDouble()),
                              d_y.data_ptr(), d_x.data_ptr(), d_z.data_ptr(),
                              sums.data_ptr<float>(), d_y.numel() / 64, stream());
    return {d_x, sums.sum(0), d_z, Tensor()};
  }
};

class ConvUnit : public torch::autograd::Function<ConvUnit> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_in, const Tensor& weight,
                        int64_t n_k, double eps) {
    const Tensor x = x_in.contiguous();
    check_bf16(x);
    TORCH_CHECK(weight.size(1) == 4 && x.size(2) % 64 == 0, "no convolution kernel of this shape");
    Tensor y = torch::empty_like(x);
    cuda::conv_unit(call(x, weight, n_k, eps), y.data_ptr(), stream());
    context->save_for_backward({x, weight});
    context->saved_data["n_k"] = n_k;
    context->saved_data["eps"] = eps;
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], d_y = grads[0].contiguous();
    check_bf16(d_y);
    Tensor d_conv = torch::empty_like(x), d_x = torch::empty_like(x);
    Tensor sums = partials(x, weight.numel());
    cuda::conv_unit_backward(
        call(x, weight, context->saved_data["n_k"].toInt(), context->saved_data["eps"].toDouble()),
        d_y.data_ptr(), d_conv.data_ptr(), d_x.data_ptr(), sums.data_ptr<float>(), stream());
    return {d_x, sums.sum(0).view_as(weight), Tensor(), Tensor()};
  }

 private:
  static ConvCall call(const Tensor& x, const Tensor& weight, int64_t n_k, double eps) {
    return {x.size(0),
            x.size(1),
            static_cast<int>(x.size(2)),
            static_cast<int>(2 * n_k),
            static_cast<int>(n_k),
            static_cast<float>(eps),
            x.data_ptr(),
            weight.data_ptr<float>()};
  }
};

class GatedUnit : public torch::autograd::Function<GatedUnit> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& gate_up, const Tensor& scale_in) {
    const Tensor scale = scale_in.contiguous();
    check_bf16(gate_up);
    const int64_t rows = gate_up.size(0), groups = scale.size(1);
    TORCH_CHECK(gate_up.size(2) == groups * 256, "experts on a GPU have 256 hidden units");
    Tensor h = torch::empty({rows, groups * 256}, gate_up.options());
    cuda::gated_unit(gate_up.data_ptr(), scale.data_ptr<float>(), h.data_ptr(), rows,
                     static_cast<int>(groups), stream());
    context->save_for_backward({gate_up, scale});
    return h;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &gate_up = saved[0], &scale = saved[1], d_h = grads[0].contiguous();
    check_bf16(d_h);
    Tensor d_gate_up = torch::empty_like(gate_up), d_scale = torch::empty_like(scale);
    cuda::gated_unit_backward(gate_up.data_ptr(), scale.data_ptr<float>(), d_h.data_ptr(),
                              d_gate_up.data_ptr(), d_scale.data_ptr<float>(), gate_up.size(0),
                              static_cast<int>(scale.size(1)), stream());
    return {d_gate_up, d_scale};
  }
};

/// The gradient of the logits replaces them in the forward pass, so that they are read once.
class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& embedding,
                        const Tensor& target_in, Tensor* choice) {
    const Tensor target = target_in.contiguous();
    const int64_t rows = hidden.size(0);
    Tensor logits = torch::linear(hidden, embedding);
    check_bf16(logits);
    if (choice != nullptr) *choice = logits.argmax(-1);
    Tensor losses = torch::empty({rows}, logits.options().dtype(torch::kFloat));
    cuda::cross_entropy(logits.data_ptr(), target.data_ptr<int64_t>(), losses.data_ptr<float>(),
                        1.0F / static_cast<float>(rows), rows, static_cast<int>(logits.size(1)),
                        stream());
    context->save_for_backward({hidden, embedding, logits});
    return losses.mean();
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &hidden = saved[0], &embedding = saved[1], &d_logits = saved[2];
    const Tensor factor = grads[0].to(hidden.scalar_type());
    return {torch::mm(d_logits, embedding) * factor, torch::mm(d_logits.t(), hidden) * factor,
            Tensor(), Tensor()};
  }
};

class DeltaRule : public torch::autograd::Function<DeltaRule> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& mixed, const Tensor& g_in,
                        const Tensor& beta_in, int64_t n_k) {
    const Tensor g = g_in.contiguous(), beta = beta_in.contiguous();
    check_bf16(mixed);
    const int64_t b = g.size(0), t = g.size(1), n_v = g.size(2);
    TORCH_CHECK(mixed.size(2) == (2 * n_k + n_v) * 64, "delta-rule heads have 64 dimensions");
    Tensor out = torch::empty({b, t, n_v, 64}, mixed.options());
    Tensor states = torch::empty({b, n_v, (t + 63) / 64, 64, 64}, g.options());
    DeltaCall call = shapes(mixed, g, beta, states, n_k);
    call.out = out.data_ptr();
    cuda::delta_rule(call, false, stream());
    context->save_for_backward({mixed, g, beta, states});
    context->saved_data["n_k"] = n_k;
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &mixed = saved[0], &g = saved[1], &beta = saved[2], d_out = grads[0].contiguous();
    check_bf16(d_out);
    const int64_t n_k = context->saved_data["n_k"].toInt();
    const int64_t b = g.size(0), t = g.size(1), n_v = g.size(2);
    Tensor d_q = torch::empty_like(d_out), d_k = torch::empty_like(d_out),
           d_v = torch::empty_like(d_out);
    Tensor d_g = torch::empty_like(g), d_beta = torch::empty_like(beta);
    DeltaCall call = shapes(mixed, g, beta, saved[3], n_k);
    call.d_out = d_out.data_ptr();
    call.d_q = d_q.data_ptr();
    call.d_k = d_k.data_ptr();
    call.d_v = d_v.data_ptr();
    call.d_g = d_g.data_ptr<float>();
    call.d_beta = d_beta.data_ptr<float>();
    cuda::delta_rule(call, true, stream());
    const auto shared = [&](const Tensor& d) {
      return d.view({b, t, n_v / n_k, n_k, 64}).sum(2).view({b, t, n_k * 64});
    };
    return {torch::cat({shared(d_q), shared(d_k), d_v.view({b, t, n_v * 64})}, -1), d_g, d_beta,
            Tensor()};
  }

 private:
  static DeltaCall shapes(const Tensor& mixed, const Tensor& g, const Tensor& beta,
                          const Tensor& states, int64_t n_k) {
    DeltaCall call{};
    call.n_batch = g.size(0);
    call.n_time = g.size(1);
    call.n_k = n_k;
    call.n_v = g.size(2);
    call.mixed = mixed.data_ptr();
    call.g = g.data_ptr<float>();
    call.beta = beta.data_ptr<float>();
    call.states = states.data_ptr<float>();
    return call;
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return RmsNorm::apply(x, weight, eps);
}
Tensor gated_norm(const Tensor& x, const Tensor& weight, const Tensor& z, double eps) {
  return GatedNorm::apply(x, weight, z, eps);
}
Tensor conv_unit(const Tensor& x, const Tensor& weight, int64_t n_k, double eps) {
  return ConvUnit::apply(x, weight, n_k, eps);
}
Tensor gated_unit(const Tensor& gate_up, const Tensor& scale) {
  return GatedUnit::apply(gate_up, scale);
}
Tensor mean_cross_entropy(const Tensor& hidden, const Tensor& embedding, const Tensor& target,
                          Tensor* choice) {
  return CrossEntropy::apply(hidden, embedding, target, choice);
}
void round_to_four_bits(const Tensor& w, Tensor& out, double share) {
  cuda::round_four_bit_blocks(w.data_ptr<float>(), out.data_ptr<float>(), static_cast<float>(share),
                              w.numel() / 32, stream());
}
Tensor delta_rule(const Tensor& mixed, const Tensor& g, const Tensor& beta, int64_t n_k) {
  return DeltaRule::apply(mixed, g, beta, n_k);
}

}  // namespace chimere::train::cuda
