#include "text/jinja/characters.h"

#include <algorithm>
#include <functional>

#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

/// Applies fn(code, previous code) to each character; what is not UTF-8 stays.
MarkedText map_characters(const MarkedText& s,
                          const std::function<uint32_t(uint32_t code, uint32_t before)>& fn) {
  MarkedText out;
  uint32_t before = ' ';
  for (size_t at = 0; at < s.size();) {
    const Utf8Char c = read_utf8(s.bytes(), at);
    if (c.kind == Utf8Char::Kind::kValid) {
      std::string mapped;
      append_utf8(mapped, fn(c.code, before));
      out.append(mapped, s.trusted_at(at));
    } else {
      out.append(s, at, at + c.length);
    }
    before = c.code;
    at += c.length;
  }
  return out;
}

bool is_letter_with_case(uint32_t code) {
  return to_upper(code) != code || to_lower(code) != code || code == 0xDF;
}

}  // namespace

std::vector<size_t> character_offsets(std::string_view s) {
  std::vector<size_t> offsets;
  offsets.reserve(s.size() + 1);
  for (size_t at = 0; at < s.size();) {
    offsets.push_back(at);
    const Utf8Char c = read_utf8(s, at);
    at += c.kind == Utf8Char::Kind::kValid ? c.length : 1;
  }
  offsets.push_back(s.size());
  return offsets;
}

int64_t count_characters(std::string_view s) {
  return static_cast<int64_t>(character_offsets(s).size()) - 1;
}

bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_printable(uint32_t c) {
  if (c == ' ') return true;
  if (is_space(c) || c < 0x20 || (c >= 0x7F && c < 0xA0)) return false;
  const bool format_character = c == 0xAD || (c >= 0x200B && c <= 0x200F) ||
                                (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) ||
                                c == 0xFEFF || (c >= 0xFFF0 && c <= 0xFFFB);
  const bool private_or_none =
      (c >= 0xD800 && c <= 0xF8FF) || c >= 0xE0000 || (c & 0xFFFE) == 0xFFFE;
  return !format_character && !private_or_none;
}

uint32_t to_upper(uint32_t c) {
  if ((c >= 'a' && c <= 'z') || (c >= 0xE0 && c <= 0xFE && c != 0xF7)) return c - 32;
  if (c == 0xFF) return 0x178;
  if (c == 0xB5) return 0x39C;
  if (c == 0x131) return 'I';
  if (c == 0x17F) return 'S';
  if ((c >= 0x100 && c <= 0x137) || (c >= 0x14A && c <= 0x177)) return c & ~1u;
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E)) return c % 2 == 0 ? c - 1 : c;
  if (c == 0x3AC) return 0x386;
  if (c >= 0x3AD && c <= 0x3AF) return c - 37;
  if (c == 0x3C2) return 0x3A3;
  if (c >= 0x3B1 && c <= 0x3CB) return c - 32;
  if (c == 0x3CC) return 0x38C;
  if (c == 0x3CD || c == 0x3CE) return c - 63;
  if (c >= 0x430 && c <= 0x44F) return c - 32;
  if (c >= 0x450 && c <= 0x45F) return c - 80;
  if ((c >= 0x460 && c <= 0x481) || (c >= 0x48A && c <= 0x4BF)) return c & ~1u;
  if (c >= 0x561 && c <= 0x586) return c - 48;
  return c;
}

uint32_t to_lower(uint32_t c) {
  if ((c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0xDE && c != 0xD7)) return c + 32;
  if (c == 0x178) return 0xFF;
  if (c == 0x130) return 'i';
  if ((c >= 0x100 && c <= 0x137) || (c >= 0x14A && c <= 0x177)) return c == 0x131 ? c : c | 1u;
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E)) return c % 2 == 1 ? c + 1 : c;
  if (c == 0x386) return 0x3AC;
  if (c >= 0x388 && c <= 0x38A) return c + 37;
  if (c >= 0x391 && c <= 0x3AB && c != 0x3A2) return c + 32;
  if (c == 0x38C) return 0x3CC;
  if (c == 0x38E || c == 0x38F) return c + 63;
  if (c >= 0x410 && c <= 0x42F) return c + 32;
  if (c >= 0x400 && c <= 0x40F) return c + 80;
  if ((c >= 0x460 && c <= 0x481) || (c >= 0x48A && c <= 0x4BF)) return c | 1u;
  if (c >= 0x531 && c <= 0x556) return c + 48;
  return c;
}

MarkedText strip(const MarkedText& s, std::string_view chars, bool left, bool right) {
  const std::string_view bytes = s.bytes();
  std::vector<uint32_t> set;
  for (size_t at = 0; at < chars.size();) {
    const Utf8Char c = read_utf8(chars, at);
    set.push_back(c.code);
    at += c.length;
  }
  const auto goes = [&](size_t begin, size_t end) {
    const Utf8Char c = read_utf8(bytes.substr(begin, end - begin), 0);
    if (c.kind != Utf8Char::Kind::kValid) return false;
    return chars.empty() ? is_space(c.code) : std::ranges::find(set, c.code) != set.end();
  };
  const std::vector<size_t> offsets = character_offsets(bytes);
  size_t first = 0;
  size_t last = offsets.size() - 1;
  while (left && first < last && goes(offsets[first], offsets[first + 1])) ++first;
  while (right && first < last && goes(offsets[last - 1], offsets[last])) --last;
  return s.substr(offsets[first], offsets[last]);
}

MarkedText upper(const MarkedText& s) {
  return map_characters(s, [](uint32_t c, uint32_t) { return to_upper(c); });
}

MarkedText lower(const MarkedText& s) {
  return map_characters(s, [](uint32_t c, uint32_t) { return to_lower(c); });
}

MarkedText title(const MarkedText& s, bool words_after_any) {
  return map_characters(s, [&](uint32_t c, uint32_t before) {
    const bool begins = words_after_any ? !is_letter_with_case(before)
                                        : is_space(before) || before == '-' || before == '(' ||
                                              before == '{' || before == '[' || before == '<';
    return begins ? to_upper(c) : to_lower(c);
  });
}

MarkedText capitalize(const MarkedText& s) {
  bool first = true;
  return map_characters(s, [&](uint32_t c, uint32_t) {
    return std::exchange(first, false) ? to_upper(c) : to_lower(c);
  });
}

MarkedText replace(const MarkedText& s, const MarkedText& from, const MarkedText& to,
                   int64_t count) {
  MarkedText out;
  const std::string_view bytes = s.bytes();
  if (from.empty()) {
    // Python puts the replacement before every character and at the end.
    const std::vector<size_t> offsets = character_offsets(bytes);
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (count != 0) {
        out.append(to);
        --count;
      }
      if (i + 1 < offsets.size()) out.append(s, offsets[i], offsets[i + 1]);
    }
    return out;
  }
  size_t done = 0;
  while (count != 0) {
    const size_t found = bytes.find(from.bytes(), done);
    if (found == std::string_view::npos) break;
    out.append(s, done, found);
    out.append(to);
    done = found + from.size();
    --count;
  }
  out.append(s, done, s.size());
  return out;
}

}  // namespace chimere::text::jinja
