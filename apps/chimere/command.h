// What the subcommands have in common: how they are declared, their settings, their output.
#ifndef CHIMERE_APPS_CHIMERE_COMMAND_H_
#define CHIMERE_APPS_CHIMERE_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace chimere::app {

/// The parsed command line. Commands bind their flags to it in their declare_*() function, which
/// also sets `run`.
struct CommandLine {
  Settings settings;
  bool json = false;
  std::function<Status()> run;  ///< of the subcommand that was given

  /// Values given as flags, by setting; they go into `settings` after the config file and the
  /// environment.
  std::vector<std::pair<const SettingInfo*, std::string>> flags;
};

/// Adds a subcommand with --json. Its action is chosen when the subcommand is parsed.
CLI::App* add_command(CLI::App& parent, CommandLine& line, const std::string& name,
                      const std::string& description, std::function<Status()> run);

/// Adds the flags of settings, with range, default and variable in their help.
void add_settings(CLI::App& command, CommandLine& line,
                  std::span<const SettingInfo* const> settings);

/// Settings of every command that runs a model, and of those that sample.
std::span<const SettingInfo* const> model_settings();
std::span<const SettingInfo* const> sampling_settings();
/// Settings of the n-gram tables that a command uses.
std::span<const SettingInfo* const> engram_settings();

/// "1,2,3" as numbers. Errors: kInvalidArgument, naming what is no number in [min, max].
Result<std::vector<int32_t>> parse_numbers(std::string_view text, int32_t min, int32_t max,
                                           std::string_view what);

/// The same as a check of a flag, so that a bad list is a usage error.
CLI::Validator number_list(int32_t min, int32_t max, const std::string& what);

/// A check that a flag's value suits a setting.
CLI::Validator setting_value(const SettingInfo& setting);

/// All of standard input. Errors: kIo.
Result<std::string> read_standard_input();
/// All of a file. Errors: kNotFound, kIo.
Result<std::string> read_file(const std::string& path);

/// For people: "1.50 GB" (powers of 1000).
std::string human_bytes(double bytes);

void declare_run(CLI::App& app, CommandLine& line);
void declare_chat(CLI::App& app, CommandLine& line);
void declare_bench(CLI::App& app, CommandLine& line);
void declare_eval(CLI::App& app, CommandLine& line);
void declare_divergence(CLI::App& eval, CommandLine& line);
void declare_engram(CLI::App& app, CommandLine& line);
void declare_engram_eval(CLI::App& engram, CommandLine& line);
void declare_embed(CLI::App& app, CommandLine& line);
void declare_tokenize(CLI::App& app, CommandLine& line);
void declare_detokenize(CLI::App& app, CommandLine& line);
void declare_inspect(CLI::App& app, CommandLine& line);
void declare_pull(CLI::App& app, CommandLine& line);
void declare_list(CLI::App& app, CommandLine& line);
void declare_rm(CLI::App& app, CommandLine& line);
void declare_serve(CLI::App& app, CommandLine& line);
void declare_keys(CLI::App& app, CommandLine& line);
void declare_state(CLI::App& app, CommandLine& line);
void declare_completion(CLI::App& app, CommandLine& line);
void declare_man(CLI::App& app, CommandLine& line);

/// The chat, for `chimere` and `chimere run` on a terminal. `state`: where the conversation is
/// kept; empty: nowhere.
Status run_chat(const CommandLine& line, const std::string& state = "");

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_COMMAND_H_
