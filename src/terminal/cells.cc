#include "terminal/cells.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "terminal/width_tables.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace chimere::terminal {
namespace {

using text::read_utf8;
using text::Utf8Char;

constexpr uint32_t kJoiner = 0x200D;
constexpr uint32_t kEmojiStyle = 0xFE0F;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_wide(uint32_t code) {
  const auto* const at = std::ranges::lower_bound(kWideRanges, code, {}, &CodeRange::last);
  return at != kWideRanges.end() && at->first <= code;
}

bool is_flag_letter(uint32_t code) { return code >= 0x1F1E6 && code <= 0x1F1FF; }

/// Drawn over or with the character before it.
bool extends(uint32_t code) {
  if (code < 0x300) return false;
  if (code == kJoiner || (code >= 0x1160 && code <= 0x11FF)) return true;  // Hangul V and T
  if (code >= 0x1F3FB && code <= 0x1F3FF) return true;                     // skin tones
  if (code >= 0xE0020 && code <= 0xE007F) return true;                     // flag tags
  const text::Category c = text::category(code);
  return c == text::Category::kMn || c == text::Category::kMe;
}

/// Changes how a terminal shows the text around it.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0x2028 || code == 0x2029;
}

int code_width(uint32_t code) {
  if (code < 0x7F && code >= 0x20) return 1;
  if (code == '\n') return 0;
  if (code == '\t') return 1;
  if (code < 0x80) return 2;  // ^X
  if (is_control(code)) return 8;
  if (extends(code)) return 0;
  if (code != 0xAD && text::category(code) == text::Category::kCf) return 0;
  return is_wide(code) ? 2 : 1;
}

void append_visible(std::string& out, uint32_t code) {
  if (code < 0x20) {
    out += '^';
    out += static_cast<char>(code + '@');
  } else if (code == 0x7F) {
    out += "^?";
  } else {
    char name[16];
    (void)std::snprintf(name, sizeof(name), "<U+%04X>", code);
    out += name;
  }
}

}  // namespace

Cluster cluster_at(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  if (first < 0x80 && (at + 1 == text.size() || static_cast<uint8_t>(text[at + 1]) < 0x80)) {
    return {1, code_width(first)};
  }
  const Utf8Char base = read_utf8(text, at);
  if (base.kind != Utf8Char::Kind::kValid) return {static_cast<size_t>(base.length), 1};
  Cluster out = {static_cast<size_t>(base.length), code_width(base.code)};
  if (is_control(base.code)) return out;
  bool joined = false;
  bool flag = is_flag_letter(base.code);
  while (at + out.length < text.size()) {
    const Utf8Char next = read_utf8(text, at + out.length);
    if (next.kind != Utf8Char::Kind::kValid) break;
    const bool second_letter = flag && is_flag_letter(next.code);
    const bool continues = joined && next.code >= 0x2190 && !is_control(next.code);
    if (!extends(next.code) && !second_letter && !continues) break;
    if (second_letter || next.code == kEmojiStyle) out.width = 2;
    joined = next.code == kJoiner && base.code >= 0xA9;
    flag = false;
    out.length += static_cast<size_t>(next.length);
  }
  // Marks without a base are drawn somewhere; give them a cell.
  if (out.width == 0 && extends(base.code) && base.code != kJoiner) out.width = 1;
  return out;
}

size_t cluster_before(std::string_view text, size_t end) {
  // ASCII characters begin a cluster, so that scanning forward from one finds all boundaries.
  size_t start = end - 1;
  while (start > 0 && static_cast<uint8_t>(text[start]) >= 0x80) --start;
  while (true) {
    const size_t next = start + cluster_at(text, start).length;
    if (next >= end) return start;
    start = next;
  }
}

int text_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    const Cluster cluster = cluster_at(text, at);
    width += cluster.width;
    at += cluster.length;
  }
  return width;
}

std::string visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = read_utf8(text, at);
    if (c.kind != Utf8Char::Kind::kValid) {
      out += kReplacement;
    } else if (is_control(c.code) && c.code != '\n' && c.code != '\t') {
      append_visible(out, c.code);
    } else {
      out += text.substr(at, static_cast<size_t>(c.length));
    }
    at += static_cast<size_t>(c.length);
  }
  return out;
}

std::string clean_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\r') {
      out += '\n';
      at += text.substr(at).starts_with("\r\n") ? 2 : 1;
      continue;
    }
    const Utf8Char c = read_utf8(text, at);
    const auto length = static_cast<size_t>(c.length);
    out += c.kind == Utf8Char::Kind::kValid ? text.substr(at, length) : kReplacement;
    at += length;
  }
  return out;
}

}  // namespace chimere::terminal
