// An approximate set without false negatives: Fan, Andersen, Kaminsky, Mitzenmacher: "Cuckoo
// Filter: Practically Better Than Bloom", CoNEXT 2014.
#ifndef CHIMERE_ENGRAM_CUCKOO_FILTER_H_
#define CHIMERE_ENGRAM_CUCKOO_FILTER_H_

#include <cstdint>
#include <span>
#include <vector>

namespace chimere::engram {

/// Hashes a key (the finaliser of MurmurHash3, public domain).
constexpr uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

/// A filter over buckets that the caller owns (a mapped file). A bucket is one 64-bit word: four
/// fingerprints of 16 bits, 0 = empty. A key's fingerprint is in one of two buckets, so that a
/// lookup reads at most two words. False-positive rate: below 2 * 4 / 65535 = 0.013 %. `hash` is
/// mix() of the key.
class CuckooFilter {
 public:
  CuckooFilter() = default;
  /// The number of buckets is a power of two, or 0; without buckets may_contain() is always true.
  explicit CuckooFilter(std::span<const uint64_t> buckets) : buckets_(buckets) {}

  bool may_contain(uint64_t hash) const {
    if (buckets_.empty()) return true;
    const uint64_t mask = buckets_.size() - 1;
    const uint64_t fingerprint = fingerprint_of(hash);
    const uint64_t first = hash & mask;
    return holds(buckets_[first], fingerprint) ||
           holds(buckets_[other(first, fingerprint, mask)], fingerprint);
  }

  /// Builds buckets that contain all hashes, with a load of at most 95 %.
  static std::vector<uint64_t> build(std::span<const uint64_t> hashes);

 private:
  static uint64_t fingerprint_of(uint64_t hash) {
    const uint64_t fingerprint = hash >> 48;
    return fingerprint == 0 ? 1 : fingerprint;
  }
  static uint64_t other(uint64_t bucket, uint64_t fingerprint, uint64_t mask) {
    return (bucket ^ mix(fingerprint)) & mask;
  }
  /// Whether one of the four lanes equals `fingerprint`: a lane that becomes 0 borrows into its top
  /// bit.
  static bool holds(uint64_t bucket, uint64_t fingerprint) {
    const uint64_t x = bucket ^ (fingerprint * 0x0001000100010001ULL);
    return ((x - 0x0001000100010001ULL) & ~x & 0x8000800080008000ULL) != 0;
  }
  static bool insert(std::span<uint64_t> buckets, uint64_t hash);

  std::span<const uint64_t> buckets_;
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_CUCKOO_FILTER_H_
