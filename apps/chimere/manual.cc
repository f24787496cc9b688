// chimere man: the manual page, from the commands and the registry of settings.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "command_tree.h"
#include "help_format.h"

namespace chimere::app {
namespace {

/// Escapes a text for roff, including a request character at the beginning of a line.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\n') {
      out += ' ';
    } else {
      out += c;
    }
  }
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return out;
}

/// Bold words with commas between them, as the tag of a list.
std::string tag(const std::vector<std::string>& names, const std::string& value) {
  std::string out = ".TP\n";
  for (size_t i = 0; i < names.size(); ++i) {
    out += (i > 0 ? ", \\fB" : "\\fB") + roff(names[i]) + "\\fR";
  }
  if (!value.empty()) out += " \\fI" + value + "\\fR";
  return out + "\n";
}

std::string value_name(const SettingInfo& s) {
  switch (s.kind) {
    case SettingInfo::Kind::kSwitch:
      return "";
    case SettingInfo::Kind::kText:
      return "TEXT";
    default:
      return "N";
  }
}

std::string commands(const std::vector<CommandFacts>& tree) {
  std::string out = ".SH COMMANDS\n";
  for (const CommandFacts& c : tree) {
    if (c.name.empty() || !c.commands.empty()) continue;
    std::string arguments;
    for (const std::string& a : c.arguments) arguments += (arguments.empty() ? "" : " ") + a;
    out +=
        ".SS \"chimere " + roff(c.name) + (arguments.empty() ? "" : " " + roff(arguments)) + "\"\n";
    out += roff(c.help) + ".\n";
    std::string settings;
    for (const FlagFacts& f : c.flags) {
      if (f.setting != nullptr) {
        settings += (settings.empty() ? "" : ", ") + std::string(f.names.back());
        continue;
      }
      if (f.names.back() == "--help") continue;
      out += tag(f.names, f.takes_value ? "VALUE" : "") + roff(f.help) + ".\n";
    }
    if (!settings.empty()) out += ".PP\nSettings: " + roff(settings) + ".\n";
    if (const CommandNotes* notes = find_command_notes(c.name); notes != nullptr) {
      out += ".PP\nExample: \\fB" + roff(notes->example) + "\\fR\n";
    }
  }
  return out;
}

std::string settings_list() {
  std::string out =
      ".SH SETTINGS\nEach setting is a flag of the commands that use it, a variable of the "
      "environment, and a key of "
      "the\nconfig file (the flag without its dashes). Flags override variables, and variables "
      "override "
      "the file.\n";
  for (const SettingInfo* s : settings::all()) {
    std::vector<std::string> names;
    if (!s->short_flag.empty()) names.push_back("-" + std::string(s->short_flag));
    names.push_back("--" + std::string(s->name));
    out += tag(names, value_name(*s)) + roff(s->help) + ".\n";
    const std::string range = settings::range_text(*s);
    if (!range.empty() && s->kind != SettingInfo::Kind::kSwitch) {
      out += "It is " + roff(range) + ".\n";
    }
    out += "Variable: \\fB" + roff(settings::variable_name(*s)) + "\\fR.\n";
    if (!s->default_value.empty() && s->kind != SettingInfo::Kind::kSwitch) {
      out += "Default: " + roff(s->default_value) + "\n";
    }
  }
  return out;
}

/// The commands by groups, each with what it does.
std::string groups(const std::vector<CommandFacts>& tree) {
  std::string out;
  std::string_view group;
  for (const CommandNotes& notes : command_notes()) {
    if (notes.group.empty()) continue;
    const auto command = std::ranges::find(tree, notes.command, &CommandFacts::name);
    if (command == tree.end()) continue;
    if (notes.group != group) out += ".PP\n" + roff(notes.group) + ":\n";
    group = notes.group;
    out += tag({command->name}, "") + roff(command->help) + "\n";
  }
  return out;
}

std::string example_list() {
  std::string out = ".SH EXAMPLES\n.nf\n";
  for (const CommandNotes& notes : command_notes()) {
    if (!notes.command.empty() && notes.group.empty()) continue;
    for (const std::string_view example :
         {notes.example, notes.second_example, notes.third_example}) {
      if (!example.empty()) out += roff(example) + "\n";
    }
  }
  return out + ".fi\n";
}

std::string manual(const Command& program) {
  const std::vector<CommandFacts> tree = command_tree(program);
  return ".TH CHIMERE 1 \"\" \"chimere " CHIMERE_VERSION
         "\" \"User Commands\"\n"
         ".SH NAME\nchimere \\- runs hybrid state-space and mixture-of-experts language models\n"
         ".SH SYNOPSIS\n\\fBchimere\\fR [\\fICOMMAND\\fR [\\fIOPTION\\fR]... "
         "[\\fIARGUMENT\\fR]...]\n"
         ".SH DESCRIPTION\nWithout a command on a terminal, a chat opens.\n"
         "A \\fIMODEL\\fR is a path to a GGUF file or a name in the model folder (see \\fBchimere "
         "list\\fR);\n"
         "without one, the shipped model is used.\n"
         "With \\fB\\-\\-json\\fR a command prints one JSON document on standard output and "
         "everything else on "
         "standard error.\n" +
         groups(tree) + commands(tree) + settings_list() + example_list() +
         ".SH FILES\n.TP\n\\fI~/.config/chimere/config\\fR\nSettings, a line \\(lqkey = value\\(rq "
         "each.\n"
         ".TP\n\\fI~/.local/share/chimere/models\\fR\nThe model folder.\n"
         ".TP\n\\fI~/.local/state/chimere\\fR\nThe history of the chat and stored prompt states.\n"
         ".SH EXIT STATUS\n0: success. 1: an error. 2: wrong usage. 130: interrupted.\n";
}

}  // namespace

void declare_man(Command& program, CommandLine& line) {
  program.command("man", "Prints the manual page, for man -l or a manual folder")
      .set_run(line, [program]() -> Status {
        std::cout << manual(program);
        return {};
      });
}

}  // namespace chimere::app
