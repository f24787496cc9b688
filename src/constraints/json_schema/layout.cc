#include "constraints/json_schema/layout.h"

#include <algorithm>

namespace chimere::constraints::json_schema {

namespace {

constexpr uint8_t kOneSpace = 1;
constexpr uint8_t kLine = 2;

/// Styles. Not canonical: always kOpen.
constexpr uint8_t kOpen = 0;      // nothing is chosen yet
constexpr uint8_t kOneLine = 1;   // kSpaced or kCompact
constexpr uint8_t kSpaced = 2;    // a space after commas and colons
constexpr uint8_t kCompact = 3;   // no white space
constexpr uint8_t kIndented = 4;  // + n: lines, with n spaces for each level
constexpr uint8_t kMostSpaces = 8;
constexpr uint8_t kTabs = kIndented + kMostSpaces + 1;  // lines, with a tab for each level

/// Deeper levels have the same indentation.
constexpr uint32_t kMostIndent = 200;

uint32_t indent_of(uint8_t style, uint32_t level) {
  const uint32_t unit = style == kTabs ? 1 : style - kIndented;
  return std::min(std::min(level, kMostIndent) * unit, kMostIndent);
}

}  // namespace

Layout LayoutRules::start() const {
  if (!canonical_) return {};
  if (!allowed_.spaces) return {allowed_.lines ? kOpen : kCompact, 0};
  return {allowed_.lines ? kOpen : kOneLine, 0};
}

std::optional<Layout> LayoutRules::free_blank(Layout at, Gap gap, uint8_t byte) const {
  if (byte == ' ' && at.space == 0 && allowed_.spaces) return Layout{at.style, kOneSpace};
  if (gap == Gap::kAfterColon || !allowed_.lines) return std::nullopt;
  if (byte == '\n' && at.space == 0) return Layout{at.style, kLine};
  const bool blank = byte == ' ' || byte == '\t';
  if (blank && at.space >= kLine && at.space - kLine < allowed_.max_indent) {
    ++at.space;
    return at;
  }
  return std::nullopt;
}

/// Of a line break and the blanks behind it.
std::optional<Layout> LayoutRules::line_blank(Layout at, uint32_t level, uint8_t byte) const {
  if (at.space == 0) {
    return byte == '\n' ? std::optional(Layout{at.style, kLine}) : std::nullopt;
  }
  const uint32_t blanks = at.space - kLine;
  ++at.space;
  if (at.style == kOpen) {
    // The first indentation is that of one level.
    if (byte == '\t' && blanks == 0) return Layout{kTabs, at.space};
    return byte == ' ' && blanks < kMostSpaces ? std::optional(at) : std::nullopt;
  }
  const bool fits = byte == (at.style == kTabs ? '\t' : ' ') && blanks < indent_of(at.style, level);
  return fits ? std::optional(at) : std::nullopt;
}

std::optional<Layout> LayoutRules::blank(Layout at, Gap gap, uint32_t depth, uint8_t byte) const {
  if (!canonical_) return free_blank(at, gap, byte);
  const bool lines = at.style >= kIndented || (at.style == kOpen && gap == Gap::kAfterOpening);
  const bool space = byte == ' ' && at.space == 0 && allowed_.spaces && at.style != kCompact;
  switch (gap) {
    case Gap::kAfterColon:
      if (!space) return std::nullopt;
      return Layout{at.style == kOneLine ? kSpaced : at.style, kOneSpace};
    case Gap::kAfterComma:
      if (lines) return line_blank(at, depth, byte);
      return space ? std::optional(Layout{kSpaced, kOneSpace}) : std::nullopt;
    case Gap::kAfterOpening:
      return lines ? line_blank(at, depth, byte) : std::nullopt;
    case Gap::kBeforeClosing:
      return lines ? line_blank(at, depth - 1, byte) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Layout> LayoutRules::end(Layout at, Gap gap, uint32_t depth) const {
  if (!canonical_) return Layout{at.style, 0};
  if (at.style == kOpen) {
    if (at.space == kLine) return std::nullopt;
    const uint8_t one_line = allowed_.spaces ? kOneLine : kCompact;
    const auto indented = static_cast<uint8_t>(kIndented + at.space - kLine);
    return Layout{at.space == 0 ? one_line : indented, 0};
  }
  const bool colon = gap == Gap::kAfterColon;
  if (at.style >= kIndented) {
    const uint32_t level = gap == Gap::kBeforeClosing ? depth - 1 : depth;
    const uint32_t line = kLine + indent_of(at.style, level);
    const uint32_t whole = !colon ? line : allowed_.spaces ? kOneSpace : 0;
    return at.space == whole ? std::optional(Layout{at.style, 0}) : std::nullopt;
  }
  const bool separated = colon || gap == Gap::kAfterComma;
  if (!separated || at.style == kCompact || at.space == kOneSpace) return Layout{at.style, 0};
  return at.style == kOneLine ? std::optional(Layout{kCompact, 0}) : std::nullopt;
}

}  // namespace chimere::constraints::json_schema
