#include "base/byte_amount.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string>

namespace chimere {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array<Unit, 9> kUnits = {{{"", 1},
                                         {"K", 1e3},
                                         {"M", 1e6},
                                         {"G", 1e9},
                                         {"T", 1e12},
                                         {"Ki", 0x1p10},
                                         {"Mi", 0x1p20},
                                         {"Gi", 0x1p30},
                                         {"Ti", 0x1p40}}};

}  // namespace

Result<int64_t> parse_byte_amount(std::string_view text) {
  double number = 0;
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, number);
  std::string_view name(end, static_cast<size_t>(text_end - end));
  const bool has_unit = !name.empty();
  if (name.ends_with('B')) name.remove_suffix(1);
  const auto unit = std::ranges::find(kUnits, name, &Unit::name);
  if (error == std::errc() && has_unit && unit != kUnits.end()) {
    const double bytes = number * unit->bytes;
    if (bytes >= 1 && bytes < 0x1p62) return static_cast<int64_t>(bytes);
  }
  return invalid_argument(
      "'" + std::string(text) +
      "' is not an amount of memory; write a number and a unit, like 15.5GiB or "
      "900M");
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kSuffixes = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kSuffixes.size()) {
    bytes /= 1000;
    ++unit;
  }
  std::array<char, 64> text;
  const int length = std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.2f %s",
                                   bytes, kSuffixes[unit]);
  return {text.data(), static_cast<size_t>(length)};
}

}  // namespace chimere
