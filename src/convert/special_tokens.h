// Special tokens and the chat template of a folder's tokenizer files.
#ifndef CHIMERE_CONVERT_SPECIAL_TOKENS_H_
#define CHIMERE_CONVERT_SPECIAL_TOKENS_H_

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "convert/config.h"
#include "convert/vocabulary_source.h"
#include "gguf/writer.h"

namespace chimere::convert {

/// Writes "tokenizer.ggml.<kind>_token_id", "add_<kind>_token" and the normalizer's flags. The
/// names of tokenizer_config.json come before the ids of config.json; a template of tokenizer.json
/// ("post_processor") says which tokens are added to a text. A second id of
/// generation_config.json's "eos_token_id" becomes the end-of-turn token. Ids from `entries` on are
/// left out. Errors: kInvalidData.
Status write_special_tokens(const TokenizerFiles& files, const std::vector<AddedToken>& added,
                            const Config& config, int64_t entries, gguf::Writer& out);

/// "tokenizer.chat_template", and those with names. Errors: kInvalidData, kIo.
Status write_chat_template(const TokenizerFiles& files, gguf::Writer& out);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_SPECIAL_TOKENS_H_
