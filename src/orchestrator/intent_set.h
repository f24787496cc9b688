// The intents that requests are classified into: those that ship with the program, and those of
// YAML files.
#ifndef CHIMERE_ORCHESTRATOR_INTENT_SET_H_
#define CHIMERE_ORCHESTRATOR_INTENT_SET_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::orchestrator {

/// An intent, as a YAML file says it. docs/orchestrator.md has the schema.
struct IntentSpec {
  std::string name;
  std::vector<std::string> phrases;   ///< decide where no other intent's words occur
  std::vector<std::string> files;     ///< endings of names of files, without the dot
  std::vector<std::string> actions;   ///< words for what is to be done, such as "translate"
  std::vector<std::string> subjects;  ///< words for what it is done to, such as "poem"
  std::vector<std::string> names;     ///< of languages, commands, tools
  std::vector<std::string> examples;  ///< requests
};

/// An intent that is part of the program.
struct ShippedIntent {
  std::string_view name;
  std::string_view yaml;
};
std::span<const ShippedIntent> shipped_intents();

/// Reads an intent. `source`: the name of the file, for messages. Errors: kInvalidData, one line
/// "SOURCE:LINE: what is wrong" for each problem.
Result<IntentSpec> parse_intent(std::string_view yaml, const std::string& source);

/// The shipped intents and those of the files NAME.yaml of a folder, which add intents or add to
/// those of the same name. `folder`: empty, or one that does not exist: none. Errors: as of
/// parse_intent(); kIo.
Result<std::vector<IntentSpec>> read_intents(const std::string& folder);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_INTENT_SET_H_
