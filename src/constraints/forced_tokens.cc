#include "constraints/forced_tokens.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "constraints/white_space.h"

namespace chimere::constraints {
namespace {

constexpr size_t kContextTokens = 16;

/// Whether a text ends with several white-space characters. The last of them can be a token of its
/// own although no token contains it and what follows: pre-tokenizers look ahead.
bool ends_with_white_space(std::string_view text) {
  return text.size() > 1 && is_white_space(static_cast<uint8_t>(text.back())) &&
         is_white_space(static_cast<uint8_t>(text[text.size() - 2]));
}

}  // namespace

std::vector<int32_t> canonical_tokens(Matcher& matcher, const text::Tokenizer& tokenizer,
                                      std::span<const int32_t> tokens, std::string_view forced,
                                      size_t limit) {
  if (forced.empty() || limit == 0) return {};
  if (static_cast<uint8_t>(forced[0]) == kTokenByte) {
    if (forced.size() < kSymbolBytes) return {};
    uint32_t id = 0;
    for (const char c : forced.substr(1)) id = id << 8 | static_cast<uint8_t>(c);
    return {static_cast<int32_t>(id)};
  }
  // The last tokens with text.
  size_t first = tokens.size();
  while (first > 0 && tokens.size() - first < kContextTokens &&
         !tokenizer.token_bytes(tokens[first - 1], false).empty()) {
    --first;
  }
  tokens = tokens.subspan(first);
  std::string text;
  for (const int32_t token : tokens) text += tokenizer.token_bytes(token, false);
  const size_t before = text.size();
  text += forced;
  const size_t open_end = ends_with_white_space(text) ? 1 : 0;
  const std::vector<int32_t> ids = tokenizer.encode(text, false);
  // Where the forced text begins.
  size_t begin = 0;
  size_t bytes = 0;
  while (begin < ids.size() && bytes < before) {
    bytes += tokenizer.token_bytes(ids[begin++], false).size();
  }
  if (bytes != before) {
    // The newest token would have been another one, had it been known what follows.
    if (before == 0 || (open_end > 0 && forced.size() == 1)) return {};
    return canonical_tokens(matcher, tokenizer, {}, forced, limit);
  }
  // Those that later text could divide in another way.
  const size_t settled = before + std::min(matcher.settled(forced), forced.size() - open_end);
  size_t stable = begin;
  while (stable < std::min(ids.size(), begin + limit)) {
    bytes += tokenizer.token_bytes(ids[stable], false).size();
    if (bytes > settled) break;
    ++stable;
  }
  return {ids.begin() + static_cast<std::ptrdiff_t>(begin),
          ids.begin() + static_cast<std::ptrdiff_t>(stable)};
}

}  // namespace chimere::constraints
