#include "prompt_words.h"

#include <utility>

namespace chimere::app {
namespace {

bool has_space(const std::string& word) { return word.find_first_of(" \t\n") != std::string::npos; }

std::string join_from(const std::vector<std::string>& words, size_t first) {
  std::string out;
  for (size_t i = first; i < words.size(); ++i) out += (i == first ? "" : " ") + words[i];
  return out;
}

}  // namespace

// No sentence begins like this.
bool names_a_model(const std::string& word) {
  return !has_space(word) && (word.ends_with(".gguf") || word.find('/') != std::string::npos ||
                              (word.find(':') != std::string::npos && !word.ends_with(':')));
}

Result<PromptWords> read_prompt_words(const std::vector<std::string>& words, bool model_named,
                                      const std::function<Status(const std::string&)>& find) {
  PromptWords out;
  if (words.empty()) return out;
  const std::string& first = words.front();
  if (!model_named && !first.empty() && !has_space(first)) {
    const Status found = find(first);
    if (found.ok()) {
      out.model = first;
      if (words.size() > 1) out.prompt = join_from(words, 1);
      return out;
    }
    const bool before_prompt = words.size() == 2 && has_space(words[1]);
    if (names_a_model(first) || before_prompt) return found.error();
    if (words.size() == 1) {
      out.notice = "No model is called '" + first + "': it is the prompt.";
    }
  }
  out.prompt = join_from(words, 0);
  return out;
}

}  // namespace chimere::app
