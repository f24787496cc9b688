// Reads arbitrary bytes as a GGUF file: an error, or a reader with all parts accessible.
#include <cstdio>
#include <cstdlib>

#include "fuzz.h"
#include "gguf/reader.h"
#include "gguf/testing.h"

namespace gguf = chimere::gguf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<uint8_t> file(data,
                                  data + size);  // aligned like a mapping, with exactly this length
  const auto reader = gguf::Reader::from_bytes(file.data(), file.size());
  const std::string finding = reader.ok() ? gguf::testing::walk(**reader, file.data(), file.size())
                              : reader.error().message.empty() ? "an error without a message"
                                                               : "";
  if (!finding.empty()) {
    std::fprintf(stderr, "%s\n", finding.c_str());
    std::abort();
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() { return {gguf::testing::example_file()}; }
