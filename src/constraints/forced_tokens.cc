#include "constraints/forced_tokens.h"

#include <algorithm>
#include <optional>
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

/// The tokens of `text` from byte `from`; nullopt if no token begins there. Counted from the end:
/// some tokenizers put a space in front.
std::optional<std::vector<int32_t>> tokens_from(const text::Tokenizer& tokenizer,
                                                std::string_view text, size_t from) {
  const size_t size = text.size() - from;
  if (size == 0) return std::vector<int32_t>();
  std::vector<int32_t> ids = tokenizer.encode(text, false);
  size_t first = ids.size();
  size_t bytes = 0;
  while (first > 0 && bytes < size) bytes += tokenizer.token_bytes(ids[--first], false).size();
  if (bytes != size) return std::nullopt;
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first));
  return ids;
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
  std::vector<size_t> boundaries = matcher.last_boundaries(forced);
  if (ends_with_white_space(text)) boundaries.push_back(forced.size() - 1);
  // Wherever the last token boundary in `forced` turns out to be, the text before it is divided as
  // if it stood alone: merges cross no boundary. Certain is what all these divisions begin with.
  std::optional<std::vector<int32_t>> common;
  for (const size_t boundary : boundaries) {
    auto ids = tokens_from(tokenizer, std::string_view(text).substr(0, before + boundary), before);
    if (!ids) continue;  // the newest token would have been another one
    if (!common) {
      common = std::move(ids);
    } else {
      common->erase(std::ranges::mismatch(*common, *ids).in1, common->end());
    }
    if (common->empty()) return {};
  }
  if (!common) {
    return before == 0 ? std::vector<int32_t>()
                       : canonical_tokens(matcher, tokenizer, {}, forced, limit);
  }
  common->resize(std::min(common->size(), limit));
  return *std::move(common);
}

}  // namespace chimere::constraints
