// Metadata values as numbers and as text, for checks and messages.
#ifndef CHIMERE_MODEL_METADATA_VALUE_H_
#define CHIMERE_MODEL_METADATA_VALUE_H_

#include <optional>
#include <string>

#include "gguf/metadata.h"

namespace chimere::model {

/// Nothing for texts, booleans and arrays.
std::optional<double> number(const gguf::Value& value);

/// "0.500000", "true", "'text'" (at most 40 bytes of it) or "an array".
std::string shown(const gguf::Value& value);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_METADATA_VALUE_H_
