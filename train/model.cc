#include "model.h"

#include <cmath>
#include <string>
#include <vector>

#include "attention.h"
#include "delta_rule.h"
#include "fused.h"
#include "quantise.h"

namespace chimere::train {
namespace {

using torch::Tensor;
namespace F = torch::nn::functional;

}  // namespace

Model::Model(const ModelConfig& config, uint64_t seed, torch::Device device, torch::Dtype compute)
    : config_(config), device_(device), compute_(compute) {
  create(seed);
}

void Model::create(uint64_t seed) {
  const ModelConfig& c = config_;
  torch::Generator generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  const auto add = [&](const std::string& name, const Tensor& value) {
    parameters_[name] = value.to(device_).set_requires_grad(true);
  };
  const auto normal = [&](const std::string& name, std::vector<int64_t> shape, double std) {
    add(name, torch::randn(shape, generator) * std);
  };
  const auto uniform = [&](int64_t n, double low, double high) {
    return torch::rand({n}, generator) * (high - low) + low;
  };
  const int64_t e = c.n_embd;
  const double in = 1.0 / std::sqrt(double(e));
  const double out =
      1.0 / std::sqrt(2.0 * double(c.n_layer));  // outputs of a residual branch start small
  normal("token_embd.weight", {c.n_vocab, e}, 0.5 * in);
  add("output_norm.weight", torch::ones({e}));
  for (int64_t i = 0; i <= c.n_layer; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    add(b + "attn_norm.weight", torch::ones({e}));
    add(b + "post_attention_norm.weight", torch::ones({e}));
    if (c.is_recurrent(i)) {
      normal(b + "attn_qkv.weight", {c.conv_dim(), e}, in);
      normal(b + "attn_gate.weight", {c.value_dim(), e}, in);
      add(b + "ssm_conv1d.weight",
          (torch::rand({c.conv_dim(), c.conv}, generator) * 2 - 1) / std::sqrt(double(c.conv)));
      // Decays start between exp(-0.001) and exp(-1.6) a token, as in Mamba 2.
      const Tensor dt = uniform(c.n_v_head, std::log(1e-3), std::log(1e-1)).exp();
      add(b + "ssm_dt.bias", dt + torch::log(-torch::expm1(-dt)));
      add(b + "ssm_a",
          uniform(c.n_v_head, 1.0, 16.0).log());  // log of the rate; the file holds -exp of it
      normal(b + "ssm_beta.weight", {c.n_v_head, e}, in);
      normal(b + "ssm_alpha.weight", {c.n_v_head, e}, in);
      add(b + "ssm_norm.weight", torch::ones({c.state}));
      normal(b + "ssm_out.weight", {e, c.value_dim()}, out / std::sqrt(double(c.value_dim())));
    } else {
      const int64_t width = c.n_head * c.head_dim;
      normal(b + "attn_q.weight", {2 * width, e}, in);
      normal(b + "attn_k.weight", {c.n_head_kv * c.head_dim, e}, in);
      normal(b + "attn_v.weight", {c.n_head_kv * c.head_dim, e}, in);
      normal(b + "attn_output.weight", {e, width}, out / std::sqrt(double(width)));
      add(b + "attn_q_norm.weight", torch::ones({c.head_dim}));
      add(b + "attn_k_norm.weight", torch::ones({c.head_dim}));
    }
    normal(b + "ffn_gate_inp.weight", {c.n_expert, e}, in);
    normal(b + "ffn_gate_exps.weight", {c.n_expert, c.n_ff, e}, in);
    normal(b + "ffn_up_exps.weight", {c.n_expert, c.n_ff, e}, in);
    normal(b + "ffn_down_exps.weight", {c.n_expert, e, c.n_ff}, out / std::sqrt(double(c.n_ff)));
    add(b + "ffn_gate_inp_shexp.weight", torch::zeros({e}));
    normal(b + "ffn_gate_shexp.weight", {c.n_ff, e}, in);
    normal(b + "ffn_up_shexp.weight", {c.n_ff, e}, in);
    normal(b + "ffn_down_shexp.weight", {e, c.n_ff}, out / std::sqrt(double(c.n_ff)));
    if (i == c.n_layer) {
      normal(b + "nextn.eh_proj.weight", {e, 2 * e}, in / std::sqrt(2.0));
      for (const char* name : {"enorm", "hnorm", "shared_head_norm"}) {
        add(b + "nextn." + name + ".weight", torch::ones({e}));
      }
    }
  }
}

int64_t Model::n_parameters() const {
  int64_t n = 0;
  for (const auto& [name, value] : parameters_) n += value.numel();
  return n;
}

const Tensor& Model::at(int64_t layer, std::string_view name) const {
  return parameters_.at("blk." + std::to_string(layer) + "." + std::string(name));
}

Tensor Model::matrix(const std::string& name) const {
  const Tensor& w = parameters_.at(name);
  return quantised_ ? rounded_to_four_bits(w) : w;
}

Tensor Model::matrix(int64_t layer, std::string_view name) const {
  return matrix("blk." + std::to_string(layer) + "." + std::string(name));
}

Tensor Model::embed(const Tensor& tokens) const {
  return torch::embedding(matrix("token_embd.weight"), tokens);
}

Tensor Model::linear(const Tensor& x, const Tensor& w) const {
  return torch::linear(x.to(compute_), w.to(compute_));
}

Tensor Model::rotate(const Tensor& x) const {
  // With one position per token the three-axis rotation of the file's sections is this one.
  return train::rotate(x, config_.n_rot, config_.rope_base);
}

Tensor Model::delta_layer(const Tensor& x, int64_t i) const {
  const ModelConfig& c = config_;
  const int64_t b = x.size(0), t = x.size(1), n = c.n_v_head;
  const Tensor mixed = conv_unit(linear(x, matrix(i, "attn_qkv.weight")),
                                 at(i, "ssm_conv1d.weight"), c.n_k_head, c.eps);
  const Tensor z = linear(x, matrix(i, "attn_gate.weight")).view({b, t, n, c.state});
  const Tensor rates = torch::linear(
      x.to(torch::kFloat), torch::cat({at(i, "ssm_beta.weight"), at(i, "ssm_alpha.weight")}));
  const Tensor beta = rates.narrow(-1, 0, n).sigmoid();
  const Tensor dt = F::softplus(rates.narrow(-1, n, n) + at(i, "ssm_dt.bias"));
  const Tensor o = chunked_delta_rule(mixed, -dt * at(i, "ssm_a").exp(), beta, c.n_k_head);
  return linear(gated_norm(o, at(i, "ssm_norm.weight"), z, c.eps).view({b, t, c.value_dim()}),
                matrix(i, "ssm_out.weight"));
}

Tensor Model::attention_layer(const Tensor& x, int64_t i) const {
  const ModelConfig& c = config_;
  const int64_t b = x.size(0), t = x.size(1), group = c.n_head / c.n_head_kv;
  const Tensor both = linear(x, matrix(i, "attn_q.weight")).view({b, t, c.n_head, 2 * c.head_dim});
  const auto kv = [&](std::string_view name) {
    return linear(x, matrix(i, name)).view({b, t, c.n_head_kv, c.head_dim});
  };
  const auto head_norm = [&](const Tensor& y, std::string_view name) {
    return rms_norm(y, at(i, name), c.eps, torch::kFloat);
  };
  const Tensor gate = both.narrow(-1, c.head_dim, c.head_dim);
  const Tensor q = rotate(head_norm(both.narrow(-1, 0, c.head_dim), "attn_q_norm.weight"));
  const Tensor k = rotate(head_norm(kv("attn_k.weight"), "attn_k_norm.weight"));
  const auto heads = [&](const Tensor& y) { return y.to(compute_).transpose(1, 2); };
  const auto grouped = [&](const Tensor& y) { return heads(y).repeat_interleave(group, 1); };
  const Tensor mixed = causal_attention(heads(q), grouped(k), grouped(kv("attn_v.weight")));
  return linear((mixed.transpose(1, 2) * gate.sigmoid()).reshape({b, t, c.n_head * c.head_dim}),
                matrix(i, "attn_output.weight"));
}

Tensor Model::route(const Tensor& x, int64_t i, Forward& sums) const {
  // [N, X + 1] f32: the router's scores and the gate of the shared expert.
  const ModelConfig& c = config_;
  const Tensor both = torch::linear(
      x.to(torch::kFloat),
      torch::cat({at(i, "ffn_gate_inp.weight"), at(i, "ffn_gate_inp_shexp.weight").unsqueeze(0)}));
  const Tensor scores = both.narrow(-1, 0, c.n_expert);
  const Tensor probabilities = scores.softmax(-1);
  const Tensor chosen = std::get<1>(probabilities.detach().topk(c.n_expert_used, -1));
  const Tensor mask = torch::zeros_like(probabilities).scatter(-1, chosen, 1.0);
  const Tensor kept = probabilities * mask;
  const Tensor load = mask.mean(0) / double(c.n_expert_used);
  sums.balance = sums.balance + (load * probabilities.mean(0)).sum() * double(c.n_expert);
  sums.router_z = sums.router_z + scores.logsumexp(-1).square().mean();
  sums.load = torch::cat({sums.load, load.detach().unsqueeze(0)});
  return torch::cat({kept / kept.sum(-1, true), both.narrow(-1, c.n_expert, 1).sigmoid()}, -1);
}

Tensor Model::experts(const Tensor& x, int64_t i, Forward& sums) const {
  // Few experts: all of them run on every token as one wide feed-forward layer whose hidden units
  // are scaled by the weight of their expert, zero if it was not chosen. The shared expert, which
  // is as wide as another, is the last block of it.
  const ModelConfig& c = config_;
  const int64_t width = (c.n_expert + 1) * c.n_ff;
  const Tensor flat = x.reshape({-1, c.n_embd});
  const auto rows = [&](std::string_view name) { return matrix(i, name).reshape({-1, c.n_embd}); };
  const Tensor gate_up =
      linear(flat, torch::cat({rows("ffn_gate_exps.weight"), rows("ffn_gate_shexp.weight"),
                               rows("ffn_up_exps.weight"), rows("ffn_up_shexp.weight")}));
  const Tensor down =
      torch::cat({matrix(i, "ffn_down_exps.weight").permute({1, 0, 2}).reshape({c.n_embd, -1}),
                  matrix(i, "ffn_down_shexp.weight")},
                 1);
  return linear(gated_unit(gate_up.view({-1, 2, width}), route(flat, i, sums)), down)
      .view(x.sizes());
}

Tensor Model::block(const Tensor& x, int64_t i, Forward& sums) const {
  const Tensor normed = rms_norm(x, at(i, "attn_norm.weight"), config_.eps, compute_);
  const Tensor mixed =
      x + (config_.is_recurrent(i) ? delta_layer(normed, i) : attention_layer(normed, i));
  return mixed +
         experts(rms_norm(mixed, at(i, "post_attention_norm.weight"), config_.eps, compute_), i,
                 sums);
}

Tensor Model::blocks(const Tensor& x, int64_t from, int64_t to, Forward& sums) const {
  Tensor y = x;
  for (int64_t i = from; i < to; ++i) y = block(y, i, sums);
  return y;
}

Forward Model::empty_sums() const {
  const auto options = torch::device(device_).dtype(torch::kFloat);
  return {{},
          torch::zeros({}, options),
          torch::zeros({}, options),
          torch::zeros({0, config_.n_expert}, options)};
}

Forward Model::forward(const Tensor& tokens) const {
  Forward out = empty_sums();
  const Tensor x = blocks(embed(tokens), 0, config_.n_layer, out);
  out.hidden = rms_norm(x, parameters_.at("output_norm.weight"), config_.eps, compute_);
  return out;
}

Tensor Model::layer_outputs(const Tensor& tokens, const std::vector<int64_t>& layers) const {
  Forward sums = empty_sums();
  Tensor x = embed(tokens);
  std::vector<Tensor> outputs;
  int64_t done = 0;
  for (const int64_t layer : layers) {
    x = blocks(x, done, layer + 1, sums);
    done = layer + 1;
    outputs.push_back(x);
  }
  return torch::cat(outputs, -1);
}

Tensor Model::forward_mtp(const Tensor& hidden, const Tensor& next, Forward& sums) const {
  const int64_t i = config_.n_layer;
  const Tensor joined =
      torch::cat({rms_norm(embed(next), at(i, "nextn.enorm.weight"), config_.eps, compute_),
                  rms_norm(hidden, at(i, "nextn.hnorm.weight"), config_.eps, compute_)},
                 -1);
  const Tensor x = linear(joined, matrix(i, "nextn.eh_proj.weight")).to(torch::kFloat);
  return rms_norm(block(x, i, sums), at(i, "nextn.shared_head_norm.weight"), config_.eps, compute_);
}

Tensor Model::logits(const Tensor& hidden) const {
  return linear(hidden, matrix("token_embd.weight"));
}

Tensor Model::cross_entropy(const Tensor& hidden, const Tensor& target, Tensor* choice) const {
  const Tensor loss =
      mean_cross_entropy(hidden.reshape({-1, config_.n_embd}),
                         matrix("token_embd.weight").to(compute_), target.reshape({-1}), choice);
  if (choice != nullptr) *choice = choice->view(target.sizes());
  return loss;
}

}  // namespace chimere::train
