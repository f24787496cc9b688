// The prefix cache's states in RAM.
#ifndef CHIMERE_ENGINE_PREFIX_CACHE_MEMORY_TIER_H_
#define CHIMERE_ENGINE_PREFIX_CACHE_MEMORY_TIER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/background.h"
#include "engine/prefix_cache/prefix_index.h"
#include "state/sequence_state.h"
#include "state/state_image.h"

namespace chimere::engine {

/// Copies of states from the state store. The image of a node omits the pages that the image of an
/// ancestor has, so that each page is stored once. Belongs to one thread; copies may run in the
/// background.
class MemoryTier {
 public:
  /// `max_bytes` 0: the tier is off. Index and background must outlive the tier's last call.
  MemoryTier(PrefixIndex& index, Background& background, int64_t max_bytes)
      : index_(index), background_(background), max_bytes_(max_bytes) {}

  bool enabled() const { return max_bytes_ > 0; }
  /// Copies the node's state, which is in the state store, and those of its ancestors that are not
  /// in RAM yet. Stops at a device error.
  void copy(PrefixNode& node);
  /// The same on the background thread; then calls `done` on the caller's thread. The memory of the
  /// state store must be readable by the host (Memory::on_host()).
  void copy_in_background(PrefixNode& node, std::function<void()> done);
  /// Drops the node's slot but not its pages, which longer prefixes may need.
  void keep_pages_alone(PrefixNode& node);
  /// Drops the node's image.
  void drop(PrefixNode& node);

  /// The least recently used image that is not pinned and whose pages no other image needs;
  /// nullptr: none.
  PrefixNode* victim();
  bool over_limit() const { return bytes_ > max_bytes_; }
  int64_t bytes() const { return bytes_; }
  /// States dropped that no other tier held.
  uint64_t lost() const { return lost_; }

 private:
  using Image = std::shared_ptr<const state::StateImage>;
  struct Copy {
    PrefixNode* node = nullptr;
    std::shared_ptr<const state::Checkpoint> from;
    int32_t first_page = 0;
  };

  std::vector<Copy> copies_for(PrefixNode& node) const;
  void set(PrefixNode& node, Image image);

  PrefixIndex& index_;
  Background& background_;
  int64_t max_bytes_;
  int64_t bytes_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFIX_CACHE_MEMORY_TIER_H_
