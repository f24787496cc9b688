#include "runtime/loaded_model.h"

#include <optional>
#include <utility>

#include "model/vocabulary.h"
#include "text/builtin_templates.h"

namespace chimere::runtime {

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const gguf::Reader& file,
                                                        std::string* corrected) {
  CHIMERE_TRY(text::Vocabulary vocabulary, model::vocabulary_from_gguf(file, corrected));
  return text::Tokenizer::create(std::move(vocabulary));
}

Result<text::PromptTemplate> load_prompt_template(
    const gguf::Reader& file, const text::Tokenizer& tokenizer, const Settings& settings,
    const std::function<void(const std::string&)>& warn) {
  std::optional<std::string> own;
  if (auto source = file.get_string("tokenizer.chat_template"); source.ok()) {
    own = *std::move(source);
  }
  return text::select_template(tokenizer, settings.get(settings::kChatTemplate), own, warn);
}

text::ReasoningTags reasoning_tags(const Result<text::PromptTemplate>& prompt_template,
                                   const text::Tokenizer& tokenizer) {
  return prompt_template.ok() ? prompt_template->format().reasoning
                              : text::vocabulary_reasoning(tokenizer);
}

}  // namespace chimere::runtime
