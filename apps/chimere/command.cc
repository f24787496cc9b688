#include "command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <utility>

namespace chimere::app {

CLI::App* add_command(CLI::App& parent, CommandLine& line, const std::string& name,
                      const std::string& description, std::function<Status()> run) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->add_flag(
      "--json", line.json,
      "Print one JSON document on standard output, everything else on standard error");
  command->final_callback([&line, run = std::move(run)] { line.run = run; });
  return command;
}

void add_settings(CLI::App& command, CommandLine& line,
                  std::span<const SettingInfo* const> settings) {
  for (const SettingInfo* s : settings) {
    const std::string flag = "--" + std::string(s->name);
    const std::string names =
        s->short_flag.empty() ? flag : "-" + std::string(s->short_flag) + "," + flag;
    std::string help(s->help);
    const std::string range = settings::range_text(*s);
    if (!range.empty()) help += " (" + range + ")";
    help += fmt::format(" [{}]", settings::variable_name(*s));
    if (s->kind == SettingInfo::Kind::kSwitch) {
      command.add_flag_callback(
          names, [&line, s] { line.flags.emplace_back(s, "1"); },
          fmt::format("{} [{}]", s->help, settings::variable_name(*s)));
      continue;
    }
    CLI::Option* option = command.add_option_function<std::string>(
        names, [&line, s](const std::string& value) { line.flags.emplace_back(s, value); }, help);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (!s->default_value.empty()) option->default_str(std::string(s->default_value));
    option->type_name(s->kind == SettingInfo::Kind::kText ? "TEXT" : "N");
  }
}

std::span<const SettingInfo* const> model_settings() {
  static constexpr std::array<const SettingInfo*, 11> kSettings = {
      &settings::kModel,      &settings::kModels,     &settings::kBackend,  &settings::kVramBudget,
      &settings::kCpuExperts, &settings::kThreads,    &settings::kContext,  &settings::kCacheK,
      &settings::kCacheV,     &settings::kExpertTopP, &settings::kSpeculate};
  return kSettings;
}

std::span<const SettingInfo* const> sampling_settings() {
  static constexpr auto kSettings = std::to_array<const SettingInfo*>({&settings::kMaxTokens,
                                                                       &settings::kReasoning,
                                                                       &settings::kSamplers,
                                                                       &settings::kTemperature,
                                                                       &settings::kTopK,
                                                                       &settings::kTopP,
                                                                       &settings::kMinP,
                                                                       &settings::kTypical,
                                                                       &settings::kTopNSigma,
                                                                       &settings::kXtcProbability,
                                                                       &settings::kXtcThreshold,
                                                                       &settings::kDynatempRange,
                                                                       &settings::kDynatempExponent,
                                                                       &settings::kMirostat,
                                                                       &settings::kMirostatEntropy,
                                                                       &settings::kMirostatRate,
                                                                       &settings::kRepeatPenalty,
                                                                       &settings::kFrequencyPenalty,
                                                                       &settings::kPresencePenalty,
                                                                       &settings::kPenaltyWindow,
                                                                       &settings::kDryMultiplier,
                                                                       &settings::kDryBase,
                                                                       &settings::kDryAllowedLength,
                                                                       &settings::kDryWindow,
                                                                       &settings::kDryBreakers,
                                                                       &settings::kLogitBias,
                                                                       &settings::kSeed});
  return kSettings;
}

std::span<const SettingInfo* const> engram_settings() {
  static constexpr std::array<const SettingInfo*, 4> kSettings = {
      &settings::kEngram, &settings::kEngramGate, &settings::kEngramThinking,
      &settings::kAssumeTokenizer};
  return kSettings;
}

Result<std::vector<int32_t>> parse_numbers(std::string_view text, int32_t min, int32_t max,
                                           std::string_view what) {
  std::vector<int32_t> numbers;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    while (at != end && *at == ' ') ++at;
    int32_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (next != end && *next != ',') || number < min || number > max) {
      const std::string_view piece(at, static_cast<size_t>(std::find(at, end, ',') - at));
      return invalid_argument(
          fmt::format("'{}' is no {}: give numbers from {} to {}, with commas between them.", piece,
                      what, min, max));
    }
    numbers.push_back(number);
    if (next == end) return numbers;
    at = next + 1;
  }
}

CLI::Validator number_list(int32_t min, int32_t max, const std::string& what) {
  const auto check = [=](const std::string& text) {
    const auto numbers = parse_numbers(text, min, max, what);
    return numbers.ok() ? std::string() : numbers.error().message;
  };
  return {check, "", ""};
}

CLI::Validator setting_value(const SettingInfo& setting) {
  const auto check = [&setting](const std::string& text) {
    const Status status = Settings().set(setting, text, "this flag");
    return status.ok() ? std::string() : status.error().message;
  };
  return {check, "", ""};
}

Result<std::string> read_standard_input() {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (std::cin.bad()) return io_error("Standard input cannot be read.");
  return text;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return not_found("The file '" + path + "' cannot be opened; check its name and permissions.");
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad() || text.fail())
    return io_error("The file '" + path + "' cannot be read, or is empty.");
  return std::move(text).str();
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

}  // namespace chimere::app
