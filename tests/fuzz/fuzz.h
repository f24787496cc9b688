// Interface of a fuzz target. Linked with libFuzzer (CHIMERE_FUZZ) or, as a test, with
// replay_main.cc.
#ifndef CHIMERE_TESTS_FUZZ_FUZZ_H_
#define CHIMERE_TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <vector>

/// Runs the code under test on the bytes. Failures are crashes, sanitizer reports and abort().
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Valid inputs to start from.
std::vector<std::vector<uint8_t>> fuzz_seeds();

#endif  // CHIMERE_TESTS_FUZZ_FUZZ_H_
