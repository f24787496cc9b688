#include "constraints/code_points.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "text/unicode_tables.h"

namespace chimere::constraints {
namespace {

struct CategoryName {
  std::string_view short_name;
  std::string_view long_name;
};

/// In the order of text::Category.
constexpr std::array<CategoryName, 30> kCategoryNames = {{
    {"Cn", "Unassigned"},
    {"Cc", "Control"},
    {"Cf", "Format"},
    {"Cs", "Surrogate"},
    {"Co", "Private_Use"},
    {"Lu", "Uppercase_Letter"},
    {"Ll", "Lowercase_Letter"},
    {"Lt", "Titlecase_Letter"},
    {"Lm", "Modifier_Letter"},
    {"Lo", "Other_Letter"},
    {"Mn", "Nonspacing_Mark"},
    {"Mc", "Spacing_Mark"},
    {"Me", "Enclosing_Mark"},
    {"Nd", "Decimal_Number"},
    {"Nl", "Letter_Number"},
    {"No", "Other_Number"},
    {"Pc", "Connector_Punctuation"},
    {"Pd", "Dash_Punctuation"},
    {"Ps", "Open_Punctuation"},
    {"Pe", "Close_Punctuation"},
    {"Pi", "Initial_Punctuation"},
    {"Pf", "Final_Punctuation"},
    {"Po", "Other_Punctuation"},
    {"Sm", "Math_Symbol"},
    {"Sc", "Currency_Symbol"},
    {"Sk", "Modifier_Symbol"},
    {"So", "Other_Symbol"},
    {"Zs", "Space_Separator"},
    {"Zl", "Line_Separator"},
    {"Zp", "Paragraph_Separator"},
}};

/// Other names of categories, and groups of categories by their first letters.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kAliases = {{
    {"digit", "Nd"},
    {"cntrl", "Cc"},
    {"punct", "P"},
    {"Other", "C"},
    {"Letter", "L"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Number", "N"},
    {"Punctuation", "P"},
    {"Symbol", "S"},
    {"Separator", "Z"},
    {"Cased_Letter", "LC"},
}};

bool category_matches(std::string_view wanted, std::string_view short_name) {
  if (wanted == "LC") {
    return short_name == "Lu" || short_name == "Ll" || short_name == "Lt";
  }
  return wanted.size() == 1 ? short_name[0] == wanted[0] : short_name == wanted;
}

}  // namespace

CodePointSet::CodePointSet(std::span<const CodeRange> ranges) {
  std::vector<CodeRange> sorted;
  sorted.reserve(ranges.size() + 1);
  for (CodeRange range : ranges) {
    range.last = std::min(range.last, kLastCodePoint);
    if (range.first > range.last) continue;
    if (range.first < kFirstSurrogate && range.last > kLastSurrogate) {
      sorted.push_back({range.first, kFirstSurrogate - 1});
      sorted.push_back({kLastSurrogate + 1, range.last});
      continue;
    }
    if (range.first >= kFirstSurrogate && range.first <= kLastSurrogate) {
      range.first = kLastSurrogate + 1;
    }
    if (range.last >= kFirstSurrogate && range.last <= kLastSurrogate) {
      range.last = kFirstSurrogate - 1;
    }
    if (range.first <= range.last) sorted.push_back(range);
  }
  std::ranges::sort(sorted);
  for (const CodeRange& range : sorted) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

CodePointSet CodePointSet::all() {
  constexpr CodeRange kAll[] = {{0, kLastCodePoint}};
  return CodePointSet(kAll);
}

CodePointSet CodePointSet::of(uint32_t code) {
  const CodeRange range[] = {{code, code}};
  return CodePointSet(range);
}

bool CodePointSet::contains(uint32_t code) const {
  const auto after = std::ranges::upper_bound(ranges_, code, {}, &CodeRange::first);
  return after != ranges_.begin() && std::prev(after)->last >= code;
}

CodePointSet CodePointSet::complement() const {
  std::vector<CodeRange> out;
  uint32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return CodePointSet(out);
}

CodePointSet CodePointSet::unite(const CodePointSet& other) const {
  std::vector<CodeRange> out(ranges_);
  out.insert(out.end(), other.ranges_.begin(), other.ranges_.end());
  return CodePointSet(out);
}

CodePointSet CodePointSet::intersect(const CodePointSet& other) const {
  CodePointSet out;
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const uint32_t first = std::max(a->first, b->first);
    const uint32_t last = std::min(a->last, b->last);
    if (first <= last) out.ranges_.push_back({first, last});
    if (a->last < b->last) {
      ++a;
    } else {
      ++b;
    }
  }
  return out;
}

std::optional<CodePointSet> unicode_property(std::string_view name) {
  if (name == "Any") return CodePointSet::all();
  if (name == "ASCII") {
    constexpr CodeRange kAscii[] = {{0, 0x7F}};
    return CodePointSet(kAscii);
  }
  if (name == "Assigned") return unicode_property("Cn")->complement();
  for (const std::string_view prefix : {"gc=", "General_Category="}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  }
  for (const auto& [alias, category] : kAliases) {
    if (name == alias) name = category;
  }
  std::array<bool, kCategoryNames.size()> wanted = {};
  bool known = false;
  for (size_t i = 0; i < kCategoryNames.size(); ++i) {
    wanted[i] =
        category_matches(name, kCategoryNames[i].short_name) || name == kCategoryNames[i].long_name;
    known = known || wanted[i];
  }
  if (!known || name.empty()) return std::nullopt;
  std::vector<CodeRange> ranges;
  const auto& runs = text::kCategoryRuns;
  for (size_t i = 0; i < runs.size(); ++i) {
    const uint32_t category = runs[i] & 0xFF;
    if (category >= wanted.size() || !wanted[category]) continue;
    const uint32_t end = i + 1 < runs.size() ? runs[i + 1] >> 8 : kLastCodePoint + 1;
    ranges.push_back({runs[i] >> 8, end - 1});
  }
  return CodePointSet(ranges);
}

}  // namespace chimere::constraints
