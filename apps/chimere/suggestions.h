// What to say to a user of another program whose flag this one does not have.
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
  std::string_view name;    ///< as it is written there, with its dashes
  std::string_view advice;  ///< what to do here: a sentence without its full stop
};

/// Every one that is known here; names are unique.
std::span<const ForeignFlag> foreign_flags();

/// The first argument that is a foreign flag ("--name", "--name=value") and none of our own.
/// nullptr: there is none. `own`: whether the command that was given declares the flag.
const ForeignFlag* find_foreign_flag(std::span<const std::string> arguments,
                                     const std::function<bool(const std::string&)>& own);

/// For words that stand where no argument is expected: the command that takes them as a prompt.
/// Empty: they look like flags.
std::string prompt_suggestion(const std::vector<std::string>& words);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_SUGGESTIONS_H_
