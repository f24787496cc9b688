// Remainders of decimal numbers that are read digit by digit.
#ifndef CHIMERE_CONSTRAINTS_DIVISOR_H_
#define CHIMERE_CONSTRAINTS_DIVISOR_H_

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "constraints/decimal.h"

namespace chimere::constraints {

/// A decimal divisor a / 10^f. Remainders modulo a that no further digits tell apart are one: for
/// 1000 only the number of zeros at the end matters.
class Divisor {
 public:
  /// `value` must be above 0. Error kUnsupported: too many digits, or too many remainders.
  static Result<Divisor> create(const Decimal& value);

  /// f: later digits of the fraction of a multiple are zero.
  int32_t fraction_digits() const { return fraction_digits_; }
  /// After one more digit.
  uint64_t append(uint64_t remainder, uint32_t digit);
  /// Whether the number is a multiple, with `zeros` (>= 0) digits to come that are zero.
  bool divides(uint64_t remainder, int32_t zeros) const;
  /// An upper bound of the number of remainders.
  uint64_t states() const { return states_; }

 private:
  static constexpr uint64_t kMaxStates = 20'000;

  explicit Divisor(uint64_t modulus) : modulus_(modulus) {}
  uint64_t canonical(uint64_t remainder);

  uint64_t modulus_;
  int32_t fraction_digits_ = 0;
  uint64_t states_ = 0;
  std::unordered_map<uint64_t, uint64_t> canonical_;
  std::map<std::vector<uint64_t>, uint64_t> classes_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_DIVISOR_H_
