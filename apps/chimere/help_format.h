// The text of --help: groups, examples, rows of the terminal's width.
#ifndef CHIMERE_APPS_CHIMERE_HELP_FORMAT_H_
#define CHIMERE_APPS_CHIMERE_HELP_FORMAT_H_

#include <span>
#include <string_view>

#include "base/settings.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}  // namespace CLI

namespace chimere::app {

/// What the help says about a command besides its flags.
struct CommandNotes {
  std::string_view command;  ///< "run", "engram build"; empty: the program
  std::string_view group;    ///< its heading in the program's help; empty below another command
  std::string_view example;
  std::string_view second_example = {};
  std::string_view third_example = {};
};

/// In the order of the help.
std::span<const CommandNotes> command_notes();
/// nullptr: there are none.
const CommandNotes* find_command_notes(std::string_view command);

/// The heading of a setting's flag.
std::string_view flag_group(const SettingInfo& setting);

/// Makes the help of a program, and of commands that are added later, look as this file says.
void set_help_format(CLI::App& program);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_HELP_FORMAT_H_
