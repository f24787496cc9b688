// Gives libFuzzer the target's own seeds when the corpus is empty.
#include <algorithm>

#include "fuzz.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  constexpr size_t kTiny = 8;
  constexpr unsigned kRestartOneIn = 1000;
  if (size < kTiny || seed % kRestartOneIn == 0) {
    const std::vector<std::vector<uint8_t>> seeds = fuzz_seeds();
    const std::vector<uint8_t>& chosen = seeds[seed / kRestartOneIn % seeds.size()];
    size = std::min(chosen.size(), max_size);
    std::copy_n(chosen.begin(), size, data);
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
