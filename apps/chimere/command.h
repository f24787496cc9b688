// Shared by all subcommands: declaration, settings, input and output.
#ifndef CHIMERE_APPS_CHIMERE_COMMAND_H_
#define CHIMERE_APPS_CHIMERE_COMMAND_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
class Option;
}  // namespace CLI

namespace chimere::app {

/// A message for standard error: on a terminal in rows that end between words, elsewhere one line.
/// Texts of several lines stay as they are.
std::string message_rows(const std::string& message);

/// The parsed command line. Commands bind their flags to it in their declare_*() function, which
/// also sets `run`.
struct CommandLine {
  Settings settings;
  std::string program = "chimere";  ///< how to call it again, for messages
  bool json = false;
  std::function<Status()> run;  ///< of the subcommand that was given

  /// Values given as flags, by setting; they go into `settings` after the config file and the
  /// environment.
  std::vector<std::pair<const SettingInfo*, std::string>> flags;
};

/// Returns what is wrong with the text of a value; empty: it is valid.
using Check = std::function<std::string(const std::string&)>;

/// A flag with a value, a switch or a positional argument, while it is declared. Calls chain.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  Option& check(const Check& check);
  /// Smallest and largest value.
  template <std::integral T>
  Option& range(T min, std::type_identity_t<T> max) {
    return between(static_cast<int64_t>(min), static_cast<int64_t>(max));
  }
  Option& range(double min, double max);
  Option& one_of(const std::vector<std::string>& choices);
  /// Shows the variable's current value as the default in the help.
  Option& show_default();
  /// A list takes one value instead of all following ones.
  Option& one_value();
  /// The flag may be given several times.
  Option& repeatable();
  /// A value is a list with this separator.
  Option& separator(char between);
  Option& excludes(const Option& other);

 private:
  Option& between(int64_t min, int64_t max);

  CLI::Option* option_;
};

/// A command while it is declared. CLI11 parses the command line; its headers compile more slowly
/// than most commands, so that only few files include them.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  /// Adds a subcommand.
  Command command(const std::string& name, const std::string& description);
  /// Adds a subcommand that requires one of its own subcommands.
  Command group(const std::string& name, const std::string& description);
  /// Sets the action, which becomes `line.run` when the command is given without a subcommand.
  void set_run(CommandLine& line, std::function<Status()> run);

  /// `names`: "-p,--prompt", or "TEXT" for a positional argument.
  Option option(const std::string& names, std::string& value, const std::string& help);
  Option option(const std::string& names, std::optional<std::string>& value,
                const std::string& help);
  Option option(const std::string& names, std::vector<std::string>& value, const std::string& help);
  Option option(const std::string& names, int32_t& value, const std::string& help);
  Option option(const std::string& names, int64_t& value, const std::string& help);
  Option option(const std::string& names, double& value, const std::string& help);
  Option option(const std::string& names, const std::function<void(const std::string&)>& take,
                const std::string& help);
  Option flag(const std::string& names, bool& value, const std::string& help);
  /// Accepts undeclared flags and arguments.
  void allow_anything();

  CLI::App& app() const { return *app_; }

 private:
  CLI::App* app_;
};

/// Adds a command with --json.
Command add_command(Command& parent, CommandLine& line, const std::string& name,
                    const std::string& description, std::function<Status()> run);

/// Adds the flags of the settings of these groups, with range, default and variable in their help.
void add_settings(Command& command, CommandLine& line, std::initializer_list<SettingGroup> groups);

/// Parses "1,2,3". Errors: kInvalidArgument, naming the item that is no number in [min, max].
Result<std::vector<int32_t>> parse_numbers(std::string_view text, int32_t min, int32_t max,
                                           std::string_view what);

/// Advice for an empty model name, and for that of a drafter.
extern const char* const kNameModel;
extern const char* const kNameDrafter;

/// Refuses an empty value with this advice: a sentence without its full stop.
Check not_empty(const std::string& advice);

/// parse_numbers() as a check of a flag: a bad list is a usage error.
Check number_list(int32_t min, int32_t max, const std::string& what);

/// Checks a flag's value against a setting's kind and range.
Check setting_value(const SettingInfo& setting);

/// Whether a text is empty or white space only.
bool is_blank(std::string_view text);

/// The lines of a text that are not empty.
std::vector<std::string> lines_of(const std::string& text);

/// Reads all of standard input. Errors: kIo.
Result<std::string> read_standard_input();
/// Reads a whole file, or standard input if the path is "-". Errors: kNotFound, kIo.
Result<std::string> read_file(const std::string& path);

void declare_run(Command& app, CommandLine& line);
void declare_chat(Command& app, CommandLine& line);
void declare_bench(Command& app, CommandLine& line);
void declare_eval(Command& app, CommandLine& line);
void declare_divergence(Command& eval, CommandLine& line);
void declare_engram(Command& app, CommandLine& line);
void declare_engram_eval(Command& engram, CommandLine& line);
void declare_embed(Command& app, CommandLine& line);
void declare_rerank(Command& app, CommandLine& line);
void declare_tokenize(Command& app, CommandLine& line);
void declare_detokenize(Command& app, CommandLine& line);
void declare_inspect(Command& app, CommandLine& line);
void declare_convert(Command& app, CommandLine& line);
void declare_imatrix(Command& app, CommandLine& line);
void declare_hidden_states(Command& app, CommandLine& line);
void declare_quantize(Command& app, CommandLine& line);
void declare_pull(Command& app, CommandLine& line);
void declare_list(Command& app, CommandLine& line);
void declare_models(Command& app, CommandLine& line);
void declare_rm(Command& app, CommandLine& line);
/// Whether this program was built with the server; otherwise `serve` and `keys` say how to get it.
extern const bool kWithServer;
void declare_serve(Command& app, CommandLine& line);
void declare_keys(Command& app, CommandLine& line);
void declare_ask(Command& app, CommandLine& line);
void declare_mcp(Command& app, CommandLine& line);
void declare_odo(Command& app, CommandLine& line);
void declare_odo_check(Command& odo, CommandLine& line);
void declare_odo_explain(Command& odo, CommandLine& line);
void declare_collection(Command& app, CommandLine& line);
void declare_state(Command& app, CommandLine& line);
/// What `chimere version` and --version print.
std::string version_text();
void declare_version(Command& program, CommandLine& line);
void declare_help(Command& program, CommandLine& line);
void declare_completion(Command& program, CommandLine& line);
void declare_man(Command& program, CommandLine& line);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_COMMAND_H_
