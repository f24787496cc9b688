// The encoded values of a file's keys, to copy them into another file as they are: gguf::Value
// widens numbers, and programs insist on the types that the format names.
#ifndef CHIMERE_GGUF_METADATA_BYTES_H_
#define CHIMERE_GGUF_METADATA_BYTES_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "gguf/reader.h"

namespace chimere::gguf {

/// By key: the value's type number and encoding, for Writer::set_encoded(). Of a split model the
/// first part's value counts. The spans point into the reader's mappings. Errors: kUnsupported (a
/// reader of bytes in memory), kIo, kInvalidData (a file that changed).
Result<std::map<std::string, std::span<const uint8_t>>> metadata_bytes(const Reader& reader);

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_METADATA_BYTES_H_
