// Byte-level byte-pair encoding ("gpt2" in GGUF).
#ifndef CHIMERE_TEXT_BPE_TOKENIZER_H_
#define CHIMERE_TEXT_BPE_TOKENIZER_H_

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/byte_pair.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace chimere::text {

class BpeTokenizer final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);

  std::vector<int32_t> encode_trusted(std::string_view text,
                                      std::span<const TextRange> trusted) const override;
  std::string token_bytes(int32_t id, bool special) const override;
  int32_t n_tokens() const override { return static_cast<int32_t>(vocabulary_.tokens.size()); }
  int32_t bos() const override { return vocabulary_.bos; }
  int32_t eos() const override { return vocabulary_.eos; }
  bool add_bos() const override { return vocabulary_.add_bos; }
  bool is_control(int32_t id) const override;
  bool is_end_of_generation(int32_t id) const override;
  int32_t find(std::string_view token_text) const override;

 private:
  BpeTokenizer(Vocabulary vocabulary, std::unique_ptr<PreTokenizer> splitter);
  Status index_tokens();
  Status index_merges();
  void mark_end_of_generation();
  bool in_range(int32_t id) const { return id >= 0 && id < n_tokens(); }
  TokenType type(int32_t id) const { return static_cast<TokenType>(vocabulary_.types[id]); }
  void encode_word(std::string_view word, BytePairMerger& merger, std::vector<int32_t>& symbols,
                   std::vector<int32_t>& out) const;
  void append_symbol(int32_t symbol, std::vector<int32_t>& out) const;

  Vocabulary vocabulary_;
  std::unique_ptr<PreTokenizer> splitter_;
  std::unordered_map<std::string_view, int32_t> by_text_;  ///< views into vocabulary_.tokens
  std::array<int32_t, 256> byte_symbol_;
  MergeTable merges_;
  /// Symbols are token ids. Merges and bytes may name strings that are no tokens: those get the
  /// numbers from n_tokens() on, and here are their bytes. They are written as one token a byte.
  std::vector<std::string> extra_symbols_;
  SpecialTokens specials_;
  std::vector<bool> end_of_generation_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_BPE_TOKENIZER_H_
