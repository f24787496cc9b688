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

/// Words are what lies between spaces, punctuation and Chinese characters; each is cut into the
/// longest pieces from the left, and is unknown as a whole if that fails or if it has more than a
/// hundred characters. In GGUF pieces that begin a word carry U+2581, the others nothing. Text does
/// not come back exactly: spaces, and case and accents as the vocabulary says, are lost.
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
  /// A piece of that text; -1: none.
  int32_t find_piece(std::string_view text) const;

  size_t longest_piece_ = 0;  ///< bytes
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_WORD_PIECE_TOKENIZER_H_
