// The program: parses the command line and hands over to a subcommand.
// Exit codes: 0 success, 1 an error, 2 wrong usage, 130 interrupted.
#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>

#include "base/system.h"
#include "command.h"
#include "kernels/cpu/isa.h"
#include "kernels/cuda/device/modules.h"

namespace chimere::app {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

int complain(const std::string& message, int code) {
  std::cerr << "chimere: " << message << '\n';
  return code;
}

/// Config file, then environment, then flags.
Status collect_settings(CommandLine& line) {
  const std::string home = home_folder();
  const std::string config = home + "/.config/chimere/config";
  if (!home.empty() && std::filesystem::exists(config))
    CHIMERE_CHECK_OK(line.settings.load_file(config));
  CHIMERE_CHECK_OK(line.settings.load_environment(environment()));
  for (const auto& [setting, value] : line.flags) {
    CHIMERE_CHECK_OK(line.settings.set(*setting, value, "--" + std::string(setting->name)));
  }
  return {};
}

/// The version, and what this program was built with.
std::string version_text() {
  std::string isas;
  for (const kernels::CpuIsa isa : kernels::compiled_cpu_isas()) {
    isas += (isas.empty() ? "" : ", ") + std::string(kernels::cpu_isa_name(isa));
  }
  return std::string("chimere " CHIMERE_VERSION "\nkernels for processors: ") + isas +
         " (here: " + kernels::cpu_isa_name(kernels::best_cpu_isa()) +
         ")\nkernels for NVIDIA GPUs: " +
         (kernels::cuda::embedded_modules().empty() ? "no" : "yes") +
         "\nserver: " + (kWithServer ? "yes" : "no");
}

int run_program(int argc, char** argv) {
  CLI::App app("Runs hybrid state-space and mixture-of-experts language models.", "chimere");
  app.footer(
      "Settings may also stand in ~/.config/chimere/config (key = value, keys are flag names "
      "without dashes) or in\n"
      "CHIMERE_* variables; flags win over variables, and variables over the file. `chimere "
      "COMMAND --help` tells more.\n"
      "Without a command on a terminal, the chat opens.");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", version_text,
                       "Print the version and what the program was built with, and exit");
  CommandLine line;
  Command program(app);
  declare_run(program, line);
  declare_chat(program, line);
  declare_bench(program, line);
  declare_eval(program, line);
  declare_engram(program, line);
  declare_tokenize(program, line);
  declare_embed(program, line);
  declare_detokenize(program, line);
  declare_inspect(program, line);
  declare_pull(program, line);
  declare_list(program, line);
  declare_rm(program, line);
  declare_serve(program, line);
  declare_keys(program, line);
  declare_state(program, line);
  declare_completion(program, line);
  declare_man(program, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    return complain(std::string(e.what()) +
                        ". `chimere --help` lists commands, `chimere COMMAND --help` their flags.",
                    kUsage);
  }
  const Status settings = collect_settings(line);
  if (!settings.ok()) return complain(settings.error().message, kUsage);
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
    return chimere::app::complain(
        std::string("This failed for a reason that was not foreseen: ") + e.what(),
        chimere::app::kFailure);
  }
}
