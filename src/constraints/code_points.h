// Sets of Unicode code points.
#ifndef CHIMERE_CONSTRAINTS_CODE_POINTS_H_
#define CHIMERE_CONSTRAINTS_CODE_POINTS_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace chimere::constraints {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;
inline constexpr uint32_t kFirstSurrogate = 0xD800;
inline constexpr uint32_t kLastSurrogate = 0xDFFF;

/// Code points from `first` to `last`, both included.
struct CodeRange {
  uint32_t first = 0;
  uint32_t last = 0;
  auto operator<=>(const CodeRange&) const = default;
};

/// Sorted ranges that neither overlap nor touch. Surrogates are never members: texts are UTF-8.
class CodePointSet {
 public:
  CodePointSet() = default;
  /// In any order, overlapping or not; surrogates and what lies above U+10FFFF are dropped.
  explicit CodePointSet(std::span<const CodeRange> ranges);
  static CodePointSet all();
  static CodePointSet of(uint32_t code);

  bool empty() const { return ranges_.empty(); }
  bool contains(uint32_t code) const;
  std::span<const CodeRange> ranges() const { return ranges_; }

  CodePointSet complement() const;
  CodePointSet unite(const CodePointSet& other) const;
  CodePointSet intersect(const CodePointSet& other) const;

  bool operator==(const CodePointSet&) const = default;

 private:
  std::vector<CodeRange> ranges_;
};

/// The characters of a Unicode property as in \p{name}: general categories by their short and long
/// names ("Lu", "Uppercase_Letter", "gc=L", "General_Category=Letter"), "Any", "ASCII" and
/// "Assigned". nullopt: another property.
std::optional<CodePointSet> unicode_property(std::string_view name);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_CODE_POINTS_H_
