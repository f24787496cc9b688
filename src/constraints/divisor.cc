#include "constraints/divisor.h"

#include <algorithm>
#include <utility>

namespace chimere::constraints {
namespace {

uint64_t multiply(uint64_t a, uint64_t b, uint64_t modulus) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % modulus);
}

}  // namespace

Result<Divisor> Divisor::create(const Decimal& value) {
  // The modulus, with the zeros of an integer written out, stays far below 2^63.
  constexpr int64_t kMostDigits = 17;
  constexpr int64_t kMostFraction = 30;
  const auto count = static_cast<int64_t>(value.digits.size());
  const int64_t zeros = std::max<int64_t>(value.exponent - count, 0);
  const int64_t fraction = std::max<int64_t>(count - value.exponent, 0);
  const Error refusal =
      unsupported("multipleOf " + value.text() + " has too many digits; use a simpler divisor");
  if (count + zeros > kMostDigits || fraction > kMostFraction) return refusal;
  uint64_t modulus = 0;
  for (const char c : value.digits) modulus = modulus * 10 + static_cast<uint64_t>(c - '0');
  for (int64_t i = 0; i < zeros; ++i) modulus *= 10;
  Divisor out(modulus);
  out.fraction_digits_ = static_cast<int32_t>(fraction);
  uint64_t rest = modulus;
  uint64_t tens = 1;
  for (; rest % 10 == 0; rest /= 10) ++tens;
  if (rest > kMaxStates / tens) return refusal;
  out.states_ = rest * tens;
  out.canonical(0);
  return out;
}

/// The first remainder seen of those that the same digits complete to multiples.
uint64_t Divisor::canonical(uint64_t remainder) {
  const auto known = canonical_.find(remainder);
  if (known != canonical_.end()) return known->second;
  // Which number of j digits completes it; from some j on there always is one, which depends only
  // on the shifted remainder.
  constexpr uint64_t kNone = UINT64_MAX;
  std::vector<uint64_t> signature;
  uint64_t shifted = remainder;
  uint64_t power = 1;
  for (; power < modulus_; power *= 10) {
    const uint64_t completion = shifted == 0 ? 0 : modulus_ - shifted;
    signature.push_back(completion < power ? completion : kNone);
    shifted = multiply(shifted, 10, modulus_);
  }
  signature.push_back(shifted);
  const uint64_t found = classes_.try_emplace(std::move(signature), remainder).first->second;
  canonical_.emplace(remainder, found);
  return found;
}

uint64_t Divisor::append(uint64_t remainder, uint32_t digit) {
  return canonical((multiply(remainder, 10, modulus_) + digit) % modulus_);
}

bool Divisor::divides(uint64_t remainder, int32_t zeros) const {
  for (; zeros > 0 && remainder != 0; --zeros) remainder = multiply(remainder, 10, modulus_);
  return remainder == 0;
}

}  // namespace chimere::constraints
