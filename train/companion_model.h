// The embedder and the reranker: small `qwen3` transformers over passages of the documentation.
#ifndef CHIMERE_TRAIN_COMPANION_MODEL_H_
#define CHIMERE_TRAIN_COMPANION_MODEL_H_

#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "gguf/reader.h"
#include "model_file.h"

namespace chimere::train {

enum class CompanionKind {
  kEmbedder,  ///< a vector of length 1: the mean of the last hidden states
  kReranker,  ///< log-odds of `yes` over `no` as the next token
};

/// Hyper-parameters, named like their GGUF metadata.
struct CompanionConfig {
  int64_t n_vocab = 8192;
  int64_t n_layer = 3;
  int64_t n_embd = 128;
  int64_t n_ff = 256;
  int64_t n_head = 4;
  int64_t n_head_kv = 2;
  int64_t head_dim = 32;
  int64_t context = 512;
  double rope_base = 10000.0;
  double eps = 1e-6;
};

/// Texts of different lengths, padded on the right with token 0, which causal attention never sees.
struct Batch {
  torch::Tensor tokens;   ///< [B, T] int64
  torch::Tensor lengths;  ///< [B] int64, at least 1
};

/// RMSNorm -> grouped-query attention with normed queries and keys -> RMSNorm -> SwiGLU, n_layer
/// times. Parameters carry their GGUF names and reversed shapes; all is f32. The embedding is the
/// output matrix too.
class Companion {
 public:
  /// Draws initial weights from the seed.
  Companion(const CompanionConfig& config, uint64_t seed, torch::Device device);

  const CompanionConfig& config() const { return config_; }
  torch::Device device() const { return device_; }
  std::map<std::string, torch::Tensor>& parameters() { return parameters_; }
  const std::map<std::string, torch::Tensor>& parameters() const { return parameters_; }

  /// Whether matrices are rounded to Q4_0 in forward passes; gradients ignore the rounding.
  void set_quantised(bool on) { quantised_ = on; }

  /// [B, E], of length 1.
  torch::Tensor embed(const Batch& texts) const;
  /// Log-probabilities [B, V] of the token after each text.
  torch::Tensor next_token(const Batch& texts) const;

 private:
  torch::Tensor weight(const std::string& name) const;
  torch::Tensor weight(int64_t layer, const char* name) const;
  torch::Tensor forward(const torch::Tensor& tokens) const;
  torch::Tensor attention(const torch::Tensor& x, int64_t layer) const;
  torch::Tensor feed_forward(const torch::Tensor& x, int64_t layer) const;

  CompanionConfig config_;
  torch::Device device_;
  bool quantised_ = false;
  std::map<std::string, torch::Tensor> parameters_;
};

/// As write_model(); an embedder's file has pooling_type 1 (mean), a reranker's none: to runtimes
/// it is a model that writes text.
Status write_companion(const Companion& model, CompanionKind kind, const gguf::Reader& tokenizer,
                       Mix mix, const std::string& path);

/// The model of a file of any type, decoded to f32. Errors: kUnsupported (no qwen3), kInvalidData.
Result<std::unique_ptr<Companion>> read_companion(const gguf::Reader& file, torch::Device device);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_COMPANION_MODEL_H_
