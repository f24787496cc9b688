#include "command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/terminal.h"
#include "help_format.h"
#include "wrap_text.h"

namespace chimere::app {

const char* const kNameModel =
    "name a GGUF file or a model that `chimere list` shows, or leave it out for the shipped one";
const char* const kNameDrafter =
    "name a drafter's GGUF file or one that `chimere list` shows, or none for no drafter";

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::check(const Check& check) {
  option_->check(CLI::Validator([check](const std::string& text) { return check(text); }, "", ""));
  return *this;
}

Option& Option::between(int64_t min, int64_t max) {
  option_->check(CLI::Range(min, max));
  return *this;
}

Option& Option::range(double min, double max) {
  option_->check(CLI::Range(min, max));
  return *this;
}

Option& Option::one_of(const std::vector<std::string>& choices) {
  option_->check(CLI::IsMember(choices));
  return *this;
}

Option& Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::one_value() {
  option_->expected(1);
  return *this;
}

Option& Option::repeatable() {
  option_->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Option& Option::separator(char between) {
  option_->delimiter(between);
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Command Command::command(const std::string& name, const std::string& description) {
  return Command(*app_->add_subcommand(name, description));
}

Command Command::group(const std::string& name, const std::string& description) {
  CLI::App* app = app_->add_subcommand(name, description);
  app->require_subcommand(1);
  return Command(*app);
}

void Command::set_run(CommandLine& line, std::function<Status()> run) {
  app_->final_callback([&line, app = app_, run = std::move(run)] {
    if (app->get_subcommands().empty()) line.run = run;
  });
}

Option Command::option(const std::string& names, std::string& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}
Option Command::option(const std::string& names, std::optional<std::string>& value,
                       const std::string& help) {
  return Option(app_->add_option(names, value, help));
}
Option Command::option(const std::string& names, std::vector<std::string>& value,
                       const std::string& help) {
  return Option(app_->add_option(names, value, help));
}
Option Command::option(const std::string& names, int32_t& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}
Option Command::option(const std::string& names, int64_t& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}
Option Command::option(const std::string& names, double& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}
Option Command::option(const std::string& names,
                       const std::function<void(const std::string&)>& take,
                       const std::string& help) {
  return Option(app_->add_option_function<std::string>(names, take, help));
}

Option Command::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

void Command::allow_anything() { app_->allow_extras(); }

std::string message_rows(const std::string& message) {
  if (!is_terminal(StandardStream::kError) || message.find('\n') != std::string::npos) {
    return message;
  }
  const int columns = terminal_size(StandardStream::kError).columns;
  return wrap_text(message, 0, static_cast<size_t>(std::max(columns, 1)), 0);
}

Command add_command(Command& parent, CommandLine& line, const std::string& name,
                    const std::string& description, std::function<Status()> run) {
  Command command = parent.command(name, description);
  command.flag("--json", line.json,
               "Print one JSON document on standard output, everything else on standard error");
  command.set_run(line, std::move(run));
  return command;
}

namespace {

/// Whether the largest value is worth a line: numbers that only bound what fits into a type or a
/// file are not.
bool is_bounded(const SettingInfo& s) {
  constexpr double kLargestShown = 100'000;
  return s.kind == SettingInfo::Kind::kText || !s.choices.empty() || s.max <= kLargestShown;
}

/// The variable of a flag, if it is not CHIMERE_ and the flag's name.
std::string unusual_variable(const SettingInfo& s) {
  return s.variable.empty() ? "" : fmt::format(" [{}]", s.variable);
}

void add_setting(Command& command, CommandLine& line, const SettingInfo& s) {
  const std::string flag = "--" + std::string(s.name);
  if (command.app().get_option_no_throw(flag) != nullptr) return;
  const std::string names =
      s.short_flag.empty() ? flag : "-" + std::string(s.short_flag) + "," + flag;
  const auto take = [&line, setting = &s](const std::string& value) {
    line.flags.emplace_back(setting, value);
  };
  if (s.kind == SettingInfo::Kind::kSwitch) {
    command.app()
        .add_flag_callback(
            names, [take] { take("1"); }, std::string(s.help) + unusual_variable(s))
        ->group(std::string(flag_group(s)));
    return;
  }
  std::string help(s.help);
  const std::string range = is_bounded(s) ? settings::range_text(s) : "";
  if (!range.empty()) help += " (" + range + ")";
  help += unusual_variable(s);
  CLI::Option* option = command.app().add_option_function<std::string>(names, take, help);
  if (s.repeatable) {
    option->join(',');
  } else {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  if (&s == &settings::kModel) Option(option).check(not_empty(kNameModel));
  if (&s == &settings::kDraftModel) Option(option).check(not_empty(kNameDrafter));
  if (!s.default_value.empty()) option->default_str(std::string(s.default_value));
  option->type_name(s.kind == SettingInfo::Kind::kText ? "TEXT" : "N");
  option->group(std::string(flag_group(s)));
}

}  // namespace

void add_settings(Command& command, CommandLine& line, std::initializer_list<SettingGroup> groups) {
  for (const SettingGroup group : groups) {
    for (const SettingInfo* s : settings::in_group(group)) add_setting(command, line, *s);
  }
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
      return invalid_argument(fmt::format(
          "'{}' is no {}: give comma-separated numbers from {} to {}.", piece, what, min, max));
    }
    numbers.push_back(number);
    if (next == end) return numbers;
    at = next + 1;
  }
}

Check not_empty(const std::string& advice) {
  return [=](const std::string& text) { return text.empty() ? "It is empty; " + advice : ""; };
}

Check number_list(int32_t min, int32_t max, const std::string& what) {
  return [=](const std::string& text) {
    const auto numbers = parse_numbers(text, min, max, what);
    return numbers.ok() ? std::string() : numbers.error().message;
  };
}

Check setting_value(const SettingInfo& setting) {
  return [&setting](const std::string& text) {
    const Status status = Settings().set(setting, text, "this flag");
    return status.ok() ? std::string() : status.error().message;
  };
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

Result<std::string> read_standard_input() {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (std::cin.bad()) return io_error("Standard input cannot be read.");
  return text;
}

Result<std::string> read_file(const std::string& path) {
  if (path == "-") return read_standard_input();
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return not_found("The file '" + path + "' cannot be opened; check its name and permissions.");
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad() || text.fail())
    return io_error("The file '" + path + "' cannot be read, or is empty.");
  return std::move(text).str();
}

}  // namespace chimere::app
