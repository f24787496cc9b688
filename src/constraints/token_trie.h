// The vocabulary as a trie over bytes: what token masks are computed with.
#ifndef CHIMERE_CONSTRAINTS_TOKEN_TRIE_H_
#define CHIMERE_CONSTRAINTS_TOKEN_TRIE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constraints/byte_trie.h"
#include "constraints/quote_table.h"
#include "text/tokenizer.h"

namespace chimere::constraints {

class LeafMasks;

/// Begins the symbol of a token without text. The byte occurs in no UTF-8 text.
inline constexpr uint8_t kTokenByte = 0xFF;

/// A control token as machines read it: kTokenByte and the four bytes of its id, highest first.
inline constexpr size_t kSymbolBytes = 5;
std::array<uint8_t, kSymbolBytes> token_symbol(int32_t token);

/// A vocabulary as a trie, and the token masks that all constraints of the vocabulary share.
/// Immutable but for these masks; one object for each model; thread-safe.
///
/// Tokens with text are their bytes. Control tokens, and tokens that no UTF-8 text contains, are
/// their token_symbol(). Tokens that end a generation are not in the trie: Matcher handles them.
class TokenTrie {
 public:
  /// Takes about 0.1 s for 128k tokens. `vocabulary_size`: width of the model's logits where it is
  /// more than the tokenizer has; the tokens behind are never allowed.
  static std::shared_ptr<const TokenTrie> create(const text::Tokenizer& tokenizer,
                                                 int32_t vocabulary_size = 0);
  ~TokenTrie();
  TokenTrie(const TokenTrie&) = delete;
  TokenTrie& operator=(const TokenTrie&) = delete;

  int32_t vocabulary_size() const { return vocabulary_size_; }
  /// 32-bit words of a mask.
  size_t mask_words() const { return (static_cast<size_t>(vocabulary_size_) + 31) / 32; }
  /// The bytes that machines read for a token; empty for tokens that end a generation and ids out
  /// of range.
  std::string_view bytes(int32_t token) const;
  bool is_end_of_generation(int32_t token) const;
  /// The control token with a text like <tag>; -1: none.
  int32_t control(std::string_view text) const;
  /// Those that end a generation.
  std::span<const int32_t> end_tokens() const { return end_tokens_; }

  const ByteTrie& trie() const { return trie_; }
  const QuoteTable& quotes() const { return quotes_; }
  /// A mask of all tokens of trie().
  std::span<const uint32_t> all() const { return all_; }
  int32_t longest() const { return longest_; }  ///< bytes of the longest token

  LeafMasks& leaf_masks() const { return *leaf_masks_; }

 private:
  TokenTrie();

  int32_t vocabulary_size_ = 0;
  int32_t longest_ = 0;
  ByteTrie trie_;
  QuoteTable quotes_;
  std::vector<uint32_t> all_;
  std::vector<int32_t> end_tokens_;
  std::unordered_map<std::string, int32_t> controls_;
  std::string bytes_;              ///< of all tokens
  std::vector<uint32_t> offsets_;  ///< of a token's bytes; vocabulary_size + 1
  std::unique_ptr<LeafMasks> leaf_masks_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_TOKEN_TRIE_H_
