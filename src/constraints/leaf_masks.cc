#include "constraints/leaf_masks.h"

#include <mutex>

namespace chimere::constraints {
namespace {

/// Masks beyond this are dropped and computed again when they are needed.
constexpr size_t kSharedMaskBytes = size_t{256} << 20;

}  // namespace

std::shared_ptr<const LeafMask> LeafMasks::find(uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = masks_.find(key);
  return found == masks_.end() ? nullptr : found->second;
}

void LeafMasks::insert(uint64_t key, const std::shared_ptr<const LeafMask>& mask, size_t size) {
  const std::lock_guard lock(mutex_);
  if (bytes_ > kSharedMaskBytes) {
    masks_.clear();
    bytes_ = 0;
  }
  if (masks_.try_emplace(key, mask).second) bytes_ += size;
}

}  // namespace chimere::constraints
