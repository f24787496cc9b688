// The calls whose responses are not complete, for those who run the server.
#ifndef CHIMERE_SERVING_ACTIVE_CALLS_H_
#define CHIMERE_SERVING_ACTIVE_CALLS_H_

#include <memory>
#include <mutex>
#include <vector>

#include "protocol/admin.h"
#include "serving/call.h"

namespace chimere::serving {

/// Any thread.
class ActiveCalls {
 public:
  /// The call's request, route and key must not change any more.
  void add(const CallPtr& call);
  /// The oldest first.
  std::vector<protocol::RunningRequest> list();

 private:
  struct Entry {
    std::weak_ptr<const Call> call;
    std::chrono::steady_clock::time_point began;
    protocol::RunningRequest about;
  };
  /// Requires `mutex_`.
  void drop_ended();

  std::mutex mutex_;
  std::vector<Entry> entries_;
  size_t sweep_at_ = 64;  ///< entries at which those that have ended are dropped
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ACTIVE_CALLS_H_
