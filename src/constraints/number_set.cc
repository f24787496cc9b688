// Operations on NumberSet.
#include <algorithm>

#include "constraints/json_number.h"

namespace chimere::constraints {

NumberSet NumberSet::intersect(const NumberSet& other) const {
  NumberSet out = *this;
  if (other.min && (!min || *min <= *other.min)) {
    out.exclusive_min = other.exclusive_min || (min == other.min && exclusive_min);
    out.min = other.min;
  }
  if (other.max && (!max || *max >= *other.max)) {
    out.exclusive_max = other.exclusive_max || (max == other.max && exclusive_max);
    out.max = other.max;
  }
  out.integer = integer || other.integer;
  out.not_integer = not_integer || other.not_integer;
  const auto append = [](std::vector<Decimal>& to, const std::vector<Decimal>& from) {
    for (const Decimal& value : from) {
      if (std::ranges::find(to, value) == to.end()) to.push_back(value);
    }
  };
  append(out.multiple_of, other.multiple_of);
  append(out.not_multiple_of, other.not_multiple_of);
  append(out.excluded, other.excluded);
  return out;
}

bool NumberSet::contains(const Decimal& value) const {
  if (min && (value < *min || (exclusive_min && value == *min))) return false;
  if (max && (value > *max || (exclusive_max && value == *max))) return false;
  if ((integer && !value.is_integer()) || (not_integer && value.is_integer())) return false;
  if (std::ranges::find(excluded, value) != excluded.end()) return false;
  return std::ranges::all_of(multiple_of,
                             [&](const Decimal& d) { return is_multiple(value, d) == true; }) &&
         std::ranges::all_of(not_multiple_of,
                             [&](const Decimal& d) { return is_multiple(value, d) == false; });
}

}  // namespace chimere::constraints
