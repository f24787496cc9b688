// Keys of a model file that describe rotary positions.
#ifndef CHIMERE_MODEL_ROPE_KEYS_H_
#define CHIMERE_MODEL_ROPE_KEYS_H_

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "gguf/reader.h"

namespace chimere::model {

/// Checks every key "<architecture>.rope.*" of the file. Accepted are keys that the forward pass
/// uses, and others whose value leaves the rotation unchanged, like a scaling factor of 1: a key
/// that is not read here would otherwise change a model's answers without a word.
/// `context_length`: of the same file. Errors: kUnsupported, naming the key and its value.
Status check_rope_keys(const gguf::Reader& file, std::string_view architecture,
                       int64_t context_length);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ROPE_KEYS_H_
