// For tests and fuzzers of this room only: a small valid file, and a walk over all that a reader
// gives.
#ifndef CHIMERE_GGUF_TESTING_H_
#define CHIMERE_GGUF_TESTING_H_

#include <cstdint>
#include <vector>

#include "gguf/reader.h"

namespace chimere::gguf::testing {

/// Under a kilobyte, with metadata of most kinds and tensors of four types.
std::vector<uint8_t> example_file();

/// Uses every look-up with every key, reads every byte of every tensor and decodes it. The file's
/// memory must be aligned to 8 bytes. Returns what is wrong in a sentence, or an empty string.
std::string walk(const Reader& reader, const void* file, size_t size);

}  // namespace chimere::gguf::testing

#endif  // CHIMERE_GGUF_TESTING_H_
