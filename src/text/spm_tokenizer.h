// SentencePiece's byte-pair encoding ("llama" in GGUF): pieces with scores instead of merges.
// T. Kudo and J. Richardson, SentencePiece: A simple and language independent subword tokenizer and
// detokenizer for Neural Text Processing (2018).
#ifndef CHIMERE_TEXT_SPM_TOKENIZER_H_
#define CHIMERE_TEXT_SPM_TOKENIZER_H_

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/byte_pair.h"
#include "text/vocabulary_tokenizer.h"

namespace chimere::text {

/// Neighbours are merged if the result is a piece: the highest score first, the leftmost among
/// equals. Spaces are written as U+2581. Characters outside all pieces become byte tokens (<0xNN>),
/// or the unknown token if the vocabulary has no byte tokens.
class SpmTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);

  /// Removes the space that encode() puts before each fragment of text (add_space_prefix), so that
  /// texts round-trip (except that U+2581 becomes a space).
  std::string decode(std::span<const int32_t> ids, bool special) const override;

 private:
  class Encoder;

  explicit SpmTokenizer(Vocabulary vocabulary);
  std::unique_ptr<Fragments> start() const override;
  std::string piece_bytes(int32_t id) const override;
  Status index_pieces();
  void index_merges(const std::vector<int32_t>& ranks);
  std::string added_text(int32_t id) const override;
  std::string added_bytes(int32_t id) const override { return piece_bytes(id); }
  /// User-defined runs of spaces are ordinary pieces; as added tokens they match where a text
  /// contains U+2581 itself. (Hugging Face's library behaves in the same way.)
  bool is_space_run(int32_t id) const;
  /// The text of a piece that merges may produce; empty: none.
  std::string mergeable_text(int32_t id) const;
  int32_t find_piece(std::string_view text) const;
  int32_t add_character(uint32_t code);
  int32_t symbol_of(std::string_view text) const;

  std::array<int32_t, 256> byte_token_;  ///< -1: none
  /// Characters of pieces; those that are not pieces themselves have numbers from n_tokens() on.
  std::unordered_map<uint32_t, int32_t> character_symbol_;
  std::vector<uint32_t> extra_characters_;
  std::unordered_map<std::string, int32_t> space_runs_;
  std::unique_ptr<MergeTable> merges_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_SPM_TOKENIZER_H_
