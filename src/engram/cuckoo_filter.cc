#include "engram/cuckoo_filter.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace chimere::engram {
namespace {

constexpr int kLanes = 4;
constexpr int kMaxMoves = 500;

uint64_t lane(uint64_t bucket, int i) { return bucket >> (16 * i) & 0xffff; }

bool put(uint64_t& bucket, uint64_t fingerprint) {
  for (int i = 0; i < kLanes; ++i) {
    if (lane(bucket, i) != 0) continue;
    bucket |= fingerprint << (16 * i);
    return true;
  }
  return false;
}

}  // namespace

bool CuckooFilter::insert(std::span<uint64_t> buckets, uint64_t hash) {
  const uint64_t mask = buckets.size() - 1;
  uint64_t fingerprint = fingerprint_of(hash);
  uint64_t at = hash & mask;
  if (put(buckets[at], fingerprint)) return true;
  at = other(at, fingerprint, mask);
  for (int move = 0; move < kMaxMoves; ++move) {
    if (put(buckets[at], fingerprint)) return true;
    // Evict a pseudo-random lane, so that displaced fingerprints do not cycle.
    const int victim =
        static_cast<int>(mix(static_cast<uint64_t>(move) << 16 | fingerprint) % kLanes);
    const uint64_t evicted = lane(buckets[at], victim);
    buckets[at] ^= (evicted ^ fingerprint) << (16 * victim);
    fingerprint = evicted;
    at = other(at, fingerprint, mask);
  }
  return false;
}

std::vector<uint64_t> CuckooFilter::build(std::span<const uint64_t> hashes) {
  const size_t wanted = hashes.size() * 100 / 95 / kLanes + 1;
  for (size_t n = std::bit_ceil(wanted);; n *= 2) {
    std::vector<uint64_t> buckets(n, 0);
    if (std::ranges::all_of(hashes, [&](uint64_t h) { return insert(buckets, h); })) {
      return buckets;
    }
  }
}

}  // namespace chimere::engram
