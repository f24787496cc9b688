// Which requests run, which wait, and which must give up their memory.
#ifndef CHIMERE_ENGINE_SCHEDULER_H_
#define CHIMERE_ENGINE_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "engine/generation.h"
#include "engine/prefix_cache.h"
#include "state/state_store.h"

namespace chimere::engine {

/// Waiting requests are admitted by owner, the owner with the fewest running requests first. When
/// the state store is full, states that no request needs are released first; then the youngest
/// request is suspended. Belongs to one thread.
class Scheduler {
 public:
  using List = std::vector<std::unique_ptr<Generation>>;

  /// Recurrent states that a single request needs: its own, and a second one while a step writes
  /// it.
  static constexpr int64_t kSlotsAlone = 2;

  /// `cache` may be nullptr. `release` frees memory of idle-time work, if there is any; false if
  /// not. All must outlive the scheduler.
  Scheduler(state::StateStore& states, PrefixCache* cache, int32_t max_running,
            std::function<bool()> release);

  /// With a state, oldest first.
  const List& running() const { return running_; }
  /// Without a state, oldest first.
  const List& waiting() const { return waiting_; }

  void add(std::unique_ptr<Generation> generation);
  /// The request with this id; nullptr: none.
  Generation* find(RequestId id) const;
  /// Starts waiting requests while there are free places and memory.
  void admit();
  /// Whether admit() could start a request: something has changed since its last call.
  bool may_admit() const;

  /// Releases memory that no request needs. False if there is none.
  bool evict();
  /// evict() until the request fits. False if it does not.
  bool make_room_for(const Generation& candidate);
  /// Suspends the youngest running request; it is admitted again before younger ones.
  void suspend_youngest();
  /// Removes finished requests.
  void drop_finished();
  /// Requests suspended because the state store was full, since the start.
  int64_t evictions() const { return evictions_; }

 private:
  size_t next_waiting(const std::set<RequestId>& skipped) const;
  bool look_up(Generation& candidate);
  bool has_room_for(const Generation& candidate) const;
  int64_t pages_for(int64_t tokens) const;

  state::StateStore& states_;
  PrefixCache* cache_;
  size_t max_running_;
  std::function<bool()> release_;
  List running_;
  List waiting_;
  size_t limit_;          ///< limit on running requests since the state store was last full
  bool changed_ = false;  ///< since the last admit()
  int64_t evictions_ = 0;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SCHEDULER_H_
