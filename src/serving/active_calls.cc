#include "serving/active_calls.h"

#include <algorithm>
#include <utility>

namespace chimere::serving {

void ActiveCalls::drop_ended() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.call.expired(); });
}

void ActiveCalls::add(const CallPtr& call) {
  Entry entry{call, call->began, {}};
  entry.about.id = call->request_id;
  entry.about.key = call->key ? call->key->name : "";
  entry.about.route = call->route;
  entry.about.bytes = static_cast<int64_t>(call->request.body.size());
  const std::lock_guard lock(mutex_);
  // Amortised: a sweep leaves room for as many calls as there are.
  if (entries_.size() >= sweep_at_) {
    drop_ended();
    sweep_at_ = std::max<size_t>(64, 2 * entries_.size());
  }
  entries_.push_back(std::move(entry));
}

std::vector<protocol::RunningRequest> ActiveCalls::list() {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  drop_ended();
  std::vector<protocol::RunningRequest> out;
  for (const Entry& entry : entries_) {
    out.push_back(entry.about);
    out.back().seconds = std::chrono::duration<double>(now - entry.began).count();
  }
  return out;
}

}  // namespace chimere::serving
