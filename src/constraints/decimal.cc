#include "constraints/decimal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace chimere::constraints {
namespace {

constexpr size_t kMaxDigits = 4'096;
constexpr int64_t kMaxExponent = 1'000'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// value * 10 + digit modulo divisor.
uint64_t append_digit(uint64_t value, uint64_t digit, uint64_t divisor) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(value) * 10 + digit) % divisor);
}

uint64_t power_of_ten(uint64_t exponent, uint64_t divisor) {
  unsigned __int128 result = 1 % divisor;
  unsigned __int128 base = 10 % divisor;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = result * base % divisor;
    base = base * base % divisor;
  }
  return static_cast<uint64_t>(result);
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view json_number) {
  Decimal out;
  size_t at = 0;
  const auto peek = [&] { return at < json_number.size() ? json_number[at] : '\0'; };
  if (peek() == '-') {
    out.negative = true;
    ++at;
  }
  if (!is_digit(peek()) || json_number.size() > kMaxDigits) return std::nullopt;
  const size_t first = at;
  for (; is_digit(peek()); ++at) out.digits += peek();
  if (at - first > 1 && json_number[first] == '0') return std::nullopt;
  out.exponent = static_cast<int64_t>(at - first);
  if (peek() == '.') {
    ++at;
    if (!is_digit(peek())) return std::nullopt;
    for (; is_digit(peek()); ++at) out.digits += peek();
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at;
    const bool down = peek() == '-';
    if (down || peek() == '+') ++at;
    if (!is_digit(peek())) return std::nullopt;
    int64_t power = 0;
    for (; is_digit(peek()); ++at) {
      power = std::min<int64_t>(power * 10 + (peek() - '0'), kMaxExponent + 1);
    }
    if (power > kMaxExponent) return std::nullopt;
    out.exponent += down ? -power : power;
  }
  if (at != json_number.size()) return std::nullopt;
  const size_t zeros = std::min(out.digits.find_first_not_of('0'), out.digits.size());
  out.digits.erase(0, zeros);
  out.exponent -= static_cast<int64_t>(zeros);
  out.digits.resize(out.digits.find_last_not_of('0') + 1);
  if (out.digits.empty()) return Decimal();
  return out;
}

Decimal Decimal::of(double value) {
  std::array<char, 64> text = {};
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
  return parse({text.data(), static_cast<size_t>(written.ptr - text.data())}).value_or(Decimal());
}

Decimal Decimal::of(int64_t value) { return parse(std::to_string(value)).value_or(Decimal()); }

Decimal Decimal::negated() const {
  Decimal out = *this;
  out.negative = !negative && !is_zero();
  return out;
}

std::string Decimal::text() const {
  if (is_zero()) return "0";
  const std::string sign = negative ? "-" : "";
  const auto count = static_cast<int64_t>(digits.size());
  constexpr int64_t kLongestPlain = 21;
  constexpr int64_t kMostZeros = 6;
  if (exponent >= count && exponent <= kLongestPlain) {
    return sign + digits + std::string(static_cast<size_t>(exponent - count), '0');
  }
  if (exponent > 0 && exponent < count) {
    const auto point = static_cast<size_t>(exponent);
    return sign + digits.substr(0, point) + "." + digits.substr(point);
  }
  if (exponent <= 0 && exponent > -kMostZeros) {
    return sign + "0." + std::string(static_cast<size_t>(-exponent), '0') + digits;
  }
  std::string out = sign + digits.substr(0, 1);
  if (count > 1) out += "." + digits.substr(1);
  return out + "e" + std::to_string(exponent - 1);
}

double Decimal::to_double() const {
  const std::string digits_text =
      (negative ? "-0." : "0.") + (is_zero() ? "0" : digits) + "e" + std::to_string(exponent);
  double value = 0;
  const auto read =
      std::from_chars(digits_text.data(), digits_text.data() + digits_text.size(), value);
  if (read.ec == std::errc::result_out_of_range) {
    const double huge = exponent > 0 ? std::numeric_limits<double>::infinity() : 0.0;
    return negative ? -huge : huge;
  }
  return value;
}

std::strong_ordering Decimal::operator<=>(const Decimal& other) const {
  if (negative != other.negative) return other.negative <=> negative;
  std::strong_ordering magnitude = std::strong_ordering::equal;
  if (is_zero() || other.is_zero()) {
    magnitude = !is_zero() <=> !other.is_zero();
  } else if (exponent != other.exponent) {
    magnitude = exponent <=> other.exponent;
  } else {
    magnitude = digits.compare(other.digits) <=> 0;
  }
  if (!negative || std::is_eq(magnitude)) return magnitude;
  return std::is_lt(magnitude) ? std::strong_ordering::greater : std::strong_ordering::less;
}

std::optional<bool> is_multiple(const Decimal& value, const Decimal& divisor) {
  constexpr size_t kMaxDivisor = 18;
  if (value.is_zero()) return true;
  // The last digits are not zero: value has to reach at least as low as the divisor does not.
  const int64_t shift = (value.exponent - static_cast<int64_t>(value.digits.size())) -
                        (divisor.exponent - static_cast<int64_t>(divisor.digits.size()));
  if (shift < 0) return false;
  if (divisor.digits.size() > kMaxDivisor) return std::nullopt;
  uint64_t whole = 0;
  for (const char c : divisor.digits) whole = whole * 10 + static_cast<uint64_t>(c - '0');
  uint64_t rest = 0;
  for (const char c : value.digits)
    rest = append_digit(rest, static_cast<uint64_t>(c - '0'), whole);
  const auto scaled = static_cast<unsigned __int128>(rest) *
                      power_of_ten(static_cast<uint64_t>(shift), whole) % whole;
  return scaled == 0;
}

}  // namespace chimere::constraints
