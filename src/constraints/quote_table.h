// What the tokens of a vocabulary have behind their quotes.
#ifndef CHIMERE_CONSTRAINTS_QUOTE_TABLE_H_
#define CHIMERE_CONSTRAINTS_QUOTE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraints/byte_trie.h"
#include "constraints/flat_map.h"

namespace chimere::constraints {

/// A set of QuoteTable::tokens: bits.
using TailSet = std::vector<uint64_t>;

/// The tails of tokens: for each quote in each token that is not its last byte, the bytes behind
/// the quote. Strings end at quotes, so these are the bytes that are read by what follows a string,
/// whatever the string is: they are walked once for all strings.
struct QuoteTable {
  /// The tails as a trie whose `tokens` are the numbers of tails, ascending.
  ByteTrie tails;
  std::vector<int32_t> tokens;  ///< of each tail

  /// Numbers of the tails of the tokens below a node of the vocabulary's trie that a quote leads
  /// to, behind this quote.
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  FlatMap<Range> at_node;
  std::vector<uint32_t> numbers;  ///< of tails, in the ranges of `at_node`

  /// False if the vocabulary's tokens have so many quotes that their tails take too much memory.
  bool known = false;

  /// Whether a tail has two quotes.
  bool has_strings(size_t tail) const { return (with_strings[tail / 64] >> (tail % 64) & 1) != 0; }
  TailSet with_strings;

  size_t words() const { return (tokens.size() + 63) / 64; }
  void add(TailSet& set, uint32_t node) const;

  /// `text`: the bytes of a token.
  template <typename Text>
  static QuoteTable build(const ByteTrie& trie, Text&& text);

 private:
  struct Tail {
    uint32_t node = 0;
    int32_t token = -1;
    uint32_t depth = 0;  ///< of the quote's end
  };
  static std::vector<Tail> find_tails(const ByteTrie& trie);
  void fill(const std::vector<Tail>& found,
            std::vector<std::pair<std::string_view, int32_t>> entries);
};

template <typename Text>
QuoteTable QuoteTable::build(const ByteTrie& trie, Text&& text) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  QuoteTable table;
  const std::vector<Tail> found = find_tails(trie);
  std::vector<std::pair<std::string_view, int32_t>> entries;
  size_t bytes = 0;
  for (const Tail& tail : found) {
    const std::string_view rest = text(tail.token).substr(tail.depth);
    bytes += rest.size() + sizeof(Tail);
    if (bytes > kMostBytes) return table;
    entries.emplace_back(rest, static_cast<int32_t>(entries.size()));
  }
  table.fill(found, std::move(entries));
  return table;
}

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_QUOTE_TABLE_H_
