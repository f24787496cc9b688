// Parses and validates the bytes of one GGUF file.
#ifndef CHIMERE_GGUF_FILE_PARSER_H_
#define CHIMERE_GGUF_FILE_PARSER_H_

#include <cstdint>

#include "base/result.h"
#include "gguf/contents.h"

namespace chimere::gguf {

struct ParsedFile {
  uint32_t version = 0;
  Contents contents;  ///< tensors point into the bytes
};

/// Checks every count, string, type, shape, offset and overlap against `size` before using it.
/// Errors: kInvalidData.
Result<ParsedFile> parse_file(const uint8_t* data, uint64_t size);

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_FILE_PARSER_H_
