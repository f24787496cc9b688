// Text embeddings, computed by an embedding model.
#ifndef CHIMERE_ENGINE_EMBEDDER_H_
#define CHIMERE_ENGINE_EMBEDDER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace chimere::engine {

/// Several texts share a step. The vector of a text has the same bits whatever other texts are in
/// the step. One call at a time.
class Embedder {
 public:
  /// Most texts in one step; the model's state store must hold as many sequences.
  static constexpr int kMaxTexts = 32;

  /// `max_step_rows`: rows of one forward() call, at most what the model was loaded with.
  /// `context`: most tokens of one text. Model and tokenizer must outlive the embedder. Errors:
  /// kUnsupported (the model generates text and has no pooling), kInvalidArgument (`max_step_rows`
  /// is too small).
  static Result<std::unique_ptr<Embedder>> create(model::Model& model,
                                                  const text::Tokenizer& tokenizer,
                                                  int32_t max_step_rows, int64_t context);

  /// Elements of a vector.
  int64_t dimensions() const { return model_.n_outputs(); }
  /// Most tokens of a text.
  int64_t context() const { return context_; }

  /// Tokens of a text, with BOS and EOS where the model file asks for them. Any thread.
  std::vector<int32_t> encode(const std::string& text) const;

  /// One vector of Euclidean length 1 per text: the final hidden states, pooled as the model file
  /// specifies. Errors: kInvalidArgument (an empty text, a text longer than the context, a token id
  /// out of range), those of Model::forward().
  Result<std::vector<std::vector<float>>> embed(std::span<const std::vector<int32_t>> texts);

 private:
  struct ActiveText;

  Embedder(model::Model& model, const text::Tokenizer& tokenizer, int32_t max_step_rows,
           int64_t context)
      : model_(model), tokenizer_(tokenizer), max_step_rows_(max_step_rows), context_(context) {}

  Status check(std::span<const std::vector<int32_t>> texts) const;
  Status compute_step(std::vector<ActiveText>& active);

  model::Model& model_;
  const text::Tokenizer& tokenizer_;
  int32_t max_step_rows_;
  int64_t context_;
};

/// Truncates the vector to its first `dimensions` elements and normalises it to length 1 again, for
/// models trained with Matryoshka representations (Kusupati et al. 2022, arXiv:2205.13147).
void shorten(std::vector<float>& vector, int64_t dimensions);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_EMBEDDER_H_
