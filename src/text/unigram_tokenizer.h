// SentencePiece's unigram language model ("t5" in GGUF), as XLM-RoBERTa and its relatives use it.
// T. Kudo, Subword Regularization (2018), arXiv:1804.10959.
#ifndef CHIMERE_TEXT_UNIGRAM_TOKENIZER_H_
#define CHIMERE_TEXT_UNIGRAM_TOKENIZER_H_

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/character_map.h"
#include "text/vocabulary_tokenizer.h"

namespace chimere::text {

/// Of all divisions of a text into pieces, the one whose scores, logarithms of probabilities, have
/// the largest sum. Before that, characters are replaced as the character map says, bytes that are
/// not UTF-8 become U+FFFD, spaces are written as U+2581, runs of them once if the vocabulary says
/// so, and one goes before each fragment of text (add_space_prefix). A character outside all pieces
/// costs 10 more than the worst piece and becomes its byte tokens, or the unknown token, which a
/// run of such characters has once. Texts do not round-trip.
class UnigramTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);
  /// Without the space before the text.
  std::string decode(std::span<const int32_t> ids, bool special) const override;

 private:
  class Encoder;

  explicit UnigramTokenizer(Vocabulary vocabulary);
  Status index_pieces();
  std::unique_ptr<Fragments> start() const override;
  std::string piece_bytes(int32_t id) const override;
  /// Pieces [begin, end) of sorted_ that start with the same text.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  /// The part of `range`, whose pieces agree in `depth` bytes, that continues with `byte`.
  Range narrowed(Range range, size_t depth, char byte) const;

  std::vector<int32_t> sorted_;  ///< pieces by text
  std::array<int32_t, 256> byte_token_;
  double unknown_score_ = 0;
  CharacterMap characters_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_UNIGRAM_TOKENIZER_H_
