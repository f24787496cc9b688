// chimere help and chimere version.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "json.h"
#include "kernels/cpu/isa.h"
#include "kernels/cuda/device/modules.h"

namespace chimere::app {
namespace {

/// The output of --help of the command that the words name. Throws a CLI11 error if there is no
/// such command.
std::string help_of(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* command = &program;
  std::string path = program.get_name();
  for (const std::string& word : words) {
    const CLI::App* below = nullptr;
    for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; })) {
      if (sub->get_name() == word) below = sub;
    }
    path += " ";
    path += word;
    if (below == nullptr) {
      throw CLI::ValidationError("There is no command '" + path + "'",
                                 CLI::ExitCodes::ValidationError);
    }
    command = below;
  }
  // App::help() would print the help of the parsed command, which is `help` itself.
  return command->get_formatter()->make_help(command, path, CLI::AppFormatMode::Normal);
}

std::string processors() {
  std::string names;
  for (const kernels::CpuIsa isa : kernels::compiled_cpu_isas()) {
    names += (names.empty() ? "" : ", ") + std::string(kernels::cpu_isa_name(isa));
  }
  return names;
}

bool with_cuda() { return !kernels::cuda::embedded_modules().empty(); }

Status print_version(const CommandLine& line) {
  if (!line.json) {
    std::cout << version_text() << '\n';
    return {};
  }
  Json isas = Json::array();
  for (const kernels::CpuIsa isa : kernels::compiled_cpu_isas()) {
    isas.push_back(kernels::cpu_isa_name(isa));
  }
  print_json({{"version", CHIMERE_VERSION},
              {"cpu_isas", std::move(isas)},
              {"cpu_isa", kernels::cpu_isa_name(kernels::best_cpu_isa())},
              {"cuda", with_cuda()},
              {"server", kWithServer}});
  return {};
}

}  // namespace

std::string version_text() {
  return "chimere " CHIMERE_VERSION "\nkernels for processors: " + processors() +
         " (here: " + kernels::cpu_isa_name(kernels::best_cpu_isa()) +
         ")\nkernels for NVIDIA GPUs: " + (with_cuda() ? "yes" : "no") +
         "\nserver: " + (kWithServer ? "yes" : "no");
}

void declare_version(Command& program, CommandLine& line) {
  add_command(program, line, "version", "Prints the version and what the program was built with",
              [&line] { return print_version(line); });
}

void declare_help(Command& program, CommandLine& line) {
  const auto words = std::make_shared<std::vector<std::string>>();
  Command command = program.command("help", "Prints the help of the program or of a command");
  command.option("COMMAND", *words, "The command, like: eval logits");
  // Unknown commands are usage errors, so they are looked up during parsing.
  command.app().final_callback([program, &line, words] {
    line.run = [text = help_of(program.app(), *words)]() -> Status {
      std::cout << text;
      return {};
    };
  });
}

}  // namespace chimere::app
