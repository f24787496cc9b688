// WordPiece as BERT uses it ("bert" in GGUF).
// J. Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers (2019), appendix A.2.
#ifndef CHIMERE_TEXT_WORD_PIECE_TOKENIZER_H_
#define CHIMERE_TEXT_WORD_PIECE_TOKENIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary_tokenizer.h"

namespace chimere::text {

/// Words are separated by spaces, punctuation and Chinese characters. Each is split greedily into
/// the longest pieces from the left; if that fails, or above 100 characters, the whole word is
/// unknown. In GGUF, pieces that begin a word start with U+2581. Text does not round-trip: spaces
/// are lost, and case and accents if the vocabulary says so.
class WordPieceTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);
  /// Without the space before the first word.
  std::string decode(std::span<const int32_t> ids, bool special) const override;

 private:
  class Encoder;

  explicit WordPieceTokenizer(Vocabulary vocabulary) : VocabularyTokenizer(std::move(vocabulary)) {}
  std::unique_ptr<Fragments> start() const override;
  std::string piece_bytes(int32_t id) const override;
  /// The id of the piece with this text; -1: none.
  int32_t find_piece(std::string_view text) const;

  size_t longest_piece_ = 0;  ///< bytes
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_WORD_PIECE_TOKENIZER_H_
