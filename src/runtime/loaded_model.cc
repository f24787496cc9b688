#include "runtime/loaded_model.h"

#include <utility>

#include "model/vocabulary.h"

namespace chimere::runtime {

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const gguf::Reader& file,
                                                        std::string* corrected) {
  CHIMERE_TRY(text::Vocabulary vocabulary, model::vocabulary_from_gguf(file, corrected));
  return text::Tokenizer::create(std::move(vocabulary));
}

Result<text::PromptTemplate> load_prompt_template(const gguf::Reader& file,
                                                  const text::Tokenizer& tokenizer) {
  auto source = file.get_string("tokenizer.chat_template");
  if (!source.ok()) {
    return unsupported(
        "The model file has no chat template; give it plain text instead (`chimere run --raw`, "
        "/v1/completions).");
  }
  return text::PromptTemplate::create(tokenizer, *std::move(source));
}

}  // namespace chimere::runtime
