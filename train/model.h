// The hybrid mixture-of-experts model, as a dictionary of parameters that carry their GGUF names.
#ifndef CHIMERE_TRAIN_MODEL_H_
#define CHIMERE_TRAIN_MODEL_H_

#include <torch/torch.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config.h"

namespace chimere::train {

/// The results of a forward pass. N = B * T rows in batch order.
struct Forward {
  torch::Tensor hidden;  ///< [B, T, E], after the last norm
  torch::Tensor
      balance;  ///< load-balancing loss (Fedus et al. 2021, arXiv:2101.03961), 1 at uniform load
  torch::Tensor router_z;  ///< mean squared log-partition of the routers
  torch::Tensor load;      ///< [layers, X] fraction of the routed slots, no gradient
};

/// `qwen35moe`: RMSNorm -> gated delta rule or gated attention -> RMSNorm -> experts, n_layer
/// times, and one MTP head. Shapes are those of the GGUF tensors in reverse (the first dimension
/// is the slowest). Weights are f32; activations between them are in `compute` (f32 or bf16), sums
/// of norms, routers and the state rule in f32.
class Model {
 public:
  /// Draws initial weights from the seed.
  Model(const ModelConfig& config, uint64_t seed, torch::Device device, torch::Dtype compute);

  const ModelConfig& config() const { return config_; }
  std::map<std::string, torch::Tensor>& parameters() { return parameters_; }
  const std::map<std::string, torch::Tensor>& parameters() const { return parameters_; }
  int64_t n_parameters() const;

  /// Whether the matrices that files store in four bits are rounded in forward passes; gradients
  /// ignore the rounding.
  void set_quantised(bool on) { quantised_ = on; }

  /// tokens [B, T] int64.
  Forward forward(const torch::Tensor& tokens) const;
  /// The residual stream after some layers (rising, from 0), concatenated: [B, T, layers * E] f32.
  /// Later layers do not run.
  torch::Tensor layer_outputs(const torch::Tensor& tokens,
                              const std::vector<int64_t>& layers) const;
  /// The MTP head: from the hidden state of position t and the token at t + 1 to the hidden state
  /// that predicts the token at t + 2. hidden [B, T, E], next [B, T] -> [B, T, E]; adds its router
  /// losses to `sums`.
  torch::Tensor forward_mtp(const torch::Tensor& hidden, const torch::Tensor& next,
                            Forward& sums) const;
  /// Logits [.., V] in `compute` of hidden states; the embedding is the output matrix too.
  torch::Tensor logits(const torch::Tensor& hidden) const;
  /// Mean cross entropy of the logits of hidden states [B, T, E] against target [B, T], in nats.
  /// `choice`, if given, becomes the likeliest tokens [B, T].
  torch::Tensor cross_entropy(const torch::Tensor& hidden, const torch::Tensor& target,
                              torch::Tensor* choice = nullptr) const;

 private:
  const torch::Tensor& at(int64_t layer, std::string_view name) const;
  /// A matrix in f32, rounded to four bits if set_quantised() says so.
  torch::Tensor matrix(const std::string& name) const;
  torch::Tensor matrix(int64_t layer, std::string_view name) const;
  torch::Tensor embed(const torch::Tensor& tokens) const;
  torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& w) const;
  Forward empty_sums() const;
  torch::Tensor block(const torch::Tensor& x, int64_t layer, Forward& sums) const;
  /// The layers [from, to).
  torch::Tensor blocks(const torch::Tensor& x, int64_t from, int64_t to, Forward& sums) const;
  torch::Tensor delta_layer(const torch::Tensor& x, int64_t layer) const;
  torch::Tensor attention_layer(const torch::Tensor& x, int64_t layer) const;
  torch::Tensor experts(const torch::Tensor& x, int64_t layer, Forward& sums) const;
  torch::Tensor route(const torch::Tensor& x, int64_t layer, Forward& sums) const;
  torch::Tensor rotate(const torch::Tensor& x) const;
  void create(uint64_t seed);

  ModelConfig config_;
  torch::Device device_;
  torch::Dtype compute_;
  bool quantised_ = false;
  std::map<std::string, torch::Tensor> parameters_;
};

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_MODEL_H_
