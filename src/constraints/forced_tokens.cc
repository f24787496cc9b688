#include "constraints/forced_tokens.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace chimere::constraints {
namespace {

constexpr size_t kContextTokens = 16;

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
  const std::vector<int32_t> ids = tokenizer.encode(text, false);
  // Where the forced text begins.
  size_t begin = 0;
  size_t bytes = 0;
  while (begin < ids.size() && bytes < before) {
    bytes += tokenizer.token_bytes(ids[begin++], false).size();
  }
  if (bytes != before) {
    // The newest token would have been another one, had it been known what follows.
    if (before == 0) return {};
    return canonical_tokens(matcher, tokenizer, {}, forced, limit);
  }
  // Those that later text could divide in another way.
  const size_t settled = before + matcher.settled(forced);
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
