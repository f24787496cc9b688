// Text embeddings and scores of pairs, computed by an embedding model or a reranker.
#ifndef CHIMERE_ENGINE_EMBEDDER_H_
#define CHIMERE_ENGINE_EMBEDDER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace chimere::engine {

/// One text, or the two texts of a pair one after the other.
struct EmbeddingInput {
  std::vector<int32_t> tokens;
  /// Where the second text of a pair begins, for models that distinguish the two
  /// (Model::has_segments()); 0: nowhere.
  int32_t second_segment = 0;
};

/// Several texts share a step. The vector of a text has the same bits whatever other texts are in
/// the step. Not thread-safe, except where stated.
class Embedder {
 public:
  /// Most texts in one step; the model's state store must hold as many sequences.
  static constexpr int kMaxTexts = 64;

  /// `max_step_rows`: rows of one forward() call, at most what the model was loaded with.
  /// `context`: most tokens of one text. Model and tokenizer must outlive the embedder. Errors:
  /// kUnsupported (the model generates text and has no pooling), kInvalidArgument (`max_step_rows`
  /// is too small for a chunk, or an encoder's context).
  static Result<std::unique_ptr<Embedder>> create(model::Model& model,
                                                  const text::Tokenizer& tokenizer,
                                                  int32_t max_step_rows, int64_t context);
  ~Embedder();
  Embedder(const Embedder&) = delete;
  Embedder& operator=(const Embedder&) = delete;

  const model::Model& model() const { return model_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  /// Whether it scores pairs (pooling kRank) instead of embedding texts.
  bool ranks() const { return model_.rank_head() != nullptr; }
  /// Elements of a vector; of one row's with pooling kNone.
  int64_t dimensions() const;
  /// Most tokens of a text.
  int64_t context() const { return context_; }

  /// Tokens of a text, with BOS and EOS where the model file asks for them. Any thread.
  std::vector<int32_t> encode(const std::string& text) const;

  /// Whether the model can read the text. Any thread. Errors: kInvalidArgument (an empty text, a
  /// text longer than the context, a token id out of range, a second segment that the model does
  /// not have).
  Status check(const EmbeddingInput& text) const;

  /// The result of a text: for embedding models a vector of Euclidean length 1, the final hidden
  /// states pooled as the model file says (with kNone one such vector per row, one after the
  /// other); for rerankers the logits of RankHead.
  using Done = std::function<void(Result<std::vector<float>>)>;
  /// Adds a text; step() calls `done`. The text must have passed check().
  void add(EmbeddingInput text, Done done);
  /// Texts that wait or are being computed.
  size_t pending() const { return waiting_.size() + active_.size(); }
  /// Computes one step of as many texts as fit, in order of arrival, and reports those that are
  /// complete. If the step fails, all its texts get the error of Model::forward().
  void step();

  /// The results of all texts, in their order. None may be pending. Errors: those of check() and of
  /// Model::forward().
  Result<std::vector<std::vector<float>>> compute(std::span<const EmbeddingInput> texts);
  /// compute() of single texts.
  Result<std::vector<std::vector<float>>> embed(std::span<const std::vector<int32_t>> texts);

 private:
  struct Text;
  using ModelPooling = model::Pooling;

  Embedder(model::Model& model, const text::Tokenizer& tokenizer, int32_t max_step_rows,
           int64_t context);

  /// The pooling of hidden states: for rerankers that of the head's input.
  ModelPooling pooling() const;
  /// The rows of the text's next chunks, at most `free_rows`; no tokens if none fits.
  model::SequenceRows next_rows(Text& text, size_t free_rows) const;
  void pool(Text& text, const float* hidden) const;
  std::vector<float> result_of(const Text& text) const;

  model::Model& model_;
  const text::Tokenizer& tokenizer_;
  int32_t max_step_rows_;
  int64_t context_;
  std::deque<std::unique_ptr<Text>> waiting_;
  std::deque<std::unique_ptr<Text>> active_;
};

/// Truncates the vector to its first `dimensions` elements and normalises it to length 1 again, for
/// models trained with Matryoshka representations (Kusupati et al. 2022, arXiv:2205.13147).
void shorten(std::vector<float>& vector, int64_t dimensions);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_EMBEDDER_H_
