#include "serving/wake_queue.h"

#include <utility>

namespace chimere::serving {

void WakeQueue::add(std::weak_ptr<Listener> listener, ResponseStream::Urgency urgency) {
  wakes_.push({std::move(listener), Clock::now()});
  const bool now = urgency == ResponseStream::Urgency::kNow || !polls_;
  if (now && !woken_.exchange(true)) wake_.notify();
}

std::optional<WakeQueue::Clock::time_point> WakeQueue::notify_listeners() {
  std::optional<Clock::time_point> next;
  // Repeated for wake-ups that were added without a notification because the thread was going to
  // poll.
  do {
    woken_ = false;
    wakes_.take(notifying_);
    next.reset();
    if (!notifying_.empty()) next = arrival_predictor_.add(notifying_.front().time);
    if (next && *next <= Clock::now()) next.reset();  // too late to poll
    polls_ = next.has_value();
    for (const Wake& wake : notifying_) {
      if (const auto listener = wake.listener.lock()) listener->on_wake();
    }
    notifying_.clear();
  } while (!next && !wakes_.empty());
  return next;
}

}  // namespace chimere::serving
