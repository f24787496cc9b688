// Exact decimal numbers.
#ifndef CHIMERE_CONSTRAINTS_DECIMAL_H_
#define CHIMERE_CONSTRAINTS_DECIMAL_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace chimere::constraints {

/// sign * 0.d1 d2 d3 ... * 10^exponent, of any precision; unique for every value.
struct Decimal {
  bool negative = false;
  std::string digits;    ///< '0' to '9', neither first nor last is '0'; empty: zero
  int64_t exponent = 0;  ///< 0 for zero

  /// Reads a JSON number. nullopt: not one, longer than 4,096 digits, or with an exponent beyond
  /// 10^6.
  static std::optional<Decimal> parse(std::string_view json_number);
  /// The decimal value of the shortest text that reads back as this double; it must be finite.
  static Decimal of(double value);
  static Decimal of(int64_t value);

  bool is_zero() const { return digits.empty(); }
  bool is_integer() const { return exponent >= static_cast<int64_t>(digits.size()); }
  Decimal negated() const;
  /// A JSON number; scientific where that is shorter.
  std::string text() const;
  double to_double() const;  ///< nearest; infinite if too large

  bool operator==(const Decimal&) const = default;
  std::strong_ordering operator<=>(const Decimal& other) const;
};

/// Whether value is a multiple of divisor (> 0), exactly. nullopt: too many digits to tell.
std::optional<bool> is_multiple(const Decimal& value, const Decimal& divisor);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_DECIMAL_H_
