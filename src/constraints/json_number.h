// The automaton of JSON numbers in an interval, of integers and of multiples.
#ifndef CHIMERE_CONSTRAINTS_JSON_NUMBER_H_
#define CHIMERE_CONSTRAINTS_JSON_NUMBER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "constraints/decimal.h"
#include "constraints/machine.h"

namespace chimere::constraints {

/// The values that satisfy all of these.
struct NumberSet {
  std::optional<Decimal> min;
  std::optional<Decimal> max;
  bool exclusive_min = false;
  bool exclusive_max = false;
  bool integer = false;                  ///< integers (1.0 and 1e2 are integers)
  bool not_integer = false;              ///< no integers
  std::vector<Decimal> multiple_of;      ///< each > 0; exact, not in double arithmetic
  std::vector<Decimal> not_multiple_of;  ///< each > 0
  std::vector<Decimal> excluded;         ///< single values

  /// The values of both. (The complement of a set is the union of the complements of its
  /// conditions: min -> exclusive max and so on.)
  NumberSet intersect(const NumberSet& other) const;
  bool contains(const Decimal& value) const;
};

/// What numbers the machine writes.
struct NumberFormat {
  int32_t integer_digits = 40;   ///< most digits before the point
  int32_t fraction_digits = 40;  ///< most digits after it
  bool exponent = true;          ///< whether e and E may follow
  /// Numbers as programs print them. Where the set holds integers only: their digits, no sign of
  /// zero, within 64 bits unless the set itself leaves that range. Others: at most 17 digits, no
  /// long runs of zeros after the point, an exponent only behind one digit before the point and
  /// of at most 3 digits.
  bool canonical = false;
};

/// JSON numbers (RFC 8259) whose value lies in a set. A text that is accepted is valid for
/// validators that compare exactly and for those that compare in double arithmetic, except for
/// multipleOf, which is exact. Some texts of valid numbers are not accepted: those beyond
/// NumberFormat (which may be all: an error) and those whose exponent leads beyond 1e-300 to 1e300.
class NumberMachine final : public Machine {
 public:
  /// Errors: kInvalidArgument if no number is left; kUnsupported if the divisors are too large.
  static Result<std::unique_ptr<NumberMachine>> create(const NumberSet& set,
                                                       const NumberFormat& format);
  static Result<std::unique_ptr<NumberMachine>> create(const NumberSet& set) {
    return create(set, NumberFormat());
  }
  ~NumberMachine() override;

  State start() override;
  State next(State state, uint8_t byte) override;
  bool accepts(State state) override;
  ByteSet first_bytes(State state) override;
  CharacterClasses stays(State /*state*/, int32_t /*length*/) override { return 0; }
  uint64_t shared_key(State state) override;
  size_t memory() const override;

 private:
  struct Impl;
  explicit NumberMachine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_JSON_NUMBER_H_
