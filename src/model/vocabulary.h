// Reads a tokenizer's vocabulary from a GGUF file.
#ifndef CHIMERE_MODEL_VOCABULARY_H_
#define CHIMERE_MODEL_VOCABULARY_H_

#include "base/result.h"
#include "gguf/reader.h"
#include "text/tokenizer.h"

namespace chimere::model {

/// Reads tokenizer.ggml.*. Errors: kInvalidData if tokens are missing, or lists and ids are
/// inconsistent. Whether the tokenizer's type is supported is checked by text::Tokenizer::create().
Result<text::Vocabulary> vocabulary_from_gguf(const gguf::Reader& file);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_VOCABULARY_H_
