#include "given_command.h"

#include <algorithm>
#include <array>

#include "base/nearest_word.h"
#include "prompt_words.h"

namespace chimere::app {
namespace {

struct ForeignCommand {
  std::string_view name;
  std::string_view ours;    ///< empty: there is none
  std::string_view advice;  ///< if there is none: a sentence without its full stop
  size_t arguments = 1;     ///< with more words, the first is that of a prompt
};

constexpr std::string_view kOneCommand =
    "a model is in memory while its command runs, and Ctrl-C ends it; a server's GET /api/ps "
    "shows the models that it has loaded";
constexpr std::string_view kNoAccount = "there is no account; `chimere pull` takes --hub-token";

constexpr auto kForeignCommands = std::to_array<ForeignCommand>({
    {"ls", "list", ""},
    {"show", "inspect", ""},
    {"remove", "rm", ""},
    {"delete", "rm", ""},
    {"download", "pull", ""},
    {"server", "serve", ""},
    {"start", "serve", ""},
    {"ps", "", kOneCommand},
    {"stop", "", kOneCommand},
    {"cp", "", "models are files, which cp copies; `chimere list` shows them", 2},
    {"create", "",
     "`chimere convert` and `chimere quantize` make models; --system, --temp and "
     "--chat-template change how one answers"},
    {"push", "", "models are pulled and never uploaded"},
    {"signin", "", kNoAccount},
    {"signout", "", kNoAccount},
    {"login", "", kNoAccount},
});

/// The text as one word of a shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// The words that are no flags, at the beginning.
std::vector<std::string> leading_words(std::span<const std::string> words) {
  const auto flag = std::ranges::find_if(words, [](const auto& w) { return w.starts_with('-'); });
  return {words.begin(), flag};
}

}  // namespace

std::string program_word(std::string_view called) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-";
  if (called.empty()) return "chimere";
  const bool plain = called.find_first_not_of(kPlain) == std::string_view::npos;
  return plain ? std::string(called) : shell_quoted(called);
}

std::string prompt_suggestion(std::span<const std::string> words) {
  std::string prompt;
  for (const std::string& word : words) {
    if (word.starts_with('-')) return "";
    prompt += (prompt.empty() ? "" : " ") + word;
  }
  if (prompt.empty()) return "";
  return "did you mean `chimere run " + shell_quoted(prompt) + "`?";
}

Result<std::vector<std::string>> with_command(
    std::vector<std::string> words, std::span<const std::string> commands,
    const std::function<bool(const std::string&)>& is_model) {
  if (words.empty()) return words;
  const std::string first = words.front();
  if (first == "-h" || first == "--help" || first == "--version") return words;
  if (std::ranges::find(commands, first) != commands.end()) return words;
  const std::vector<std::string> leading = leading_words(words);
  const auto* const foreign = std::ranges::find(kForeignCommands, first, &ForeignCommand::name);
  // "show me a list" is a prompt.
  if (foreign != kForeignCommands.end() && leading.size() <= 1 + foreign->arguments) {
    if (foreign->ours.empty()) {
      return invalid_argument(
          "'" + first + "' is a command of another program; here: " + std::string(foreign->advice));
    }
    words.front() = foreign->ours;
    return words;
  }
  const bool one_word = !first.starts_with('-') && first.find_first_of(" \t\n") == first.npos;
  if (one_word && !names_a_model(first) && !is_model(first)) {
    const std::string near = nearest_word(first, commands);
    const std::string as_prompt = "`chimere run " + shell_quoted(first) + "` takes it as a prompt";
    // Three words are a sentence: "what" is near "chat".
    if (!near.empty() && leading.size() <= 2) {
      return invalid_argument("There is no command '" + first + "'; did you mean `chimere " + near +
                              "`?");
    }
    if (leading.size() == 1) {
      return invalid_argument("There is no command and no model '" + first + "'; " + as_prompt);
    }
  }
  words.insert(words.begin(), "run");
  return words;
}

}  // namespace chimere::app
