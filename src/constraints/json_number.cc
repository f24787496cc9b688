// A state knows of the number read so far what decides about its continuations: how its digits
// compare with those of the bounds, the remainders, and how many digits it has. The value of a
// number is compared in scientific form: first the exponent of its first digit that is not zero,
// then its digits. So an exponent that follows only has to lie in an interval.
#include "constraints/json_number.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "constraints/divisor.h"
#include "constraints/hash.h"
#include "constraints/interner.h"
#include "constraints/lazy_rows.h"
#include "constraints/work.h"

namespace chimere::constraints {
namespace {

/// Values beyond 10^-kMaxPower to 10^kMaxPower are left out: they leave the range of doubles.
constexpr int32_t kMaxPower = 300;
/// Exponents where the digits before and after the point are not compared with bounds.
constexpr int32_t kMaxShownExponent = 240;
/// Decimal numbers of so many digits are equal if and only if their doubles are.
constexpr uint16_t kExactDigits = 15;
/// Most digits of an exponent, with zeros at its beginning.
constexpr uint8_t kExponentDigits = 4;
/// An integer may be written as 1.0, but not with arbitrarily many zeros.
constexpr int32_t kIntegerFraction = 10;
/// No more digits before or after the point, so that exponents stay small.
constexpr int32_t kMostDigits = 50;
/// Of numbers in canonical form that are not integers: what doubles need at most.
constexpr uint8_t kCanonicalDigits = 17;
/// Zeros in a row after the point, in canonical form.
constexpr uint8_t kZeroRun = 6;
constexpr uint8_t kCanonicalExponentDigits = 3;
constexpr std::string_view kFirstInteger = "-9223372036854775808";
constexpr std::string_view kLastInteger = "9223372036854775807";
/// Remainders of all divisors together.
constexpr uint64_t kMaxRemainders = 20'000;

/// Work of a new transition (constraints/work.h).
constexpr uint64_t kUnitsPerStep = 2;

constexpr uint64_t kNeverMultiple = UINT64_MAX;

enum class Order : uint8_t { kLess, kEqual, kGreater };

/// What a number may be followed by.
struct ExponentRange {
  int32_t min = 1;
  int32_t max = 0;
  bool empty() const { return min > max; }
  bool contains(int32_t value) const { return value >= min && value <= max; }
};

}  // namespace

struct NumberMachine::Impl {
  enum class Kind : uint8_t {
    kNothing,   ///< no number
    kBegin,     ///< nothing read
    kMinus,     ///< only the sign
    kZero,      ///< the integer part is 0
    kInteger,   ///< inside another integer part
    kPoint,     ///< after the point
    kFraction,  ///< inside the fraction
    kExponent,  ///< after e: exponents in [low, high]
    kSign,      ///< after the sign of an exponent: its magnitude in [low, high]
    kPower,     ///< inside the exponent: the same, and its value so far
  };
  struct Number {
    Kind kind = Kind::kNothing;
    bool negative = false;
    bool fraction = false;        ///< a digit of the fraction is not zero
    Order lower = Order::kEqual;  ///< digits compared with those of the bound
    Order upper = Order::kEqual;
    /// In the integer part; after it 1 if it was one digit from 1 to 9 (unless `plain`), else 0.
    uint8_t integer_digits = 0;
    uint8_t fraction_digits = 0;
    uint8_t power_digits = 0;
    /// In canonical form, where fractions are possible: all digits from the first that is not zero,
    /// and zeros in a row after the point.
    uint8_t length = 0;
    uint8_t zeros = 0;
    uint16_t digits = 0;  ///< from the first that is not zero, up to what matters
    int16_t scale = 0;    ///< decimal exponent of the first digit that is not zero
    int16_t low = 0;
    int16_t high = 0;
    int16_t power = 0;
    uint32_t remainders = 0;  ///< index of a list
    uint32_t excluded = 0;    ///< index of a list
    bool operator==(const Number&) const = default;
  };
  struct NumberHash {
    uint64_t operator()(const Number& n) const {
      const auto flags = static_cast<uint64_t>(n.kind) | uint64_t{n.negative} << 8 |
                         uint64_t{n.fraction} << 9 | static_cast<uint64_t>(n.lower) << 10 |
                         static_cast<uint64_t>(n.upper) << 12 | uint64_t{n.integer_digits} << 16 |
                         uint64_t{n.fraction_digits} << 24 | uint64_t{n.power_digits} << 32 |
                         uint64_t{n.digits} << 40;
      const auto range = [](int16_t a, int16_t b) {
        return uint64_t{static_cast<uint16_t>(a)} << 16 | static_cast<uint16_t>(b);
      };
      const uint64_t scales = range(n.scale, n.power) << 32 | range(n.low, n.high);
      const uint64_t lists = uint64_t{n.remainders} << 32 | n.excluded;
      return combine(combine(combine(flags, scales), lists), uint64_t{n.length} << 8 | n.zeros);
    }
  };
  /// Bounds of the magnitudes of one sign.
  struct Side {
    bool possible = true;
    std::optional<Decimal> lower;
    std::optional<Decimal> upper;
    std::vector<Decimal> excluded;
    uint16_t digits = 0;  ///< comparisons are decided after so many
    bool bounded() const { return lower || upper || !excluded.empty(); }
  };
  using Remainders = std::vector<uint64_t>;
  using Candidates = std::vector<uint32_t>;  ///< excluded values with the digits read so far

