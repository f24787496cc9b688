#include "base/settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/byte_amount.h"

namespace chimere {
namespace settings {

using Kind = SettingInfo::Kind;

std::span<const SettingInfo* const> all() {
  static constexpr auto kAll = std::to_array<const SettingInfo*>({
#define SETTING(id, ...) &id,
#define SAMPLING_OPTION(id, ...) &id,
#define DRY_OPTION(id, ...) &id,
#include "base/settings.def"
  });
  return kAll;
}

std::vector<const SettingInfo*> in_group(SettingGroup group) {
  std::vector<const SettingInfo*> out;
  std::ranges::copy_if(all(), std::back_inserter(out),
                       [group](const auto* s) { return s->groups.has(group); });
  return out;
}

const SettingInfo* find(std::string_view name) {
  const auto settings = all();
  const auto it = std::ranges::find_if(settings, [&](const auto* s) { return s->name == name; });
  return it == settings.end() ? nullptr : *it;
}

std::string variable_name(const SettingInfo& setting) {
  if (!setting.variable.empty()) return std::string(setting.variable);
  std::string name = "CHIMERE_";
  for (const char c : setting.name) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

namespace {

std::string number_text(double v) {
  std::array<char, 32> buffer{};
  const auto end = v == std::rint(v)
                       ? std::to_chars(buffer.begin(), buffer.end(), static_cast<int64_t>(v)).ptr
                       : std::to_chars(buffer.begin(), buffer.end(), v).ptr;
  return {buffer.data(), end};
}

}  // namespace

std::string range_text(const SettingInfo& setting) {
  if (setting.kind == Kind::kSwitch) return "one of 1, 0, true, false, yes, no, on, off";
  if (setting.kind != Kind::kText && setting.choices.empty()) {
    return "from " + number_text(setting.min) + " to " + number_text(setting.max);
  }
  if (setting.bytes) return "an amount of memory, with its unit, like 15.5GiB or 900M";
  if (setting.choices.empty()) return "";
  std::string names;
  for (const std::string_view choice : setting.choices) {
    if (!names.empty()) names += ", ";
    names += choice;
  }
  if (setting.separator == '\0') return "one of " + names;
  return "a list, separated by '" + std::string(1, setting.separator) + "', of " + names;
}

}  // namespace settings

namespace {

std::string_view trim(std::string_view s) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

template <typename T>
bool parse_whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Settings::Settings() {
  for (const SettingInfo* s : settings::all())
    values_.emplace(s->name, parse(*s, s->default_value, "default").value());
}

Result<Settings::Value> Settings::parse(const SettingInfo& setting, std::string_view text,
                                        std::string_view source) {
  const auto refuse = [&](const std::string& why) {
    return invalid_argument("The value '" + std::string(text) + "' of " + std::string(source) +
                            " cannot be used: " + why + ".");
  };
  const auto is_choice = [&](std::string_view word) {
    return std::ranges::find(setting.choices, word) != setting.choices.end();
  };
  switch (setting.kind) {
    case SettingInfo::Kind::kInteger: {
      int64_t v = 0;
      if (!parse_whole(text, v))
        return refuse("it must be a whole number " + settings::range_text(setting));
      const auto d = static_cast<double>(v);
      if (d < setting.min || d > setting.max || (!setting.choices.empty() && !is_choice(text)))
        return refuse("it must be " + settings::range_text(setting));
      return Value(v);
    }
    case SettingInfo::Kind::kReal: {
      double v = 0;
      if (!parse_whole(text, v))
        return refuse("it must be a number " + settings::range_text(setting));
      const bool within = setting.min <= v && v <= setting.max;  // false for NaN
      if (!within) return refuse("it must be " + settings::range_text(setting));
      return Value(v);
    }
    case SettingInfo::Kind::kSwitch: {
      std::string word(text);
      std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
      if (word == "1" || word == "true" || word == "yes" || word == "on") return Value(true);
      // An empty environment variable counts as not set.
      if (word.empty() || word == "0" || word == "false" || word == "no" || word == "off")
        return Value(false);
      return refuse("it must be " + settings::range_text(setting));
    }
    case SettingInfo::Kind::kText: {
      if (setting.bytes && !text.empty() && !parse_byte_amount(text).ok())
        return refuse("it must be " + settings::range_text(setting));
      std::string_view rest = text;
      while (!setting.choices.empty()) {
        const size_t end = setting.separator == '\0'
                               ? rest.size()
                               : std::min(rest.find(setting.separator), rest.size());
        if (!is_choice(rest.substr(0, end)))
          return refuse("it must be " + settings::range_text(setting));
        if (end == rest.size()) break;
        rest.remove_prefix(end + 1);
      }
      return Value(std::string(text));
    }
  }
  return refuse("its setting has an unknown type");
}

Status Settings::set(const SettingInfo& setting, std::string_view text, std::string_view source) {
  CHIMERE_TRY(values_.at(setting.name), parse(setting, text, source));
  set_.insert(setting.name);
  return {};
}

Status Settings::load_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return not_found("The config file '" + path + "' cannot be read.");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#') continue;
    const std::string where = path + ":" + std::to_string(number);
    const size_t equals = content.find('=');
    if (equals == std::string_view::npos) {
      return invalid_argument(where + ": '" + std::string(content) +
                              "' is not of the form 'key = value'.");
    }
    const std::string_view key = trim(content.substr(0, equals));
    const SettingInfo* setting = settings::find(key);
    if (setting == nullptr) {
      return invalid_argument(where + ": there is no setting '" + std::string(key) +
                              "'; `chimere run --help` lists them.");
    }
    CHIMERE_CHECK_OK(
        set(*setting, trim(content.substr(equals + 1)), where + " (" + std::string(key) + ")"));
  }
  return {};
}

Status Settings::load_environment(const char* const* environment) {
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view variable = entry.substr(0, equals);
    const auto all = settings::all();
    const auto it = std::ranges::find_if(
        all, [&](const auto* s) { return settings::variable_name(*s) == variable; });
    if (it == all.end()) {
      if (!entry.starts_with("CHIMERE_")) continue;
      return invalid_argument(
          "The environment variable " + std::string(variable) +
          " is not a setting; unset it, or see `chimere run --help` for a list.");
    }
    CHIMERE_CHECK_OK(set(**it, entry.substr(std::min(equals + 1, entry.size())), variable));
  }
  return {};
}

}  // namespace chimere
