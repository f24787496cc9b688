// Common base of all tokenizers: checks of the vocabulary, added tokens, lookups.
#ifndef CHIMERE_TEXT_VOCABULARY_TOKENIZER_H_
#define CHIMERE_TEXT_VOCABULARY_TOKENIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace chimere::text {

/// Splits a text at its added tokens; derived classes encode the fragments between them.
class VocabularyTokenizer : public Tokenizer {
 public:
  int32_t n_tokens() const override { return static_cast<int32_t>(vocabulary_.tokens.size()); }
  int32_t bos() const override { return vocabulary_.bos; }
  int32_t eos() const override { return vocabulary_.eos; }
  bool add_bos() const override { return vocabulary_.add_bos; }
  bool add_eos() const override { return vocabulary_.add_eos; }
  bool is_control(int32_t id) const override;
  bool is_end_of_generation(int32_t id) const override;
  int32_t find(std::string_view token_text) const override;
  std::string token_bytes(int32_t id, bool special) const override;

 protected:
  explicit VocabularyTokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  /// Checks sizes and ids, and fills the lookups. Must be called once, first.
  Status index();

  std::vector<int32_t> encode_where(std::string_view text,
                                    const AddedTokenRanges& where) const final;
  /// Encodes the text of one call; fragments arrive in order. One object per call, so that it can
  /// keep its memory.
  class Fragments {
   public:
    virtual ~Fragments() = default;
    /// `text` is not empty; it begins and ends where the whole text or an added token does.
    virtual void encode(std::string_view text, std::vector<int32_t>& out) = 0;
  };
  virtual std::unique_ptr<Fragments> start() const = 0;
  /// The bytes of a normal, unused or byte token.
  virtual std::string piece_bytes(int32_t id) const = 0;
  /// The text of an added token, in encoding and decoding.
  virtual std::string added_text(int32_t id) const { return vocabulary_.tokens[id]; }
  virtual std::string added_bytes(int32_t id) const { return vocabulary_.tokens[id]; }

  bool in_range(int32_t id) const { return id >= 0 && id < n_tokens(); }
  TokenType type(int32_t id) const { return static_cast<TokenType>(vocabulary_.types[id]); }
  /// Control, user-defined or unknown tokens, which ordinary text never becomes.
  bool is_added(int32_t id) const;

  Vocabulary vocabulary_;

 private:
  void mark_end_of_generation();

  std::unordered_map<std::string_view, int32_t> by_text_;  ///< views into vocabulary_.tokens
  SpecialTokens specials_;
  std::vector<bool> end_of_generation_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_VOCABULARY_TOKENIZER_H_
