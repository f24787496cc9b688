// Advice for flags of llama.cpp and vLLM that this program does not have.
#ifndef CHIMERE_APPS_CHIMERE_SUGGESTIONS_H_
#define CHIMERE_APPS_CHIMERE_SUGGESTIONS_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chimere::app {

/// A flag of llama.cpp or vLLM.
struct ForeignFlag {
  std::string_view name;    ///< with its dashes
  std::string_view advice;  ///< the alternative: a sentence without its full stop
};

/// All known foreign flags; names are unique.
std::span<const ForeignFlag> foreign_flags();

/// The first argument that is a foreign flag ("--name", "--name=value") and no flag of the command;
/// nullptr: there is none. `own`: whether the command declares the flag.
const ForeignFlag* find_foreign_flag(std::span<const std::string> arguments,
                                     const std::function<bool(const std::string&)>& own);

/// For unexpected positional arguments: a command line that takes them as a prompt. Empty if one of
/// them looks like a flag.
std::string prompt_suggestion(const std::vector<std::string>& words);

/// For words after the program's name that have a prompt's flag but no command: the same words
/// after `chimere run`. Empty if there is no such flag.
std::string command_suggestion(std::span<const std::string> words);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_SUGGESTIONS_H_
