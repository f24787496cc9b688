#include "text/special_tokens.h"

#include <algorithm>

namespace chimere::text {
namespace {

/// `ranges` are sorted and disjoint.
bool inside(TextRange match, std::span<const TextRange> ranges) {
  const auto after = std::ranges::upper_bound(ranges, match.begin, {}, &TextRange::begin);
  return after != ranges.begin() && match.end <= (after - 1)->end;
}

/// Also of U+2581, which SentencePiece writes for a space.
bool is_only_white_space(std::string_view text) {
  constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
  while (!text.empty()) {
    const bool mark = text.starts_with(kSpaceMark);
    if (!mark && std::string_view(" \t\n\r\f\v").find(text[0]) == std::string_view::npos) {
      return false;
    }
    text.remove_prefix(mark ? kSpaceMark.size() : 1);
  }
  return true;
}

}  // namespace

SpecialTokens::SpecialTokens() : nodes_(1) {}

int32_t SpecialTokens::child(int32_t node, uint8_t byte) const {
  const auto& children = nodes_[node].children;
  const auto it = std::lower_bound(children.begin(), children.end(), std::pair(byte, int32_t{0}));
  return it != children.end() && it->first == byte ? it->second : -1;
}

void SpecialTokens::add(std::string_view text, int32_t id, TokenType type) {
  if (text.empty()) return;
  starts_[static_cast<uint8_t>(text[0])] = true;
  int32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      auto& children = nodes_[node].children;
      const std::pair<uint8_t, int32_t> entry(byte, next);
      children.insert(std::lower_bound(children.begin(), children.end(), entry), entry);
    }
    node = next;
  }
  nodes_[node].id = id;
  if (type == TokenType::kUserDefined) {
    nodes_[node].kind = is_only_white_space(text) ? Kind::kWhiteSpace : Kind::kUserDefined;
  } else {
    nodes_[node].kind = Kind::kControl;
  }
}

bool SpecialTokens::allowed(Kind kind, TextRange match, const AddedTokenRanges& where) {
  switch (kind) {
    case Kind::kControl:
      return inside(match, where.control);
    case Kind::kUserDefined:
      return inside(match, where.user_defined);
    case Kind::kWhiteSpace:
      break;
  }
  return true;
}

std::optional<SpecialTokens::Match> SpecialTokens::search(std::string_view text, size_t from,
                                                          const AddedTokenRanges& where) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<uint8_t>(text[begin])]) continue;
    std::optional<Match> longest;
    int32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      node = child(node, static_cast<uint8_t>(text[at]));
      if (node < 0) break;
      const Node& n = nodes_[node];
      if (n.id >= 0 && allowed(n.kind, {begin, at + 1}, where)) {
        longest = Match{begin, at + 1, n.id};
      }
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace chimere::text
