// Token masks that all constraints of a vocabulary share.
#ifndef CHIMERE_CONSTRAINTS_LEAF_MASKS_H_
#define CHIMERE_CONSTRAINTS_LEAF_MASKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/mutex.h"

namespace chimere::constraints {

struct LeafMask;

/// Masks by Machine::shared_key(). Bounded in bytes. Thread-safe.
class LeafMasks {
 public:
  std::shared_ptr<const LeafMask> find(uint64_t key) const;
  /// `size`: bytes of memory that the mask takes.
  void insert(uint64_t key, const std::shared_ptr<const LeafMask>& mask, size_t size);

 private:
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const LeafMask>> masks_;
  size_t bytes_ = 0;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_LEAF_MASKS_H_
