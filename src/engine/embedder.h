// Texts to vectors, with an embedding model.
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

/// Several texts share a step, and what a text's vector is does not depend on the others: its bits
/// are those that it has alone. One call at a time.
class Embedder {
 public:
  /// Most texts in a step; the model's states must have room for so many.
  static constexpr int kMaxTexts = 32;

  /// `max_step_rows`: of one forward(), at most what the model was loaded with. Model and tokenizer
  /// must outlive the embedder. Errors: kUnsupported (the model pools nothing: it writes text),
  /// kInvalidArgument (steps too small).
  static Result<std::unique_ptr<Embedder>> create(model::Model& model,
                                                  const text::Tokenizer& tokenizer,
                                                  int32_t max_step_rows, int64_t context);

  /// Elements of a vector.
  int64_t dimensions() const { return model_.n_outputs(); }
  /// Most tokens of a text.
  int64_t context() const { return context_; }

  /// A text as the model wants it: with BOS and EOS where the file says so. Any thread.
  std::vector<int32_t> encode(const std::string& text) const;

  /// A vector of length 1 for each text, pooled as the model's file says from the final hidden
  /// states. Errors: kInvalidArgument (a text without tokens or beyond the context, a token that
  /// does not exist), those of Model::forward().
  Result<std::vector<std::vector<float>>> embed(std::span<const std::vector<int32_t>> texts);

 private:
  struct Reading;

  Embedder(model::Model& model, const text::Tokenizer& tokenizer, int32_t max_step_rows,
           int64_t context)
      : model_(model), tokenizer_(tokenizer), max_step_rows_(max_step_rows), context_(context) {}

  Status check(std::span<const std::vector<int32_t>> texts) const;
  Status read(std::vector<Reading>& reading);

  model::Model& model_;
  const text::Tokenizer& tokenizer_;
  int32_t max_step_rows_;
  int64_t context_;
};

/// The first `dimensions` elements, made a vector of length 1 again: models trained for it
/// (Matryoshka representations, Kusupati et al. 2022, arXiv:2205.13147) say most in the first ones.
void shorten(std::vector<float>& vector, int64_t dimensions);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_EMBEDDER_H_
