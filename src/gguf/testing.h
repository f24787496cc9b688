// For tests and fuzzers of this module only: a small valid file, and a walk over everything that a
// reader returns.
#ifndef CHIMERE_GGUF_TESTING_H_
#define CHIMERE_GGUF_TESTING_H_

#include <cstdint>
#include <vector>

#include "gguf/reader.h"

namespace chimere::gguf::testing {

/// Less than a kilobyte, with metadata of most kinds and tensors of four types.
std::vector<uint8_t> example_file();

/// Calls every look-up with every key, reads every byte of every tensor and decodes it. The file's
/// memory must be aligned to 8 bytes. Returns an error description, or an empty string.
std::string walk(const Reader& reader, const void* file, size_t size);

}  // namespace chimere::gguf::testing

#endif  // CHIMERE_GGUF_TESTING_H_
