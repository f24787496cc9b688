// The words of `chimere run MODEL "prompt"` and `chimere run "prompt"`.
#ifndef CHIMERE_APPS_CHIMERE_PROMPT_WORDS_H_
#define CHIMERE_APPS_CHIMERE_PROMPT_WORDS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace chimere::app {

struct PromptWords {
  std::string model = {};                  ///< empty: none is named
  std::optional<std::string> prompt = {};  ///< the other words, with spaces between them
  std::string notice = {};                 ///< how a word was understood that could be either
};

/// Whether the word can only mean a model: with a slash, a colon or .gguf in it.
bool names_a_model(const std::string& word);

/// The first word is a model if `find` finds one of that name and `model_named` is false (--model
/// was given: all words are the prompt). Errors: those of `find` for a first word that can only
/// mean a model: with a slash, a colon or .gguf in it, or before a prompt in quotes.
Result<PromptWords> read_prompt_words(const std::vector<std::string>& words, bool model_named,
                                      const std::function<Status(const std::string&)>& find);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_PROMPT_WORDS_H_
