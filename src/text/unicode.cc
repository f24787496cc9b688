#include "text/unicode.h"

#include <algorithm>
#include <vector>

#include "text/unicode_tables.h"
#include "text/utf8.h"

namespace chimere::text {
namespace {

// Hangul syllables are composed by arithmetic (section 3.12 of the Unicode standard).
constexpr uint32_t kSyllables = 0xAC00;
constexpr uint32_t kLeading = 0x1100;
constexpr uint32_t kVowels = 0x1161;
constexpr uint32_t kTrailing = 0x11A7;  ///< one before the first trailing consonant
constexpr uint32_t kVowelCount = 21;
constexpr uint32_t kTrailingCount = 28;
constexpr uint32_t kLeadingCount = 19;
constexpr uint32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

/// Below are neither combining marks nor second halves of compositions.
constexpr uint32_t kFirstMark = 0x300;

template <typename Runs>
uint8_t value_of(const Runs& runs, uint32_t code) {
  const auto after = std::ranges::upper_bound(runs, code << 8 | 0xFF);
  return static_cast<uint8_t>(*(after - 1) & 0xFF);
}

const Decomposition* find_decomposition(uint32_t code) {
  const auto* it = std::ranges::lower_bound(kDecompositions, code, {}, &Decomposition::code);
  return it != kDecompositions.end() && it->code == code ? it : nullptr;
}

void decompose(uint32_t code, std::vector<uint32_t>& out) {
  if (code - kSyllables < kSyllableCount) {
    const uint32_t index = code - kSyllables;
    out.push_back(kLeading + index / (kVowelCount * kTrailingCount));
    out.push_back(kVowels + index / kTrailingCount % kVowelCount);
    if (index % kTrailingCount != 0) out.push_back(kTrailing + index % kTrailingCount);
    return;
  }
  const Decomposition* found = find_decomposition(code);
  if (found == nullptr) {
    out.push_back(code);
    return;
  }
  decompose(found->first, out);  // only first parts decompose further
  if (found->second != 0) out.push_back(found->second);
}

struct Composition {
  uint64_t pair;
  uint32_t code;
};

/// 0: the pair does not compose.
uint32_t compose(uint32_t first, uint32_t second) {
  if (first - kLeading < kLeadingCount && second - kVowels < kVowelCount) {
    return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowels)) * kTrailingCount;
  }
  if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTrailingCount == 0 &&
      second - kTrailing - 1 < kTrailingCount - 1) {
    return first + (second - kTrailing);
  }
  static const std::vector<Composition> table = [] {
    std::vector<Composition> all;
    for (const Decomposition& d : kDecompositions) {
      if (d.composes) all.push_back({static_cast<uint64_t>(d.first) << 32 | d.second, d.code});
    }
    std::ranges::sort(all, {}, &Composition::pair);
    return all;
  }();
  const uint64_t pair = static_cast<uint64_t>(first) << 32 | second;
  const auto it = std::ranges::lower_bound(table, pair, {}, &Composition::pair);
  return it != table.end() && it->pair == pair ? it->code : 0;
}

/// Puts the marks of each combining sequence into canonical order.
void order_marks(std::vector<uint32_t>& codes) {
  for (size_t begin = 0; begin < codes.size();) {
    size_t end = begin;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(begin),
                     codes.begin() + static_cast<std::ptrdiff_t>(end), [](uint32_t a, uint32_t b) {
                       return combining_class(a) < combining_class(b);
                     });
    begin = end + 1;
  }
}

/// Composes in place; `codes` are in form D.
void compose_all(std::vector<uint32_t>& codes) {
  size_t starter = codes.size();  // none yet
  size_t size = 0;
  int last_class = -1;  // of the characters kept since the starter; -1: none
  for (const uint32_t code : codes) {
    const int its_class = combining_class(code);
    if (starter < size && last_class < its_class) {
      const uint32_t whole = compose(codes[starter], code);
      if (whole != 0) {
        codes[starter] = whole;
        continue;
      }
    }
    if (its_class == 0) {
      starter = size;
      last_class = -1;
    } else {
      last_class = its_class;
    }
    codes[size++] = code;
  }
  codes.resize(size);
}

std::string normalize(std::string_view text, bool composed) {
  std::string out;
  out.reserve(text.size());
  std::vector<uint32_t> codes;
  const auto flush = [&] {
    order_marks(codes);
    if (composed) compose_all(codes);
    for (const uint32_t code : codes) append_utf8(out, code);
    codes.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = read_utf8(text, at);
    if (c.kind == Utf8Char::Kind::kValid) {
      // A character below the first mark does not interact with those before it: split there.
      if (c.code < kFirstMark) flush();
      decompose(c.code, codes);
    } else {
      flush();
      out += text.substr(at, c.length);
    }
    at += c.length;
  }
  flush();
  return out;
}

std::string mapped(uint32_t code, uint32_t CaseRow::*column) {
  std::string out;
  const auto* it = std::ranges::lower_bound(kCases, code, {}, &CaseRow::code);
  const uint32_t to = it != kCases.end() && it->code == code ? it->*column : code;
  if (to < kLongCase) {
    append_utf8(out, to);
  } else {
    for (const uint32_t part : kLongCases[to - kLongCase]) {
      if (part != 0) append_utf8(out, part);
    }
  }
  return out;
}

bool between(Category c, Category first, Category last) { return c >= first && c <= last; }

}  // namespace

Category category(uint32_t code) { return static_cast<Category>(value_of(kCategoryRuns, code)); }

bool is_letter(uint32_t code) { return between(category(code), Category::kLu, Category::kLo); }
bool is_number(uint32_t code) { return between(category(code), Category::kNd, Category::kNo); }
bool is_punctuation(uint32_t code) { return between(category(code), Category::kPc, Category::kPo); }
bool is_other(uint32_t code) { return between(category(code), Category::kCn, Category::kCo); }

std::string lower_case(uint32_t code) { return mapped(code, &CaseRow::lower); }
std::string upper_case(uint32_t code) { return mapped(code, &CaseRow::upper); }
std::string title_case(uint32_t code) { return mapped(code, &CaseRow::title); }

uint8_t combining_class(uint32_t code) {
  return code < kFirstMark ? 0 : value_of(kCombiningRuns, code);
}

std::string nfc(std::string_view text) {
  // Most text is below U+0300 and in form C already.
  if (std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0xCC; })) {
    return std::string(text);
  }
  return normalize(text, true);
}

std::string nfd(std::string_view text) { return normalize(text, false); }

}  // namespace chimere::text
