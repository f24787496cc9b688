// Reads a tokenizer's vocabulary from a GGUF file.
#ifndef CHIMERE_MODEL_VOCABULARY_H_
#define CHIMERE_MODEL_VOCABULARY_H_

#include <string>

#include "base/result.h"
#include "gguf/reader.h"
#include "text/tokenizer.h"

namespace chimere::model {

/// Reads tokenizer.ggml.*. Errors: kInvalidData if tokens or merges are missing, or lists and ids
/// are inconsistent. Whether the tokenizer's type is supported is checked by
/// text::Tokenizer::create(). Tokens that are named like control tokens ("<|im_end|>") and
/// declared as ordinary text become control tokens. `corrected`: gets a sentence about them, if
/// there are any; nullptr: not wanted.
Result<text::Vocabulary> vocabulary_from_gguf(const gguf::Reader& file,
                                              std::string* corrected = nullptr);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_VOCABULARY_H_
