// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). A number is a pure function of its key and counter, so
// that a seed replays whatever else runs, in any order and on any device.
#ifndef CHIMERE_SAMPLING_PHILOX_H_
#define CHIMERE_SAMPLING_PHILOX_H_

#include <array>
#include <cstdint>

namespace chimere::sampling {

/// Ten rounds of Philox4x32 on the counter with the key.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * counter[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

/// Uniform in the open interval (0, 1) with 52 random bits, for one token id at one position of a
/// seeded sequence.
constexpr double uniform(uint64_t seed, uint64_t position, uint32_t id) {
  const auto block =
      philox4x32({id, static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (static_cast<uint64_t>(block[1]) << 32 | block[0]) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_PHILOX_H_
