#include "constraints/json_number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"

namespace chimere::constraints {
namespace {

Decimal number(std::string_view text) {
  const auto value = Decimal::parse(text);
  EXPECT_TRUE(value.has_value()) << text;
  return value.value_or(Decimal());
}

State walk(Machine& machine, std::string_view text) {
  State state = machine.start();
  for (const char c : text) state = machine.next(state, static_cast<uint8_t>(c));
  return state;
}

bool accepts(Machine& machine, std::string_view text) {
  const State state = walk(machine, text);
  return state != kDead && machine.accepts(state);
}

bool accepts(const NumberSet& set, std::string_view text, const NumberFormat& format = {}) {
  auto machine = NumberMachine::create(set, format);
  return machine.ok() && accepts(**machine, text);
}

TEST(Decimal, ParseCompareAndWrite) {
  EXPECT_EQ(number("1.50"), number("15e-1"));
  EXPECT_EQ(number("-0.0"), Decimal());
  EXPECT_LT(number("-2"), number("-1.5"));
  EXPECT_LT(number("0.1"), number("0.12"));
  EXPECT_LT(number("99"), number("1e2"));
  EXPECT_EQ(number("1e400").text(), "1e400");
  EXPECT_EQ(number("0.00012").text(), "0.00012");
  EXPECT_EQ(number("12300").text(), "12300");
  EXPECT_EQ(Decimal::of(0.1), number("0.1"));
  EXPECT_EQ(Decimal::of(int64_t{-9007199254740993}).text(), "-9007199254740993");
  for (const char* bad : {"", "-", "01", "1.", ".5", "1e", "+1", "1x", "0x1", "1e9999999"}) {
    EXPECT_FALSE(Decimal::parse(bad).has_value()) << bad;
  }
  EXPECT_EQ(is_multiple(number("0.07"), number("0.01")), true);
  EXPECT_EQ(is_multiple(number("0.075"), number("0.01")), false);
  EXPECT_EQ(is_multiple(number("1e300"), number("7")), false);
  EXPECT_EQ(is_multiple(number("3e20"), number("2.5")), true);
}

TEST(Decimal, OrderIsThatOfIntegers) {
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const auto a = static_cast<int64_t>(random() % 4001) - 2000;
    const auto b = static_cast<int64_t>(random() % 4001) - 2000;
    ASSERT_EQ(Decimal::of(a) <=> Decimal::of(b), a <=> b) << a << " " << b;
    ASSERT_EQ(Decimal::of(a).to_double(), static_cast<double>(a));
    if (b > 0) {
      ASSERT_EQ(is_multiple(Decimal::of(a), Decimal::of(b)), a % b == 0);
    }
  }
}

TEST(NumberMachine, CommonTexts) {
  const NumberSet all;
  for (const char* text : {"0", "-0", "0.0", "-0.50", "1e-05", "1E+20", "12.5e3", "0e0",
                           "123456789012345678901234567890", "0.123456789012345678901234567890"}) {
    EXPECT_TRUE(accepts(all, text)) << text;
  }
  for (const char* text : {"", "-", "00", "01", "1.", ".5", "1e", "1e+", "+1", "1e400", "--1"}) {
    EXPECT_FALSE(accepts(all, text)) << text;
  }
  NumberSet integers;
  integers.integer = true;
  for (const char* text : {"0", "-7", "1.0", "1e5", "10e2", "99999999999999999999"}) {
    EXPECT_TRUE(accepts(integers, text)) << text;
  }
  for (const char* text : {"0.5", "1e-1", "1.50"}) EXPECT_FALSE(accepts(integers, text)) << text;
}

TEST(NumberMachine, BoundsDivisorsAndHoles) {
  NumberSet unit;
  unit.min = number("0");
  unit.max = number("1");
  unit.exclusive_min = true;
  for (const char* text : {"1", "1.0", "0.5", "0.00001", "1e-05", "5e-4"}) {
    EXPECT_TRUE(accepts(unit, text)) << text;
  }
  for (const char* text : {"0", "-0", "0.0", "1.1", "2", "10", "15", "1e1", "-0.5"}) {
    EXPECT_FALSE(accepts(unit, text)) << text;
  }
  // A number that is too large ends there: no exponent can save it.
  auto machine = NumberMachine::create(unit);
  EXPECT_EQ(walk(**machine, "10"), kDead);

  NumberSet cents;
  cents.multiple_of = {number("0.01")};
  for (const char* text : {"0.07", "12", "12.340", "-1.1", "3e2"}) {
    EXPECT_TRUE(accepts(cents, text)) << text;
  }
  for (const char* text : {"0.075", "1e-3"}) EXPECT_FALSE(accepts(cents, text)) << text;

  NumberSet none;
  none.integer = true;
  none.min = number("0.2");
  none.max = number("0.8");
  EXPECT_FALSE(NumberMachine::create(none).ok());
  none = NumberSet();
  none.multiple_of = {number("7")};
  none.min = number("8");
  none.max = number("13");
  EXPECT_FALSE(NumberMachine::create(none).ok());

  NumberSet big;
  big.max = number("1.7976931348623157e308");
  big.min = number("-1.7976931348623157e308");
  EXPECT_TRUE(accepts(big, "12345.678"));
  NumberSet single;
  single.min = single.max = number("123.456");
  EXPECT_TRUE(accepts(single, "123.456"));
  EXPECT_TRUE(accepts(single, "123.4560"));
  EXPECT_TRUE(accepts(single, "1.23456e2"));
  EXPECT_FALSE(accepts(single, "123.4561"));
}

TEST(NumberMachine, OpenBoundsHoldInDoubles) {
  NumberSet set;
  set.max = number("1");
  set.exclusive_max = true;
  EXPECT_TRUE(accepts(set, "0.99999999999"));
  EXPECT_FALSE(accepts(set, "0.99999999999999999999"));  // its double is 1
}

std::string describe(const NumberSet& set) {
  std::string out;
  if (set.min) out += (set.exclusive_min ? " > " : " >= ") + set.min->text();
  if (set.max) out += (set.exclusive_max ? " < " : " <= ") + set.max->text();
  if (set.integer) out += " integer";
  if (set.not_integer) out += " not integer";
  for (const Decimal& value : set.multiple_of) out += " multiple of " + value.text();
  for (const Decimal& value : set.not_multiple_of) out += " no multiple of " + value.text();
  for (const Decimal& value : set.excluded) out += " not " + value.text();
  return out;
}

NumberSet random_set(std::mt19937& random) {
  const auto value = [&] {
    std::string text = std::to_string(static_cast<int>(random() % 401) - 200);
    if (random() % 2 == 0) text += "." + std::to_string(random() % 100);
    if (random() % 8 == 0) text += "e" + std::to_string(static_cast<int>(random() % 5) - 2);
    return number(text);
  };
  const auto divisor = [&] {
    static const char* const kDivisors[] = {"1", "2",    "5",   "7",    "10",  "0.5",
                                            "3", "0.01", "2.5", "1000", "0.3", "12"};
    return number(kDivisors[random() % 12]);
  };
  NumberSet set;
  if (random() % 2 == 0) set.min = value();
  if (random() % 2 == 0) set.max = value();
  set.exclusive_min = random() % 2 == 0;
  set.exclusive_max = random() % 2 == 0;
  if (random() % 4 == 0) set.integer = true;
  if (random() % 8 == 0) set.not_integer = true;
  if (random() % 4 == 0) set.multiple_of.push_back(divisor());
  if (random() % 8 == 0) set.not_multiple_of.push_back(divisor());
  while (random() % 3 == 0) set.excluded.push_back(value());
  return set;
}

TEST(NumberMachine, AgreesWithExactArithmetic) {
  std::mt19937 random(fresh_seed());
  const auto seed = random();
  random.seed(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  int accepted = 0;
  int machines = 0;
  for (int round = 0; round < 500; ++round) {
    const NumberSet set = random_set(random);
    NumberFormat format;
    format.canonical = random() % 3 == 0;
    SCOPED_TRACE(describe(set) + (format.canonical ? ", canonical" : ""));
    auto machine = NumberMachine::create(set, format);
    std::vector<std::string> texts;
    for (int i = 0; i < 200; ++i) {
      std::string text = random() % 3 == 0 ? "-" : "";
      text += std::to_string(random() % (random() % 2 == 0 ? 10 : 300));
      if (random() % 2 == 0)
        text += "." + std::to_string(random() % (random() % 2 == 0 ? 10 : 1000));
      texts.push_back(text);
    }
    for (const auto* list : {&set.excluded}) {
      for (const Decimal& value : *list) texts.push_back(value.text());
    }
    if (set.min) texts.push_back(set.min->text());
    if (set.max) texts.push_back(set.max->text());
    for (const std::string& text : texts) {
      const bool member = set.contains(number(text));
      const bool fraction = text.find('.') != std::string::npos;
      if (format.canonical && (fraction || text == "-0")) {
        ASSERT_TRUE(member || !machine.ok() || !accepts(**machine, text)) << text;
        continue;
      }
      if (!machine.ok()) {
        ASSERT_FALSE(member) << text << ": " << machine.error().message;
        continue;
      }
      // In plain form and with up to 15 digits, exactly the members are accepted.
      if (text.find('e') == std::string::npos && (!set.integer || !fraction)) {
        ASSERT_EQ(accepts(**machine, text), member) << text;
        accepted += member ? 1 : 0;
      } else if (accepts(**machine, text)) {
        ASSERT_TRUE(member) << text;
      }
    }
    if (!machine.ok()) continue;
    ++machines;
    // Random walks: whatever is accepted is a member, and no walk ends in a dead end.
    for (int i = 0; i < 30; ++i) {
      std::string text;
      State state = (*machine)->start();
      while (true) {
        if ((*machine)->accepts(state)) {
          const Decimal value = number(text);
          ASSERT_TRUE(set.contains(value)) << text;
          const double x = value.to_double();
          if (set.min && set.exclusive_min) {
            ASSERT_GT(x, set.min->to_double()) << text;
          }
          if (set.max && set.exclusive_max) {
            ASSERT_LT(x, set.max->to_double()) << text;
          }
          for (const Decimal& hole : set.excluded) ASSERT_NE(x, hole.to_double()) << text;
          if (set.not_integer) {
            ASSERT_NE(x, std::trunc(x)) << text;
          }
          if (random() % 6 == 0) break;
        }
        std::vector<char> choices;
        for (const char c : std::string_view("0123456789.eE+-")) {
          if ((*machine)->next(state, static_cast<uint8_t>(c)) != kDead) choices.push_back(c);
        }
        if (choices.empty()) {
          ASSERT_TRUE((*machine)->accepts(state)) << "dead end after " << text;
          break;
        }
        text += choices[random() % choices.size()];
        state = (*machine)->next(state, static_cast<uint8_t>(text.back()));
        ASSERT_LT(text.size(), 200U);
      }
    }
  }
  EXPECT_GT(accepted, 1'000);
  EXPECT_GT(machines, 100);
}

TEST(NumberMachine, LargeDivisors) {
  NumberSet set;
  set.integer = true;
  set.multiple_of = {number("1000000")};
  EXPECT_TRUE(accepts(set, "3000000"));
  EXPECT_FALSE(accepts(set, "3000001"));
  set.multiple_of = {number("1000003")};
  auto machine = NumberMachine::create(set);
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.error().code, Error::Code::kUnsupported);
  set.multiple_of = {number("0")};
  EXPECT_EQ(NumberMachine::create(set).error().code, Error::Code::kInvalidArgument);
}

/// `texts` are those that a machine of canonical form accepts, `others` valid ones that it does
/// not.
void expect_canonical(const NumberSet& set, const std::vector<const char*>& texts,
                      const std::vector<const char*>& others) {
  NumberFormat format;
  format.canonical = true;
  for (const char* text : texts) EXPECT_TRUE(accepts(set, text, format)) << text;
  for (const char* text : others) {
    EXPECT_TRUE(set.contains(number(text))) << text;
    EXPECT_FALSE(accepts(set, text, format)) << text;
  }
}

TEST(NumberMachine, CanonicalIntegers) {
  NumberSet set;
  set.integer = true;
  expect_canonical(set, {"0", "-7", "1000000", "9223372036854775807", "-9223372036854775808"},
                   {"-0", "1.0", "1e5", "9223372036854775808", "-9223372036854775809",
                    "10000000000000000000", "100000000000000000000000"});
  // All members of these sets are integers, too.
  set = NumberSet();
  set.multiple_of = {number("5")};
  expect_canonical(set, {"0", "-15", "5000"}, {"5.0", "5e1", "-0", "10000000000000000000"});
  set = NumberSet();
  set.min = set.max = number("3");
  expect_canonical(set, {"3"}, {"3.0", "0.3e1", "30e-1"});
  // Bounds and divisors of the set itself go further.
  set = NumberSet();
  set.integer = true;
  set.max = number("1e25");
  expect_canonical(set, {"10000000000000000000000000", "-9223372036854775808"},
                   {"-9223372036854775809", "1e25"});
  set.min = number("9223372036854775808");
  set.max.reset();
  expect_canonical(set, {"9223372036854775808", "10000000000000000000000"}, {"1e20"});
}

TEST(NumberMachine, CanonicalNumbers) {
  NumberSet set;
  expect_canonical(set,
                   {"0", "-1", "2.50", "3.0", "-0.0", "-0.25", "0.000001", "1.5e-7", "1e-07",
                    "1E+20", "1e100", "12345678901234567", "0.12345678901234567"},
                   {"-0", "0e5", "1e0", "1e00", "1e005", "12e3", "12.5e3", "123456789012345678",
                    "0.123456789012345678", "0.00000001", "1.00000000", "1.00000001"});
  set.min = number("0");
  set.max = number("1");
  expect_canonical(set, {"0", "0.5", "1", "1.0", "5e-9"}, {"-0.0e0", "0.00000000", "1.0000000"});
  // A run of zeros that every member has: no number in canonical form.
  set.min = number("1.00000000001");
  set.max = number("1.00000000002");
  NumberFormat format;
  format.canonical = true;
  EXPECT_FALSE(NumberMachine::create(set, format).ok());
  EXPECT_TRUE(NumberMachine::create(set).ok());
  // Masks are shared between requests.
  auto a = NumberMachine::create(NumberSet(), format);
  auto b = NumberMachine::create(NumberSet(), format);
  EXPECT_NE((*a)->shared_key(walk(**a, "1")), 0U);
  EXPECT_EQ((*a)->shared_key(walk(**a, "-12.5")), (*b)->shared_key(walk(**b, "-77.1")));
  EXPECT_NE((*a)->shared_key(walk(**a, "1")), (*a)->shared_key(walk(**a, "11")));
}

TEST(NumberMachine, PlainNumbersShareMasks) {
  auto a = NumberMachine::create(NumberSet());
  auto b = NumberMachine::create(NumberSet());
  EXPECT_NE((*a)->shared_key(walk(**a, "1")), 0U);
  EXPECT_EQ((*a)->shared_key(walk(**a, "-12.5")), (*b)->shared_key(walk(**b, "-77.0")));
  EXPECT_NE((*a)->shared_key(walk(**a, "1")), (*a)->shared_key(walk(**a, "1.")));
}

}  // namespace
}  // namespace chimere::constraints