  Status compile(const NumberSet& wanted, const NumberFormat& limits);
  void make_canonical();
  bool too_long(Number& number, uint8_t byte) const;
  Side side(bool negative) const;
  void read_digit(Number& number, uint32_t digit);
  Number after(const Number& number, uint8_t byte);
  Number exponent_after(const Number& number, uint8_t byte) const;
  void leave_integer(Number& number) const;
  ExponentRange powers(const Number& number) const;
  bool multiples(const Number& number) const;
  bool hopeless(const Number& number) const;
  bool final(const Number& number) const;
  bool alive(State state);
  State intern(const Number& number);
  State step(State state, uint8_t byte);

  const Side& side_of(const Number& number) const { return sides[number.negative ? 1 : 0]; }
  bool is_zero(const Number& number) const { return number.digits == 0; }

  NumberSet set;
  NumberFormat format;
  std::array<Side, 2> sides;
  bool zero_allowed = true;
  bool plain = false;  ///< only "integer" is asked for
  bool default_format = false;
  bool free = false;              ///< no condition of the set but "integer"
  bool few_digits = false;        ///< only numbers that doubles tell apart
  std::vector<Divisor> divisors;  ///< those of multiple_of, then those of not_multiple_of

  Interner<Number, NumberHash> numbers;  ///< by state
  std::vector<Remainders> remainder_lists;
  std::map<Remainders, uint32_t> remainder_index;
  std::vector<Candidates> candidate_lists;
  std::map<Candidates, uint32_t> candidate_index;
  std::vector<int8_t> live;  ///< -1: not known
  LazyRows steps;            ///< before asking whether the target is alive
  LazyRows rows;
  State start = kDead;

