// The inputs of rerankers: a query and a document as one text.
#ifndef CHIMERE_ENGINE_RERANKER_H_
#define CHIMERE_ENGINE_RERANKER_H_

#include <string>

#include "base/result.h"
#include "engine/embedder.h"
#include "gguf/reader.h"

namespace chimere::engine {

/// How a model joins a query and a document.
class PairFormat {
 public:
  /// From a file: its template ("tokenizer.chat_template.rerank"), that of Qwen3-Reranker for
  /// decoders without one, or for encoders the tokenizer's separators. Errors: kInvalidData (a
  /// template without its places), those of the reader.
  static Result<PairFormat> of_file(const gguf::Reader& file, bool encoder);

  /// The pair as the model reads it. Documents that are too long for the context lose their end.
  /// Errors: kInvalidArgument (the query alone is too long).
  /// `most`: documents also lose what exceeds so many tokens; 0: no other limit.
  Result<EmbeddingInput> join(const Embedder& reranker, const std::string& query,
                              const std::string& document, int64_t most = 0) const;

 private:
  /// Cuts `document` to the tokens that fit beside the others. Errors: those of join().
  static Status fit(const Embedder& reranker, size_t others, std::vector<int32_t>& document);
  Result<EmbeddingInput> filled(const Embedder& reranker, const std::string& query,
                                const std::string& document, int64_t most) const;

  std::string template_;  ///< with {query} and {document}; empty: separators
  int separators_ = 1;    ///< EOS tokens between the two
};

/// The relevance of a document, from 0 to 1, from the result of Embedder for its pair.
double relevance(const std::vector<float>& logits);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_RERANKER_H_
