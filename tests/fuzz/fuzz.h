// What a fuzz target offers. Built with libFuzzer (CHIMERE_FUZZ) or, as a test, with
// replay_main.cc.
#ifndef CHIMERE_TESTS_FUZZ_FUZZ_H_
#define CHIMERE_TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <vector>

/// Uses the bytes; a finding is a crash, a sanitizer's report or abort(). Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Valid inputs to start from.
std::vector<std::vector<uint8_t>> fuzz_seeds();

#endif  // CHIMERE_TESTS_FUZZ_FUZZ_H_