  uint32_t intern(Remainders list) {
    const auto [it, added] =
        remainder_index.try_emplace(std::move(list), static_cast<uint32_t>(remainder_lists.size()));
    if (added) remainder_lists.push_back(it->first);
    return it->second;
  }
  uint32_t intern_candidates(Candidates list) {
    const auto [it, added] =
        candidate_index.try_emplace(std::move(list), static_cast<uint32_t>(candidate_lists.size()));
    if (added) candidate_lists.push_back(it->first);
    return it->second;
  }
};

NumberMachine::Impl::Side NumberMachine::Impl::side(bool negative) const {
  Side out;
  std::optional<Decimal> lower = negative ? set.max : set.min;
  std::optional<Decimal> upper = negative ? set.min : set.max;
  bool open_lower = negative ? set.exclusive_max : set.exclusive_min;
  bool open_upper = negative ? set.exclusive_min : set.exclusive_max;
  if (negative) {
    if (lower) lower = lower->negated();
    if (upper) upper = upper->negated();
  }
  const auto positive = [](const Decimal& value) { return !value.negative && !value.is_zero(); };
  if (lower && !positive(*lower)) lower.reset();
  if (upper && !positive(*upper)) out.possible = false;
  // Open bounds become closed ones of the neighbouring double, because validators may compare
  // doubles.
  if (lower && open_lower) {
    const double neighbour = std::nextafter(lower->to_double(), HUGE_VAL);
    if (std::isfinite(neighbour)) {
      lower = Decimal::of(neighbour);
    } else {
      out.possible = false;
    }
  }
  if (upper && open_upper && out.possible) {
    const double value = upper->to_double();
    upper = Decimal::of(std::nextafter(std::isfinite(value) ? value : HUGE_VAL, 0.0));
    if (!positive(*upper)) out.possible = false;
  }
  out.lower = lower;
  out.upper = upper;
  for (const Decimal& value : set.excluded) {
    if (value.is_zero() || value.negative != negative) continue;
    for (Decimal each : {value, Decimal::of(value.to_double())}) {
      each.negative = false;
      if (std::ranges::find(out.excluded, each) == out.excluded.end() && !each.is_zero()) {
        out.excluded.push_back(each);
      }
    }
  }
  size_t digits = few_digits ? kExactDigits : 0;
  if (lower) digits = std::max(digits, lower->digits.size() + 1);
  if (upper) digits = std::max(digits, upper->digits.size() + 1);
  for (const Decimal& value : out.excluded) digits = std::max(digits, value.digits.size() + 1);
  out.digits = static_cast<uint16_t>(std::max<size_t>(digits, 1));
  return out;
}

Status NumberMachine::Impl::compile(const NumberSet& wanted, const NumberFormat& limits) {
  set = wanted;
  format = limits;
  const NumberFormat defaults;
  default_format = format.integer_digits == defaults.integer_digits &&
                   format.fraction_digits == defaults.fraction_digits &&
                   format.exponent == defaults.exponent;
  format.integer_digits = std::clamp(format.integer_digits, 1, kMostDigits);
  format.fraction_digits = std::clamp(format.fraction_digits, 0, kMostDigits);
  if (set.integer) format.fraction_digits = std::min(format.fraction_digits, kIntegerFraction);
  few_digits = set.not_integer || !set.multiple_of.empty() || !set.not_multiple_of.empty() ||
               !set.excluded.empty();
  free = !set.min && !set.max && !few_digits;
  if (format.canonical) make_canonical();
  zero_allowed = set.contains(Decimal());
  plain = !set.min && !set.max && !few_digits;
  sides = {side(false), side(true)};
  uint64_t remainders = 1;
  for (const auto* list : {&set.multiple_of, &set.not_multiple_of}) {
    for (const Decimal& value : *list) {
      if (value.negative || value.is_zero()) {
        return invalid_argument("multipleOf must be above 0");
      }
      CHIMERE_TRY(auto divisor, Divisor::create(value));
      remainders *= divisor.states();
      if (remainders > kMaxRemainders) {
        return unsupported("the divisors of multipleOf together have too many remainders");
      }
      divisors.push_back(std::move(divisor));
    }
  }
  numbers.intern({});  // kDead
  live.push_back(0);
  Number first;
  first.kind = Kind::kBegin;
  first.remainders = intern(Remainders(divisors.size()));
  Candidates none;
  intern_candidates(none);
  start = intern(first);
  if (!alive(start)) return invalid_argument("no number satisfies all conditions");
  return {};
}

void NumberMachine::Impl::make_canonical() {
  const auto whole = [](const Decimal& value) { return value.is_integer(); };
  const bool single = set.min && set.min == set.max && whole(*set.min);
  set.integer = set.integer || single || std::ranges::any_of(set.multiple_of, whole);
  if (!set.integer) return;
  format.fraction_digits = 0;
  format.exponent = false;
  const auto first = *Decimal::parse(kFirstInteger);
  const auto last = *Decimal::parse(kLastInteger);
  if (!set.min && (!set.max || *set.max >= first)) set.min = first;
  if (!set.max && *set.min <= last) set.max = last;
}

/// Counts a digit of a number that is not an integer; whether canonical form has no such digit.
bool NumberMachine::Impl::too_long(Number& number, uint8_t byte) const {
  const bool fraction = number.kind == Kind::kFraction;
  if (number.length > 0 || byte != '0') ++number.length;
  number.zeros = fraction && byte == '0' ? static_cast<uint8_t>(number.zeros + 1) : uint8_t{0};
  // Nothing else looks at the number of digits after the point.
  if (plain && fraction) number.fraction_digits = 1;
  return number.length > kCanonicalDigits || number.zeros > kZeroRun;
}

State NumberMachine::Impl::intern(const Number& number) {
  if (number.kind == Kind::kNothing) return kDead;
  const State state = numbers.intern(number);
  if (state == live.size()) live.push_back(-1);
  return state;
}

/// Takes a digit of the integer part or the fraction into all comparisons.
void NumberMachine::Impl::read_digit(Number& number, uint32_t digit) {
  const Side& bounds = side_of(number);
  if (!divisors.empty()) {
    Remainders list = remainder_lists[number.remainders];
    for (size_t i = 0; i < list.size(); ++i) {
      if (number.fraction_digits > divisors[i].fraction_digits()) {
        if (digit != 0) list[i] = kNeverMultiple;
      } else if (list[i] != kNeverMultiple) {
        list[i] = divisors[i].append(list[i], digit);
      }
    }
    number.remainders = intern(std::move(list));
  }
  if (is_zero(number)) {
    if (digit == 0) return;
    // The first digit that counts.
    if (!bounds.excluded.empty()) {
      Candidates all(bounds.excluded.size());
      for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
      number.excluded = intern_candidates(std::move(all));
    }
    if (bounds.bounded() && number.fraction_digits > 0) {
      number.scale = static_cast<int16_t>(-number.fraction_digits);
    }
  }
  const size_t at = number.digits;
  const auto digit_of = [&](const Decimal& value) {
    return at < value.digits.size() ? static_cast<uint32_t>(value.digits[at] - '0') : 0;
  };
  const auto compare = [&](const std::optional<Decimal>& bound, Order& order) {
    if (!bound || order != Order::kEqual || digit == digit_of(*bound)) return;
    order = digit < digit_of(*bound) ? Order::kLess : Order::kGreater;
  };
  compare(bounds.lower, number.lower);
  compare(bounds.upper, number.upper);
  const Candidates& before = candidate_lists[number.excluded];
  if (!before.empty()) {
    Candidates left;
    for (const uint32_t i : before) {
      if (digit == digit_of(bounds.excluded[i])) left.push_back(i);
    }
    number.excluded = intern_candidates(std::move(left));
  }
  number.digits = std::min<uint16_t>(static_cast<uint16_t>(at + 1), bounds.digits);
  // Where nothing is compared any more, the number of digits no longer matters.
  const bool decided = (!bounds.lower || number.lower != Order::kEqual) &&
                       (!bounds.upper || number.upper != Order::kEqual) &&
                       candidate_lists[number.excluded].empty();
  if (decided && !few_digits) number.digits = bounds.digits;
  if (decided && few_digits && number.digits >= kExactDigits) number.digits = bounds.digits;
}

void NumberMachine::Impl::leave_integer(Number& number) const {
  if (number.kind == Kind::kInteger && side_of(number).bounded()) {
    number.scale = static_cast<int16_t>(number.integer_digits - 1);
  }
  const bool scientific = number.kind == Kind::kInteger && number.integer_digits == 1;
  number.integer_digits = scientific && (!plain || format.canonical) ? 1 : 0;
}

/// Whether no further digits lead to a number of the set, as far as that is cheap to tell.
bool NumberMachine::Impl::hopeless(const Number& number) const {
  const Side& bounds = side_of(number);
  const Remainders& list = remainder_lists[number.remainders];
  for (size_t i = 0; i < set.multiple_of.size(); ++i) {
    if (list[i] == kNeverMultiple) return true;
  }
  const auto below = [&](int32_t scale) {
    return bounds.lower && scale < bounds.lower->exponent - 1;
  };
  if (is_zero(number)) {
    return number.kind == Kind::kFraction && below(-number.fraction_digits - 1);
  }
  if (!bounds.possible) return true;
  if (number.integer_digits == 1) return false;  // an exponent may follow
  const bool integer = number.kind == Kind::kInteger;
  const int32_t scale = integer ? number.integer_digits - 1 : number.scale;
  if (bounds.upper) {
    const int64_t limit = bounds.upper->exponent - 1;
    if (scale > limit || (scale == limit && number.upper == Order::kGreater)) return true;
  }
  if (integer || !bounds.lower) return false;
  return below(scale) || (scale == bounds.lower->exponent - 1 && number.lower == Order::kLess);
}

bool NumberMachine::Impl::multiples(const Number& number) const {
  const Remainders& list = remainder_lists[number.remainders];
  for (size_t i = 0; i < list.size(); ++i) {
    const int32_t zeros = divisors[i].fraction_digits() - number.fraction_digits;
    const bool divides = list[i] != kNeverMultiple && divisors[i].divides(list[i], zeros);
    if (divides != (i < set.multiple_of.size())) return false;
  }
  return true;
}

/// The exponents that make the digits read so far a number of the set.
ExponentRange NumberMachine::Impl::powers(const Number& number) const {
  const Side& bounds = side_of(number);
  ExponentRange out = {-kMaxShownExponent, kMaxShownExponent};
  if (is_zero(number)) return zero_allowed ? out : ExponentRange();
  if (!bounds.possible) return {};
  if (bounds.bounded()) {
    const int32_t scale = number.kind == Kind::kInteger ? number.integer_digits - 1 : number.scale;
    out = {-kMaxPower - scale, kMaxPower - scale};
    // Digits that equal the beginning of a longer bound are below it.
    const auto order = [&](const Decimal& bound, Order digits) {
      return digits == Order::kEqual && number.digits < bound.digits.size() ? Order::kLess : digits;
    };
    const auto scale_of = [](const Decimal& bound) {
      return static_cast<int32_t>(std::clamp<int64_t>(bound.exponent - 1, -100'000, 100'000));
    };
    if (bounds.lower) {
      const bool less = order(*bounds.lower, number.lower) == Order::kLess;
      out.min = std::max(out.min, scale_of(*bounds.lower) - scale + (less ? 1 : 0));
    }
    if (bounds.upper) {
      const bool greater = order(*bounds.upper, number.upper) == Order::kGreater;
      out.max = std::min(out.max, scale_of(*bounds.upper) - scale - (greater ? 1 : 0));
    }
    for (const uint32_t i : candidate_lists[number.excluded]) {
      const Decimal& value = bounds.excluded[i];
      if (order(value, Order::kEqual) != Order::kEqual) continue;
      const int32_t hole = scale_of(value) - scale;
      if (!out.contains(hole)) continue;
      // Keep the larger part: the one with the exponent 0, if any.
      if (hole < 0) {
        out.min = hole + 1;
      } else {
        out.max = hole - 1;
      }
    }
  }
  if (set.integer) {
    if (number.fraction) return {};
    out.min = std::max(out.min, 0);
  }
  if (set.not_integer) {
    // Decided by the digits alone, so only without shifting them.
    if (!number.fraction) return {};
    out.min = std::max(out.min, 0);
    out.max = std::min(out.max, 0);
  }
  if (!divisors.empty()) {
    if (!multiples(number)) return {};
    out.min = std::max(out.min, 0);
    if (!set.not_multiple_of.empty()) out.max = std::min(out.max, 0);
  }
  return out;
}

bool NumberMachine::Impl::final(const Number& number) const {
  switch (number.kind) {
    case Kind::kZero:
      if (format.canonical && number.negative) return false;
      [[fallthrough]];
    case Kind::kInteger:
    case Kind::kFraction:
      return powers(number).contains(0);
    case Kind::kPower:
      if (format.canonical && number.power == 0) return false;
      return number.power >= number.low && number.power <= number.high;
    default:
      return false;
  }
}

NumberMachine::Impl::Number NumberMachine::Impl::exponent_after(const Number& number,
                                                                uint8_t byte) const {
  Number out;
  const bool digit = byte >= '0' && byte <= '9';
  out.low = number.low;
  out.high = number.high;
  if (number.kind == Kind::kExponent) {
    const bool down = byte == '-';
    if (down) {
      out.low = std::max<int16_t>(static_cast<int16_t>(-number.high), 0);
      out.high = static_cast<int16_t>(-number.low);
    } else {
      out.low = std::max<int16_t>(number.low, 0);
    }
    if (out.low > out.high) return {};
    out.kind = Kind::kSign;
    if (down || byte == '+') return out;
  } else {
    out.power = number.power;
    out.power_digits = number.power_digits;
  }
  if (!digit || out.power_digits >= kExponentDigits) return {};
  // 1e5, 1e05, 1e100; not 1e0, 1e005.
  const bool padded = out.power_digits == 2 && out.power < 10;
  if (format.canonical && (padded || out.power_digits >= kCanonicalExponentDigits)) return {};
  out.kind = Kind::kPower;
  out.power = static_cast<int16_t>(out.power * 10 + (byte - '0'));
  ++out.power_digits;
  return out.power <= out.high ? out : Number();
}

NumberMachine::Impl::Number NumberMachine::Impl::after(const Number& number, uint8_t byte) {
  if (number.kind == Kind::kNothing) return {};
  if (number.kind >= Kind::kExponent) return exponent_after(number, byte);
  Number out = number;
  const bool digit = byte >= '0' && byte <= '9';
  const bool begins = number.kind == Kind::kBegin || number.kind == Kind::kMinus;
  if (byte == '-' && number.kind == Kind::kBegin) {
    out.kind = Kind::kMinus;
    // Where both signs are alike, nothing depends on it but what may follow a zero.
    out.negative = !plain || format.canonical;
    return out;
  }
  if (plain && number.kind != Kind::kMinus) out.negative = false;
  if (begins || number.kind == Kind::kInteger) {
    if (digit) {
      out.kind = begins && byte == '0' ? Kind::kZero : Kind::kInteger;
      if (out.kind == Kind::kInteger && ++out.integer_digits > format.integer_digits) return {};
      if (few_digits && number.digits >= kExactDigits && byte != '0') return {};
      const bool whole = format.fraction_digits == 0;
      if (format.canonical && whole && out.kind == Kind::kZero && number.negative) return {};
      if (format.canonical && !whole && too_long(out, byte)) return {};
      read_digit(out, byte - '0');
      return hopeless(out) ? Number() : out;
    }
    if (begins) return {};
  }
  if (number.kind == Kind::kPoint || number.kind == Kind::kFraction) {
    if (digit) {
      out.kind = Kind::kFraction;
      if (++out.fraction_digits > format.fraction_digits) return {};
      if (set.integer && byte != '0') return {};
      if (few_digits && number.digits >= kExactDigits && byte != '0') return {};
      if (byte != '0' && set.not_integer) out.fraction = true;
      if (format.canonical && too_long(out, byte)) return {};
      read_digit(out, byte - '0');
      return hopeless(out) ? Number() : out;
    }
    if (number.kind == Kind::kPoint) return {};
  } else if (byte == '.') {
    if (format.fraction_digits == 0) return {};
    leave_integer(out);
    out.kind = Kind::kPoint;
    return out;
  }
  if ((byte | 0x20) != 'e' || !format.exponent) return {};
  // A number that is too large must not be saved by a negative exponent: where there are
  // conditions, only the scientific form has an exponent.
  const bool scientific = !is_zero(number) && number.integer_digits == 1;
  if ((!plain || format.canonical) && !scientific) return {};
  const ExponentRange range = powers(number);
  if (range.empty()) return {};
  out = Number();
  out.kind = Kind::kExponent;
  out.low = static_cast<int16_t>(range.min);
  out.high = static_cast<int16_t>(range.max);
  return out;
}

State NumberMachine::Impl::step(State state, uint8_t byte) {
  const uint32_t known = steps.get(state, byte);
  if (known != LazyRows::kUnknown) return known;
  WorkScope::add(kUnitsPerStep + divisors.size());
  const Number number = numbers[state];
  const State out = intern(after(number, byte));
  steps.set(state, byte, out);
  return out;
}

/// Whether some continuation is a number of the set. The depth of the recursion is that of the
/// digits.
bool NumberMachine::Impl::alive(State state) {
  if (live[state] >= 0) return live[state] == 1;
  constexpr std::string_view kBytes = "0123456789.e-";
  bool found = final(numbers[state]);
  if (WorkScope::exhausted()) return true;
  for (size_t i = 0; i < kBytes.size() && !found; ++i) {
    const State target = step(state, static_cast<uint8_t>(kBytes[i]));
    found = target != kDead && alive(target);
  }
  live[state] = found ? 1 : 0;
  return found;
}

NumberMachine::NumberMachine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NumberMachine::~NumberMachine() = default;

Result<std::unique_ptr<NumberMachine>> NumberMachine::create(const NumberSet& set,
                                                             const NumberFormat& format) {
  auto impl = std::make_unique<Impl>();
  CHIMERE_CHECK_OK(impl->compile(set, format));
  return std::unique_ptr<NumberMachine>(new NumberMachine(std::move(impl)));
}

State NumberMachine::start() { return impl_->start; }

State NumberMachine::next(State state, uint8_t byte) {
  const uint32_t known = impl_->rows.get(state, byte);
  if (known != LazyRows::kUnknown) return known;
  State out = impl_->step(state, byte);
  if (!impl_->alive(out)) out = kDead;
  impl_->rows.set(state, byte, out);
  return out;
}

bool NumberMachine::accepts(State state) { return impl_->final(impl_->numbers[state]); }

ByteSet NumberMachine::first_bytes(State /*state*/) {
  ByteSet out;
  for (const char c : std::string_view("0123456789.eE+-")) out.set(static_cast<uint8_t>(c));
  return out;
}

uint64_t NumberMachine::shared_key(State state) {
  if (state == kDead || !impl_->free || !impl_->default_format) return 0;
  const Impl::Number& number = impl_->numbers[state];
  constexpr uint64_t kJsonNumber = 0x4A4E;  // keys of other machines begin with another number
  if (impl_->format.canonical) {
    const uint64_t key =
        combine(kJsonNumber << 1 | (impl_->set.integer ? 1 : 0), Impl::NumberHash()(number));
    return key | 1;
  }
  uint64_t key = kJsonNumber << 4 | static_cast<uint64_t>(number.kind);
  const auto append = [&](uint32_t value, int bits) { key = key << bits | value; };
  append(impl_->set.integer ? 1 : 0, 1);
  append(number.integer_digits, 6);
  append(number.fraction_digits, 6);
  append(number.digits == 0 ? 0 : 1, 1);
  append(number.power_digits, 3);
  append(static_cast<uint32_t>(number.power), 14);
  // Bounds of the exponent are 0 or kMaxShownExponent.
  append(number.low < 0 ? 1 : 0, 1);
  append(number.high > 0 ? 1 : 0, 1);
  return key;
}

size_t NumberMachine::memory() const {
  return sizeof(Impl) + impl_->numbers.size() * (2 * sizeof(Impl::Number) + 64) +
         impl_->remainder_lists.size() * 128 + impl_->candidate_lists.size() * 128 +
         impl_->steps.memory() + impl_->rows.memory();
}

}  // namespace chimere::constraints
