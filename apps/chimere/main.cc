// The program: parses the command line and hands over to a subcommand.
// Exit codes: 0 success, 1 an error, 2 wrong usage, 130 interrupted.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/nearest_word.h"
#include "base/system.h"
#include "chat.h"
#include "command.h"
#include "foreign_flags.h"
#include "given_command.h"
#include "help_format.h"
#include "runtime/model_path.h"

namespace chimere::app {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

int complain(const std::string& message, int code) {
  std::cerr << message_rows("chimere: " + message) << '\n';
  return code;
}

/// Config file, then environment, then flags.
Status collect_settings(CommandLine& line) {
  const std::string home = home_folder();
  const std::string config = home + "/.config/chimere/config";
  std::error_code unreadable;  // a home folder that may not be searched has no config file
  if (!home.empty() && std::filesystem::exists(config, unreadable))
    CHIMERE_CHECK_OK(line.settings.load_file(config));
  CHIMERE_CHECK_OK(line.settings.load_environment(environment()));
  for (const auto& [setting, value] : line.flags) {
    CHIMERE_CHECK_OK(line.settings.set(*setting, value, "--" + std::string(setting->name)));
  }
  return {};
}

/// The innermost command named on the command line.
const CLI::App& given_command(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

/// The command that the words name, also if the parser would not get as far.
const CLI::App& named_command(const CLI::App& program, std::span<const std::string> words) {
  const CLI::App* command = &program;
  for (const std::string& word : words) {
    const auto below =
        command->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
    if (below.empty()) break;
    command = below.front();
  }
  return *command;
}

/// The words without flags of other programs.
OwnArguments own_arguments(const CLI::App& program, std::span<const std::string> words) {
  const CLI::App& command = named_command(program, words);
  if (command.get_allow_extras()) return {.words = {words.begin(), words.end()}};
  return without_foreign_flags(words, [&](const std::string& name) {
    const CLI::Option* option = command.get_option_no_throw(name);
    return OwnFlag{option != nullptr, option != nullptr && option->get_expected_max() > 0};
  });
}

/// "did you mean --temp?" for the first unknown flag, or for words that are a prompt.
std::string meant(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App& command = given_command(program);
  const auto flag =
      std::ranges::find_if(words, [](const std::string& word) { return word.starts_with("--"); });
  if (flag == words.end()) return command.get_name() == "chat" ? prompt_suggestion(words) : "";
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const ForeignFlag& other : foreign_flags()) {
    if (other.name.starts_with("--")) names.emplace_back(other.name);
  }
  const std::string near = nearest_word(flag->substr(0, flag->find('=')), names);
  return near.empty() ? "" : "did you mean " + near + "?";
}

/// "chimere engram query": the words that name the innermost command given.
std::string path_of(const CLI::App& program) {
  std::string path = program.get_name();
  for (const CLI::App* command = &program; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  return path;
}

/// The message for words that no command expects.
std::string unexpected(const CLI::App& program) {
  const std::vector<std::string> words = program.remaining(true);
  std::string message = "Unexpected arguments:";
  if (!words.empty() && words.front().starts_with("--")) {
    message = "`" + path_of(program) + "` has no flag " + words.front();
  } else {
    for (const std::string& word : words) message += " " + word;
  }
  const std::string suggestion = meant(program, words);
  return suggestion.empty() ? message : message + "; " + suggestion;
}

/// Whether `chimere NAME` runs a model of this name.
bool is_model(const std::string& name) {
  CommandLine trial;
  if (!collect_settings(trial).ok()) return false;  // which is complained of later
  const auto found = runtime::find_model(name, trial.settings);
  return found.ok() && found->path.ends_with(".gguf");
}

/// The message for a command that lacks a flag, an argument or a subcommand.
std::string required(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App& command = given_command(program);
  const std::string path = path_of(program);
  std::string names;
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + below->get_name();
  }
  if (!names.empty()) {
    const std::vector<std::string> words = program.remaining(true);
    if (words.empty()) return "`" + path + "` needs a subcommand: " + names;
    return "There is no command '" + path + " " + words.front() + "'; `" + path + "` has " + names;
  }
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    return "`" + path + "` needs " + option->get_name() + ": " + option->get_description();
  }
  return error.what();
}

/// The message for a flag without its value; CLI11's is "--file: 1 required TEXT missing".
std::string without_value(const CLI::ParseError& error) {
  std::string message = error.what();
  const size_t colon = message.find(": ");
  if (colon == std::string::npos || !message.ends_with(" missing")) return message;
  return message.substr(0, colon) + " needs a value";
}

