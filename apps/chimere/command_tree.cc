#include "command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace chimere::app {
namespace {

FlagFacts describe(const CLI::Option& option) {
  FlagFacts flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  flag.help = option.get_description();
  flag.takes_value = option.get_expected_max() > 0;
  for (std::string name : option.get_lnames()) {
    flag.setting = settings::find(name);
    // --base-cache-k takes the values of --cache-k.
    if (name.starts_with("base-")) name.erase(0, 5);
    if (const SettingInfo* like = settings::find(name); like != nullptr) {
      if (like->separator == '\0') flag.choices.assign(like->choices.begin(), like->choices.end());
    }
    flag.takes_model = name == "model" || name == "base" || name == "draft-model";
  }
  return flag;
}

void add(const CLI::App& app, const std::string& name, std::vector<CommandFacts>& out) {
  CommandFacts command;
  command.name = name;
  command.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() && option->get_lnames().empty()) {
      command.arguments.push_back(option->get_name(true));
    } else {
      command.flags.push_back(describe(*option));
    }
  }
  const auto below = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* sub : below) command.commands.push_back(sub->get_name());
  out.push_back(std::move(command));
  for (const CLI::App* sub : below) {
    add(*sub, name.empty() ? sub->get_name() : name + " " + sub->get_name(), out);
  }
}

}  // namespace

std::vector<CommandFacts> command_tree(const Command& program) {
  std::vector<CommandFacts> out;
  add(program.app(), "", out);
  return out;
}

}  // namespace chimere::app
