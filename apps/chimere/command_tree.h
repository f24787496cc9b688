// The commands and their flags as plain data, for the manual and the completions.
#ifndef CHIMERE_APPS_CHIMERE_COMMAND_TREE_H_
#define CHIMERE_APPS_CHIMERE_COMMAND_TREE_H_

#include <string>
#include <vector>

#include "base/settings.h"
#include "command.h"

namespace chimere::app {

struct FlagFacts {
  std::vector<std::string> names;  ///< "-m", "--model"
  std::string help;
  bool takes_value = false;
  bool takes_model = false;              ///< the value is a model
  std::vector<std::string> choices;      ///< of the value; empty: anything
  const SettingInfo* setting = nullptr;  ///< that the flag sets; nullptr: none
};

struct CommandFacts {
  std::string name;  ///< "eval logits"; empty: the program
  std::string help;
  std::vector<std::string> commands;   ///< below it
  std::vector<std::string> arguments;  ///< "MODEL"
  std::vector<FlagFacts> flags;
};

/// The program and all commands below it in preorder.
std::vector<CommandFacts> command_tree(const Command& program);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_COMMAND_TREE_H_
