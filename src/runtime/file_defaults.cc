#include "runtime/file_defaults.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <variant>

namespace chimere::runtime {
namespace {

/// A metadata value as a user would write it; empty for booleans and arrays.
std::string text_of(const gguf::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* integer = std::get_if<uint64_t>(&value)) return std::to_string(*integer);
  // Files have numbers of 32 bits: 0.6 is not 0.60000002.
  if (const auto* real = std::get_if<double>(&value))
    return fmt::format("{}", static_cast<float>(*real));
  return "";
}

/// Values that mean the same at llama.cpp.
std::string translated(const SettingInfo& setting, std::string text) {
  if (&setting == &settings::kTopK && text == "-1") return "0";
  if (&setting == &settings::kTopP && text == "0") return "1e-06";
  if (&setting == &settings::kMirostat && text == "1") return "2";
  constexpr double kLeastTemperature = 0.001;  // of SamplingParams
  if (&setting == &settings::kTemperature && std::strtod(text.c_str(), nullptr) < kLeastTemperature)
    return "0";
  return text;
}

}  // namespace

Result<Settings> with_file_defaults(const Settings& settings, const gguf::Reader& file) {
  Settings out = settings;
  for (const SettingInfo* setting : settings::all()) {
    if (setting->file_key.empty() || settings.is_set(*setting)) continue;
    const std::string key = "general.sampling." + std::string(setting->file_key);
    const gguf::Value* const value = file.find(key);
    if (value == nullptr) continue;
    const Status done = out.set(*setting, translated(*setting, text_of(*value)),
                                "the key " + key + " of the model file");
    if (done.ok()) continue;
    return invalid_data(done.error().message + " Give --" + std::string(setting->name) +
                        ", which replaces it.");
  }
  return out;
}

}  // namespace chimere::runtime
