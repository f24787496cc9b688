// The tokenizer's data out of a GGUF.
#ifndef CHIMERE_MODEL_VOCABULARY_H_
#define CHIMERE_MODEL_VOCABULARY_H_

#include "base/result.h"
#include "gguf/reader.h"
#include "text/tokenizer.h"

namespace chimere::model {

/// Reads tokenizer.ggml.*. Errors: kInvalidData if tokens are missing, or lists and ids do not fit
/// together; whether the kind of tokenizer is supported is for text::Tokenizer::create to say.
Result<text::Vocabulary> vocabulary_from_gguf(const gguf::Reader& file);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_VOCABULARY_H_
