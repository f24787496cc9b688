#include "text/jinja/characters.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

/// Writes fn(code, index of the first byte) for each character; what is not UTF-8 stays.
template <typename Fn>
MarkedText map_characters(const MarkedText& s, Fn fn) {
  MarkedText out;
  for (size_t at = 0; at < s.size();) {
    const Utf8Char c = read_utf8(s.bytes(), at);
    if (c.kind == Utf8Char::Kind::kValid) {
      out.append(fn(c.code, at), s.trusted_at(at));
    } else {
      out.append(s, at, at + c.length);
    }
    at += c.length;
  }
  return out;
}

/// The property Case_Ignorable: what does not separate letters when a final sigma is looked for.
bool is_case_ignorable(uint32_t c) {
  const Category kind = category(c);
  return kind == Category::kMn || kind == Category::kMe || kind == Category::kCf ||
         kind == Category::kLm || kind == Category::kSk || c == '\'' || c == '.' || c == ':' ||
         c == 0xB7 || c == 0x387 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

/// A capital sigma at `at` becomes a final one after a letter and before no letter.
bool is_final_sigma(std::string_view s, size_t at) {
  size_t before = at;
  bool after_letter = false;
  while (before > 0) {
    do {
      --before;
    } while (before > 0 && (static_cast<uint8_t>(s[before]) & 0xC0) == 0x80);
    const Utf8Char c = read_utf8(s, before);
    if (is_case_ignorable(c.code)) continue;
    after_letter = is_cased(c.code);
    break;
  }
  for (size_t next = at + 2; after_letter && next < s.size();) {
    const Utf8Char c = read_utf8(s, next);
    if (!is_case_ignorable(c.code)) return !is_cased(c.code);
    next += c.length;
  }
  return after_letter;
}

/// str.lower() of the character at `at` of a string.
std::string lower_at(std::string_view s, uint32_t code, size_t at) {
  constexpr uint32_t kCapitalSigma = 0x3A3;
  if (code == kCapitalSigma && is_final_sigma(s, at)) return "\u03C2";
  return lower_case(code);
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
  const Category kind = category(c);
  const bool separator = kind == Category::kZs || kind == Category::kZl || kind == Category::kZp;
  return c == ' ' || (!is_other(c) && !separator);
}

bool is_upper(uint32_t c) {
  // Letter-like symbols (roman numerals, letters in circles) count too.
  return category(c) == Category::kLu || (c >= 0x2160 && c <= 0x216F) ||
         (c >= 0x24B6 && c <= 0x24CF) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool is_lower(uint32_t c) {
  const Category kind = category(c);
  return kind == Category::kLl || c == 0xAA || c == 0xBA || c == 0x345 || c == 0x37A ||
         (c >= 0x2B0 && c <= 0x2B8) || c == 0x2C0 || c == 0x2C1 || (c >= 0x2E0 && c <= 0x2E4) ||
         (c >= 0x1D2C && c <= 0x1D6A) || c == 0x1D78 || (c >= 0x1D9B && c <= 0x1DBF) ||
         c == 0x2071 || c == 0x207F || (c >= 0x2090 && c <= 0x209C) ||
         (c >= 0x2170 && c <= 0x217F) || (c >= 0x24D0 && c <= 0x24E9) || c == 0x2C7C ||
         c == 0x2C7D || c == 0xA69C || c == 0xA69D || c == 0xA770 || c == 0xA7F8 || c == 0xA7F9 ||
         (c >= 0xAB5C && c <= 0xAB5F);
}

bool is_cased(uint32_t c) { return is_upper(c) || is_lower(c) || category(c) == Category::kLt; }

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
  return map_characters(s, [](uint32_t c, size_t) { return upper_case(c); });
}

MarkedText lower(const MarkedText& s) {
  return map_characters(s, [&](uint32_t c, size_t at) { return lower_at(s.bytes(), c, at); });
}

MarkedText title(const MarkedText& s, bool words_after_any) {
  uint32_t before = ' ';
  if (words_after_any) {
    return map_characters(s, [&](uint32_t c, size_t at) {
      return is_cased(std::exchange(before, c)) ? lower_at(s.bytes(), c, at) : title_case(c);
    });
  }
  // Jinja2's filter cuts the text into words and puts the rest of each into lower case by itself.
  const auto separates = [](uint32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  size_t rest = 0;  // where the rest of the word begins
  return map_characters(s, [&](uint32_t c, size_t at) {
    const uint32_t last = std::exchange(before, c);
    if (separates(last) || separates(c)) {
      std::string first = upper_case(c);
      std::string same;
      append_utf8(same, c);
      rest = at + same.size();
      return first;
    }
    size_t end = at;
    while (c == 0x3A3 && end < s.size() && !separates(read_utf8(s.bytes(), end).code)) {
      end += read_utf8(s.bytes(), end).length;
    }
    return lower_at(std::string_view(s.bytes()).substr(rest, std::max(end, at) - rest), c,
                    at - rest);
  });
}

MarkedText capitalize(const MarkedText& s) {
  return map_characters(s, [&](uint32_t c, size_t at) {
    return at == 0 ? title_case(c) : lower_at(s.bytes(), c, at);
  });
}

MarkedText swap_case(const MarkedText& s) {
  return map_characters(s, [&](uint32_t c, size_t at) {
    return is_upper(c)   ? lower_at(s.bytes(), c, at)
           : is_lower(c) ? upper_case(c)
                         : [&] {
                             std::string same;
                             append_utf8(same, c);
                             return same;
                           }();
  });
}

MarkedText fold_case(const MarkedText& s) {
  return map_characters(s, [](uint32_t c, size_t) {
    std::string out;
    const bool cherokee = (c >= 0x13A0 && c <= 0x13F5) || (c >= 0x13F8 && c <= 0x13FD);
    if (c == 0x131 || (cherokee && c <= 0x13F5)) {  // these fold to themselves
      append_utf8(out, c);
      return out;
    }
    std::string capitals = upper_case(c);
    if (cherokee || (c >= 0xAB70 && c <= 0xABBF)) return capitals;
    for (size_t at = 0; at < capitals.size();) {
      const Utf8Char part = read_utf8(capitals, at);
      out += lower_case(part.code);
      at += part.length;
    }
    return out;
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
