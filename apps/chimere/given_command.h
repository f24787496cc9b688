// The command that the first word of a command line means, also if the word is a prompt, a model or
// a flag, or a command of Ollama.
#ifndef CHIMERE_APPS_CHIMERE_GIVEN_COMMAND_H_
#define CHIMERE_APPS_CHIMERE_GIVEN_COMMAND_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::app {

/// The words with the command that they leave out or name as other programs do: `run` before a
/// prompt, a model or flags, `list` for `ls`. `commands`: of this program; `is_model`: whether a
/// model has this name. Errors: kInvalidArgument, a sentence without its full stop: a typing error,
/// a command that only another program has, one word that is neither a command nor a model.
Result<std::vector<std::string>> with_command(
    std::vector<std::string> words, std::span<const std::string> commands,
    const std::function<bool(const std::string&)>& is_model);

/// How to call this program again, for a shell: its path as it was typed, or its name if the shell
/// found it in PATH. `called`: argv[0].
std::string program_word(std::string_view called);

/// For unexpected positional arguments: a command line that takes them as a prompt. Empty if one of
/// them looks like a flag.
std::string prompt_suggestion(std::span<const std::string> words);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_GIVEN_COMMAND_H_
