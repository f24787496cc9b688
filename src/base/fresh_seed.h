// Seeds for the random inputs of tests.
#ifndef CHIMERE_BASE_FRESH_SEED_H_
#define CHIMERE_BASE_FRESH_SEED_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace chimere {

/// A new seed at every call, or TEST_SEED if it is set: to reproduce a failure, and in .ci/run,
/// where two runs of one commit must test the same inputs. Prints the seed.
inline uint32_t fresh_seed() {
  const char* given = std::getenv("TEST_SEED");
  const uint32_t seed = given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                                         : std::random_device{}();
  std::printf("TEST_SEED=%u\n", seed);
  return seed;
}

}  // namespace chimere

#endif  // CHIMERE_BASE_FRESH_SEED_H_
