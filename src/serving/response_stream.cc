#include "serving/response_stream.h"

#include <utility>

namespace chimere::serving {

void ResponseStream::respond(HttpResponse response) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.head = std::move(response);
    waiting_.ended = true;
  }
  wake_(Urgency::kNow);
}

void ResponseStream::start_events(Headers headers) {
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");  // stops nginx from buffering events
  {
    const std::lock_guard lock(mutex_);
    waiting_.head = HttpResponse{200, "", "text/event-stream", std::move(headers)};
    streaming_ = true;
  }
  wake_(Urgency::kNow);
}

void ResponseStream::event(std::string_view bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_ || waiting_.too_slow) return;
    // The wake-up for the preceding bytes covers these, too.
    const bool woken = taking_ || !waiting_.bytes.empty();
    waiting_.bytes += bytes;
    if (woken && waiting_.bytes.size() <= kMaxWaiting) return;
    waiting_.too_slow |= waiting_.bytes.size() > kMaxWaiting;
  }
  wake_(Urgency::kMayWait);
}

void ResponseStream::drop_slow_client() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.too_slow = true;
  }
  wake_(Urgency::kNow);
}

void ResponseStream::end_events() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.ended = true;
  }
  wake_(Urgency::kNow);
}

void ResponseStream::on_abandoned(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    if (!abandoned_) {
      action_ = std::move(action);
      return;
    }
  }
  action();
}

bool ResponseStream::abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

void ResponseStream::on_take(std::function<void()> write) {
  const std::lock_guard lock(mutex_);
  write_ = std::move(write);
}

ResponseStream::Piece ResponseStream::take() {
  std::function<void()> write;
  {
    const std::lock_guard lock(mutex_);
    write = write_;
    taking_ = write != nullptr;
  }
  if (write) write();
  const std::lock_guard lock(mutex_);
  taking_ = false;
  Piece out = std::exchange(waiting_, {});
  waiting_.ended = out.ended;
  return out;
}

bool ResponseStream::streaming() const {
  const std::lock_guard lock(mutex_);
  return streaming_;
}

void ResponseStream::abandon() {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    waiting_ = {};
    action = std::exchange(action_, {});
    write_ = nullptr;
  }
  if (action) action();
}

}  // namespace chimere::serving
