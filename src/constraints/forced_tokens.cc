#include "constraints/forced_tokens.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace chimere::constraints {
namespace {

constexpr size_t kContextTokens = 16;

/// Beginnings of texts that tokenizers attach to what stands before them in different ways.
constexpr std::string_view kContinuations[] = {
    "a",   "s",    "t",   "Z",  "_",  "1",   "-",   ".",   " ",  "  ",       " a",
    "\n",  "\n\n", "\n ", "\t", "\"", "\":", "\",", "\"}", "'s", "'",        ",",
    ", ",  ":",    ": ",  "}",  "}}", "]",   "],",  ")",   "(",  "[",        "[{",
    "[\"", "{\"",  "{",   "<",  "</", ">",   "=",   "/",   "\\", "\xC3\xA9", "\xE6\x97\xA5",
};

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
  // Where the forced text begins, and whether the text before it is divided as it was.
  size_t begin = 0;
  size_t bytes = 0;
  while (begin < ids.size() && bytes < before) {
    bytes += tokenizer.token_bytes(ids[begin++], false).size();
  }
  if (bytes != before) return {};
  // The first tokens of the context may have been cut off from others.
  const size_t common = std::min({begin, tokens.size(), kContextTokens / 2});
  if (!std::equal(ids.begin() + static_cast<std::ptrdiff_t>(begin - common),
                  ids.begin() + static_cast<std::ptrdiff_t>(begin),
                  tokens.end() - static_cast<std::ptrdiff_t>(common), tokens.end())) {
    return {};
  }
  size_t stable = ids.size();
  for (const std::string_view more : kContinuations) {
    if (!matcher.may_follow(forced, more.substr(0, 1))) continue;
    const std::vector<int32_t> longer = tokenizer.encode(text + std::string(more), false);
    const auto differs = std::ranges::mismatch(ids, longer);
    stable = std::min(stable, static_cast<size_t>(differs.in1 - ids.begin()));
    if (stable <= begin) return {};
  }
  stable = std::min(stable, begin + limit);
  return {ids.begin() + static_cast<std::ptrdiff_t>(begin),
          ids.begin() + static_cast<std::ptrdiff_t>(stable)};
}

}  // namespace chimere::constraints
