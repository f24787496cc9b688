// From tokenizer.json, tokenizer_config.json, generation_config.json and chat templates to the keys
// of a GGUF file's vocabulary.
#ifndef CHIMERE_CONVERT_TOKENIZER_H_
#define CHIMERE_CONVERT_TOKENIZER_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "convert/config.h"
#include "gguf/writer.h"

namespace chimere::convert {

struct TokenizerSource {
  std::string folder;
  int64_t entries = 0;   ///< rows of the embeddings; missing entries become "[PAD<n>]"
  bool add_bos = false;  ///< whatever the files say
};

/// Writes "tokenizer.": entries, their kinds and scores, merges, the pre-tokenizer's name, special
/// tokens, the chat template. Errors: kNotFound without tokenizer.json and tokenizer.model,
/// kUnsupported for a kind or a pre-tokenizer that the engine does not have, kInvalidData.
Status write_tokenizer(const TokenizerSource& source, const Config& config, gguf::Writer& out);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_TOKENIZER_H_
