// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). A number is a pure function of its key and counter, so a
// seed gives the same numbers in any order, on any device and beside any other requests.
#ifndef CHIMERE_KERNELS_PHILOX_H_
#define CHIMERE_KERNELS_PHILOX_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/math.h"

namespace chimere::kernels {

/// Ten rounds of Philox4x32 on the four words of a counter, each in the lower half of a uint64_t or
/// of every lane of a vector of them. The upper halves are ignored.
template <typename Words>
CHIMERE_INLINE constexpr void philox4x32(Words& c0, Words& c1, Words& c2, Words& c3,
                                         std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  constexpr uint64_t kLow = 0xffffffff;
  for (int round = 0; round < 10; ++round) {
    const Words p0 = (c0 & kLow) * kMultiplier0;
    const Words p1 = (c2 & kLow) * kMultiplier1;
    c0 = p1 >> 32 ^ c1 ^ key[0];
    c2 = p0 >> 32 ^ c3 ^ key[1];
    c1 = p1;
    c3 = p0;
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
}

CHIMERE_INLINE constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                                            std::array<uint32_t, 2> key) {
  std::array<uint64_t, 4> c = {counter[0], counter[1], counter[2], counter[3]};
  philox4x32(c[0], c[1], c[2], c[3], key);
  return {static_cast<uint32_t>(c[0]), static_cast<uint32_t>(c[1]), static_cast<uint32_t>(c[2]),
          static_cast<uint32_t>(c[3])};
}

/// The purpose of a number; part of its counter.
enum class RandomStream : uint32_t {
  kTokens = 0,  ///< one number for each token id
  kXtc = 1,     ///< one for each position (id 0)
};

/// Counter and key of the block that holds the numbers of the ids 2n and 2n + 1 at a position.
CHIMERE_INLINE constexpr std::array<uint32_t, 4> counter_of(uint64_t position, uint32_t id,
                                                            RandomStream stream) {
  return {id >> 1, static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
          static_cast<uint32_t>(stream)};
}
CHIMERE_INLINE constexpr std::array<uint32_t, 2> key_of(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

/// Uniform in the open interval (0, 1) with 52 random bits, from two words of a block.
CHIMERE_INLINE constexpr double to_uniform(uint32_t low, uint32_t high) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

/// The number of one token id at one position of a seeded sequence: words 0 and 1 of its block for
/// an even id, words 2 and 3 for an odd one.
CHIMERE_INLINE constexpr double uniform(uint64_t seed, uint64_t position, uint32_t id,
                                        RandomStream stream = RandomStream::kTokens) {
  const auto block = philox4x32(counter_of(position, id, stream), key_of(seed));
  return (id & 1U) == 0 ? to_uniform(block[0], block[1]) : to_uniform(block[2], block[3]);
}

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_PHILOX_H_
