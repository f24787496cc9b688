#include "protocol/foreign_values.h"

#include <array>
#include <cmath>
#include <utility>

namespace chimere::protocol {
namespace {

constexpr double kLeastTemperature = 0.001;  // of SamplingParams

Json temperature_of(const Json& value, std::string& why) {
  const auto wanted = value.get<double>();
  if (wanted > 0 && wanted < kLeastTemperature) {
    why = "A temperature below 0.001 is taken for 0, the most likely token.";
    return 0;
  }
  if (wanted > settings::kTemperature.max) {
    why = "The temperature is lowered to 100.";
    return settings::kTemperature.max;
  }
  return value;
}

/// Any 64-bit number but -1, a new seed each time, by its lowest 53 bits: what a setting holds.
Json seed_of(const Json& value) {
  const bool large = value.is_number_unsigned();
  if (!large && !whole_number(value)) return value;
  const uint64_t bits = large ? value.get<uint64_t>() : static_cast<uint64_t>(*whole_number(value));
  if (bits == ~uint64_t{0} && !large) return -1;
  constexpr uint64_t kKept = (uint64_t{1} << 53) - 1;
  return bits <= kKept + 1 ? bits : bits & kKept;
}

/// llama.cpp's letters, and names separated by semicolons.
Json samplers_of(const std::string& text) {
  constexpr auto kLetters =
      std::to_array<std::pair<char, std::string_view>>({{'e', "penalties"},
                                                        {'d', "dry"},
                                                        {'s', "top_n_sigma"},
                                                        {'k', "top_k"},
                                                        {'y', "typ_p"},
                                                        {'p', "top_p"},
                                                        {'m', "min_p"},
                                                        {'x', "xtc"},
                                                        {'t', "temperature"}});
  Json out = Json::array();
  for (const char c : text) {
    for (const auto& [letter, name] : kLetters) {
      if (c == letter) out.push_back(name);
    }
  }
  if (out.size() == text.size()) return out;
  out = Json::array();
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace

Json translated(const SettingInfo& setting, const Json& value, std::string& why) {
  if (&setting == &settings::kSamplers && value.is_string()) {
    return samplers_of(value.get_ref<const std::string&>());
  }
  if (!value.is_number()) return value;
  if (&setting == &settings::kTemperature) return temperature_of(value, why);
  if (&setting == &settings::kSeed) return seed_of(value);
  if (&setting == &settings::kTopK && value == -1) return 0;
  // Valid in OpenAI's range; keeps only the most likely token.
  if (&setting == &settings::kTopP && value == 0) return settings::kTopP.min;
  if (&setting == &settings::kMirostat && value == 1) {
    why = "Mirostat 2 is used in place of Mirostat 1.";
    return 2;
  }
  if (setting.kind == SettingInfo::Kind::kInteger && value.is_number_float()) {
    if (const auto whole = whole_number(value)) return *whole;
  }
  return value;
}

std::string_view effort_of(std::string_view name) {
  constexpr auto kNames =
      std::to_array<std::pair<std::string_view, std::string_view>>({{"none", "none"},
                                                                    {"off", "none"},
                                                                    {"disabled", "none"},
                                                                    {"minimal", "low"},
                                                                    {"low", "low"},
                                                                    {"medium", "medium"},
                                                                    {"high", "high"},
                                                                    {"xhigh", "high"},
                                                                    {"max", "auto"},
                                                                    {"auto", "auto"},
                                                                    {"enabled", "auto"},
                                                                    {"adaptive", "auto"}});
  for (const auto& [known, effort] : kNames) {
    if (known == name) return effort;
  }
  return "";
}

}  // namespace chimere::protocol
