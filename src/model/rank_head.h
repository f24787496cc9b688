// The head of rerankers: from a hidden state to the score of a query and a document.
#ifndef CHIMERE_MODEL_RANK_HEAD_H_
#define CHIMERE_MODEL_RANK_HEAD_H_

#include <memory>
#include <span>
#include <vector>

#include "model/pooling.h"

namespace chimere::model {

struct ModelSpec;
class WeightBinder;

/// "cls.output" · f("cls" · x), where f is tanh, or for ModernBERT GELU and a layer norm
/// ("cls.norm"); either matrix may be missing. Computed on the host in double precision.
class RankHead {
 public:
  /// Problems: see WeightBinder.
  static std::unique_ptr<RankHead> bind(const ModelSpec& model, WeightBinder& weights);

  /// What the head reads: kCls, kLast or kMean.
  Pooling input() const { return input_; }
  /// Numbers that it computes: the logit of relevance, or the logits of "yes" and "no".
  size_t outputs() const;
  /// `hidden`: [n_embd]. Returns [outputs()].
  std::vector<double> logits(std::span<const double> hidden) const;
  /// The probability that the document is relevant, from logits(): the sigmoid of one, or the
  /// softmax's first of two.
  static double probability(std::span<const double> logits);

 private:
  struct Linear {
    std::vector<float> weight;  ///< [n_out, n_in]; empty: there is none
    std::vector<float> bias;    ///< [n_out], or empty
    size_t n_out = 0;

    std::vector<double> apply(std::span<const double> x) const;
  };
  static Linear bind_linear(const char* name, int64_t n_out, int64_t n_in, WeightBinder& weights);

  Pooling input_ = Pooling::kCls;
  bool gelu_ = false;  ///< f; else tanh
  float norm_eps_ = 0;
  Linear dense_;
  std::vector<float> norm_;  ///< [dense_.n_out], or empty
  Linear output_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_RANK_HEAD_H_
