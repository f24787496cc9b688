// The prefix cache's states in the state store.
#ifndef CHIMERE_ENGINE_PREFIX_CACHE_DEVICE_TIER_H_
#define CHIMERE_ENGINE_PREFIX_CACHE_DEVICE_TIER_H_

#include <cstdint>

#include "engine/prefix_cache/prefix_index.h"
#include "state/sequence_state.h"

namespace chimere::engine {

/// States from which a sequence continues without a copy; they share pages with each other and with
/// running sequences. Belongs to one thread.
class DeviceTier {
 public:
  /// `limit`: number of states. The index must outlive the tier.
  DeviceTier(PrefixIndex& index, int64_t limit) : index_(index), limit_(limit) {}

  /// Adds the state of a node that has none here.
  void add(PrefixNode& node, state::Checkpoint state);
  /// Drops the node's state, if it has one here.
  void drop(PrefixNode& node);
  /// The node's state is being copied to RAM and is dropped when the copy is complete
  /// (copied()); it no longer counts towards the limit.
  void begin_copy() { ++copying_; }
  void copied(PrefixNode& node);

  /// The least recently used state that is not pinned; nullptr: none.
  PrefixNode* victim();
  bool over_limit() const { return states_ - copying_ > limit_; }
  /// Whether states are dropped when copies in progress complete.
  bool copying() const { return copying_ > 0; }
  int64_t states() const { return states_; }
  /// States dropped that no other tier held.
  uint64_t lost() const { return lost_; }

 private:
  PrefixIndex& index_;
  int64_t limit_;
  int64_t states_ = 0;
  int64_t copying_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFIX_CACHE_DEVICE_TIER_H_
