// A set that says "certainly not" or "probably": Fan, Andersen, Kaminsky, Mitzenmacher: "Cuckoo
// Filter: Practically Better Than Bloom", CoNEXT 2014.
#ifndef CHIMERE_ENGRAM_CUCKOO_FILTER_H_
#define CHIMERE_ENGRAM_CUCKOO_FILTER_H_

#include <cstdint>
#include <span>
#include <vector>

namespace chimere::engram {

/// Spreads the bits of a key (the finaliser of MurmurHash3, public domain).
constexpr uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

/// A filter over buckets that somebody else owns (a mapped file). A bucket is one word: four
/// fingerprints of 16 bits, 0 = empty. A key's fingerprint is in one of two buckets, so that a
/// lookup reads at most two words; a key that was never added is taken for one that was with
/// probability below 2 * 4 / 65535 = 0.013 %. `hash` is mix() of the key.
class CuckooFilter {
 public:
  CuckooFilter() = default;
  /// Buckets: a power of two, or none; then everything may be there.
  explicit CuckooFilter(std::span<const uint64_t> buckets) : buckets_(buckets) {}

  bool may_contain(uint64_t hash) const {
    if (buckets_.empty()) return true;
    const uint64_t mask = buckets_.size() - 1;
    const uint64_t print = print_of(hash);
    const uint64_t first = hash & mask;
    return holds(buckets_[first], print) || holds(buckets_[other(first, print, mask)], print);
  }

  /// Buckets that hold all hashes, at most 95 % full.
  static std::vector<uint64_t> build(std::span<const uint64_t> hashes);

 private:
  static uint64_t print_of(uint64_t hash) {
    const uint64_t print = hash >> 48;
    return print == 0 ? 1 : print;
  }
  static uint64_t other(uint64_t bucket, uint64_t print, uint64_t mask) {
    return (bucket ^ mix(print)) & mask;
  }
  /// Whether one of four lanes is `print`: the lane that becomes 0 borrows into its top bit.
  static bool holds(uint64_t bucket, uint64_t print) {
    const uint64_t x = bucket ^ (print * 0x0001000100010001ULL);
    return ((x - 0x0001000100010001ULL) & ~x & 0x8000800080008000ULL) != 0;
  }
  static bool insert(std::span<uint64_t> buckets, uint64_t hash);

  std::span<const uint64_t> buckets_;
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_CUCKOO_FILTER_H_
