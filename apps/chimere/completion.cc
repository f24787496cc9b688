// chimere completion: scripts that let shells complete commands, flags and models.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "command_tree.h"

namespace chimere::app {
namespace {

using Tree = std::vector<CommandFacts>;

constexpr const char* kModelNames = "chimere list 2>/dev/null | cut -d ' ' -f 1";

std::string join(const std::vector<std::string>& words, const char* between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

/// In single quotes, for sh and zsh.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string bash(const Tree& tree) {
  std::string out = R"sh(# bash completion of chimere
_chimere() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
)sh";
  for (const CommandFacts& c : tree) {
    for (const std::string& below : c.commands) {
      const std::string name = c.name.empty() ? below : c.name + " " + below;
      out += fmt::format("      {}) command={} ;;\n", quoted(c.name + " " + below), quoted(name));
    }
  }
  out += "    esac\n  done\n  case \"$previous\" in\n";
  std::vector<std::string> seen;
  for (const CommandFacts& c : tree) {
    for (const FlagFacts& f : c.flags) {
      const std::string names = join(f.names, " | ");
      if (std::ranges::find(seen, names) != seen.end()) continue;
      seen.push_back(names);
      if (!f.choices.empty()) {
        out += fmt::format(
            "    {}) mapfile -t COMPREPLY < <(compgen -W {} -- \"$current\"); return ;;\n", names,
            quoted(join(f.choices, " ")));
      } else if (f.takes_model) {
        out += fmt::format(
            "    {}) mapfile -t COMPREPLY < <(compgen -f -W \"$({})\" -- \"$current\"); return "
            ";;\n",
            names, kModelNames);
      } else if (f.takes_value) {
        out += fmt::format(
            "    {}) mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); return ;;\n", names);
      }
    }
  }
  out += "  esac\n  case \"$command\" in\n";
  for (const CommandFacts& c : tree) {
    std::vector<std::string> words = c.commands;
    for (const FlagFacts& f : c.flags) words.push_back(f.names.back());
    out += fmt::format("    {}) words={} ;;\n", quoted(c.name), quoted(join(words, " ")));
  }
  out += fmt::format(R"sh(  esac
  case "$command" in
    rm | inspect | run) [[ $current == -* ]] || words="$words $({})" ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F _chimere chimere
)sh",
                     kModelNames);
  return out;
}

std::string zsh(const Tree& tree) {
  // Characters with a meaning in an _arguments specification.
  const auto plain = [](const std::string& text) {
    return replaced(replaced(replaced(replaced(text, "\\", "\\\\"), "[", "\\["), "]", "\\]"), ":",
                    "\\:");
  };
  std::string out = "#compdef chimere\n# zsh completion of chimere\n";
  out += fmt::format(
      "_chimere_models() {{\n  local -a names\n  names=(${{(f)\"$({})\"}})\n"
      "  _alternative 'names:model:compadd -a names' 'files:file:_files'\n}}\n",
      kModelNames);
  for (const CommandFacts& c : tree) {
    const std::string function =
        "_chimere" + (c.name.empty() ? "" : "_" + replaced(c.name, " ", "_"));
    std::vector<std::string> specs;
    for (const FlagFacts& f : c.flags) {
      std::string action;
      if (!f.choices.empty()) {
        action = ":value:(" + join(f.choices, " ") + ")";
      } else if (f.takes_model) {
        action = ":model:_chimere_models";
      } else if (f.takes_value) {
        action = ":value:_files";
      }
      for (const std::string& name : f.names) {
        specs.push_back(quoted(fmt::format("{}[{}]{}", name, plain(f.help), action)));
      }
    }
    if (c.commands.empty()) {
      specs.push_back(quoted(c.name == "rm" || c.name == "inspect" || c.name == "run"
                                 ? "*:model:_chimere_models"
                                 : "*:file:_files"));
      out +=
          fmt::format("{}() {{\n  _arguments \\\n    {}\n}}\n", function, join(specs, " \\\n    "));
      continue;
    }
    std::vector<std::string> described;
    std::vector<std::string> cases;
    for (const CommandFacts& below : tree) {
      const size_t space = below.name.rfind(' ');
      const std::string parent = space == std::string::npos ? "" : below.name.substr(0, space);
      if (below.name.empty() || parent != c.name) continue;
      const std::string last = below.name.substr(space == std::string::npos ? 0 : space + 1);
      described.push_back(quoted(last + ":" + replaced(below.help, ":", "\\:")));
      cases.push_back(fmt::format("{}) _chimere_{} ;;", last, replaced(below.name, " ", "_")));
    }
    out += fmt::format(
        "{}() {{\n  local state line\n  local -a commands\n  commands=(\n    {}\n  )\n"
        "  _arguments -C {} '1:command:->command' '*::argument:->argument'\n"
        "  case $state in\n    command) _describe command commands ;;\n"
        "    argument)\n      case $line[1] in\n        {}\n      esac ;;\n  esac\n}}\n",
        function, join(described, "\n    "), join(specs, " "), join(cases, "\n        "));
  }
  return out +
         "if [ \"$funcstack[1]\" = _chimere ]; then _chimere \"$@\"; else compdef _chimere "
         "chimere; fi\n";
}

std::string fish(const Tree& tree) {
  const auto text = [](const std::string& s) {
    return "'" + replaced(replaced(s, "\\", "\\\\"), "'", "\\'") + "'";
  };
  std::string out = "# fish completion of chimere\n";
  for (const CommandFacts& c : tree) {
    // A command is current when all its words are typed and none of its subcommands.
    std::string condition = "__fish_use_subcommand";
    if (!c.name.empty()) {
      condition = "__fish_seen_subcommand_from " +
                  replaced(c.name, " ", "; and __fish_seen_subcommand_from ");
      if (!c.commands.empty()) {
        condition += "; and not __fish_seen_subcommand_from " + join(c.commands, " ");
      }
    }
    for (const CommandFacts& below : tree) {
      const size_t space = below.name.rfind(' ');
      const std::string parent = space == std::string::npos ? "" : below.name.substr(0, space);
      if (below.name.empty() || parent != c.name) continue;
      out += fmt::format("complete -c chimere -n {} -f -a {} -d {}\n", text(condition),
                         below.name.substr(space == std::string::npos ? 0 : space + 1),
                         text(below.help));
    }
    for (const FlagFacts& f : c.flags) {
      out += fmt::format("complete -c chimere -n {}", text(condition));
      for (const std::string& name : f.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (f.takes_value) out += " -r";
      if (!f.choices.empty()) out += " -f -a " + text(join(f.choices, " "));
      if (f.takes_model) out += " -a " + text("(" + std::string(kModelNames) + ")");
      out += " -d " + text(f.help) + "\n";
    }
    if (c.name == "rm" || c.name == "inspect" || c.name == "run") {
      out += fmt::format("complete -c chimere -n {} -a {}\n", text(condition),
                         text("(" + std::string(kModelNames) + ")"));
    }
  }
  return out;
}

}  // namespace

void declare_completion(Command& program, CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  Command command = program.command(
      "completion", "Prints a script with which Tab in a shell completes commands and flags");
  command.set_run(line, [program, shell]() -> Status {
    const Tree tree = command_tree(program);
    std::cout << (*shell == "bash" ? bash(tree) : *shell == "zsh" ? zsh(tree) : fish(tree));
    return {};
  });
  command.option("SHELL", *shell, "bash, zsh or fish").required().one_of({"bash", "zsh", "fish"});
}

}  // namespace chimere::app
