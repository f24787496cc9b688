// The models that retrieval uses, as interfaces: the caller adapts an embedder or a reranker.
#ifndef CHIMERE_RETRIEVAL_TEXT_MODELS_H_
#define CHIMERE_RETRIEVAL_TEXT_MODELS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace chimere::retrieval {

/// Texts to vectors. Implementations may be called from any thread.
class TextEmbedder {
 public:
  TextEmbedder() = default;
  virtual ~TextEmbedder() = default;
  TextEmbedder(const TextEmbedder&) = delete;
  TextEmbedder& operator=(const TextEmbedder&) = delete;

  /// Identifies the weights and the pooling: vectors of different identities are not comparable.
  virtual std::string identity() const = 0;
  /// Elements of a vector, 1 to 8192.
  virtual int64_t dimensions() const = 0;
  /// A vector of Euclidean length 1 for each text, in their order. Texts that are too long for the
  /// model lose their end. Errors: those of the model.
  virtual Result<std::vector<std::vector<float>>> embed(std::span<const std::string> texts) = 0;
};

/// Scores passages against a query. Implementations may be called from any thread.
class TextReranker {
 public:
  TextReranker() = default;
  virtual ~TextReranker() = default;
  TextReranker(const TextReranker&) = delete;
  TextReranker& operator=(const TextReranker&) = delete;

  /// The relevance of each passage, from 0 to 1, in their order. Errors: those of the model.
  virtual Result<std::vector<double>> score(const std::string& query,
                                            std::span<const std::string> passages) = 0;
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_TEXT_MODELS_H_