/// What is wrong with the command line.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error) {
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::ExtrasError:
      return unexpected(program);
    case CLI::ExitCodes::RequiredError:
      return required(program, error);
    case CLI::ExitCodes::ArgumentMismatch:
      return without_value(error);
    default:
      return error.what();
  }
}

/// The arguments in CLI11's order, last word first. CLI11 would read the word after "--flag=" as
/// its value, so an empty value becomes a word of its own.
std::vector<std::string> reversed_words(std::span<const std::string> arguments) {
  std::vector<std::string> words;
  bool flags = true;
  for (const std::string& argument : arguments) {
    flags = flags && argument != "--";
    const bool empty_value = flags && argument.size() > 3 && argument.starts_with("--") &&
                             argument.find('=') == argument.size() - 1;
    words.push_back(empty_value ? argument.substr(0, argument.size() - 1) : argument);
    if (empty_value) words.emplace_back();
  }
  std::ranges::reverse(words);
  return words;
}

/// Prints what is wrong with the command line, and which help to read.
int complain_of_usage(std::string message) {
  while (message.ends_with('.')) message.pop_back();
  if (!message.ends_with('?')) message += '.';
  return complain(
      message + " `chimere --help` lists commands, `chimere COMMAND --help` their flags.", kUsage);
}

int run_program(int argc, char** argv) {
  CLI::App app("Answers questions with language models that run on this machine.", "chimere");
  set_help_format(app);
  app.footer(
      "Without a command, a conversation opens. `chimere COMMAND --help` lists the flags of a "
      "command. They may also be environment variables (CHIMERE_TOP_K=5 for --top-k 5) or lines of "
      "~/.config/chimere/config (top-k = 5). Flags override variables, and variables override the "
      "file.");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", version_text,
                       "Print the version and what the program was built with, and exit");
  CommandLine line;
  if (argc > 0) line.program = program_word(argv[0]);
  Command program(app);
  declare_run(program, line);
  declare_chat(program, line);
  declare_bench(program, line);
  declare_eval(program, line);
  declare_engram(program, line);
  declare_tokenize(program, line);
  declare_embed(program, line);
  declare_rerank(program, line);
  declare_detokenize(program, line);
  declare_inspect(program, line);
  declare_pull(program, line);
  declare_convert(program, line);
  declare_imatrix(program, line);
  declare_hidden_states(program, line);
  declare_quantize(program, line);
  declare_list(program, line);
  declare_models(program, line);
  declare_rm(program, line);
  declare_serve(program, line);
  declare_keys(program, line);
  declare_collection(program, line);
  declare_ask(program, line);
  declare_odo(program, line);
  declare_mcp(program, line);
  declare_state(program, line);
  declare_completion(program, line);
  declare_man(program, line);
  declare_help(program, line);
  declare_version(program, line);
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
  }
  const auto words = with_command(std::vector<std::string>(argv + std::min(argc, 1), argv + argc),
                                  commands, is_model);
  if (!words.ok()) return complain_of_usage(words.error().message);
  const OwnArguments arguments = own_arguments(app, *words);
  if (!arguments.refusal.empty()) return complain_of_usage(arguments.refusal);
  try {
    app.parse(reversed_words(arguments.words));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    return complain_of_usage(usage_error(app, e));
  }
  const Status settings = collect_settings(line);
  if (!settings.ok()) return complain(settings.error().message, kUsage);
  if (!line.settings.get(settings::kQuiet)) {
    for (const std::string& notice : arguments.notices) std::cerr << notice << '\n';
  }
  if (!line.run) {
    if (!is_terminal(StandardStream::kInput) || !is_terminal(StandardStream::kOutput)) {
      std::cerr << app.help();
      return kUsage;
    }
    line.run = [&line] { return run_chat(line); };
  }
  const Status done = line.run();
  if (done.ok()) return 0;
  return complain(done.error().message,
                  done.error().code == Error::Code::kCancelled ? kInterrupted : kFailure);
}

}  // namespace
}  // namespace chimere::app

int main(int argc, char** argv) {
  try {
    return chimere::app::run_program(argc, argv);
  } catch (const std::exception& e) {
    // Only the standard library throws here: memory is exhausted, or the output is closed.
    return chimere::app::complain(std::string("Unexpected error: ") + e.what(),
                                  chimere::app::kFailure);
  }
}
