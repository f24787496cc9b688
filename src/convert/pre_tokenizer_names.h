// Recognises how a tokenizer.json splits text.
#ifndef CHIMERE_CONVERT_PRE_TOKENIZER_NAMES_H_
#define CHIMERE_CONVERT_PRE_TOKENIZER_NAMES_H_

#include <string>

#include "base/result.h"
#include "convert/json_text.h"

namespace chimere::convert {

/// tokenizer.ggml.pre for a byte-level tokenizer.json: the name of the rules that split as its
/// "pre_tokenizer" and "normalizer" do. Error: kUnsupported, with the expression, if none does.
Result<std::string> pre_tokenizer_name(const Json& tokenizer);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_PRE_TOKENIZER_NAMES_H_
