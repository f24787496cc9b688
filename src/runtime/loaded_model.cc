#include "runtime/loaded_model.h"

#include <utility>

#include "model/vocabulary.h"

namespace chimere::runtime {

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const gguf::Reader& file) {
  CHIMERE_TRY(text::Vocabulary vocabulary, model::vocabulary_from_gguf(file));
  return text::Tokenizer::create(std::move(vocabulary));
}

}  // namespace chimere::runtime
