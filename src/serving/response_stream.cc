#include "serving/response_stream.h"

#include <utility>

#include "protocol/responses.h"

namespace chimere::serving {

void ResponseStream::respond(HttpResponse response) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.head = std::move(response);
    waiting_.ended = true;
    any_waiting_ = true;
  }
  wake_(Urgency::kNow);
}

void ResponseStream::start_events(Headers headers, std::string content_type) {
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");  // stops nginx from buffering events
  start_events_of({200, "", std::move(content_type), std::move(headers)});
}

void ResponseStream::start_events_of(HttpResponse head) {
  {
    const std::scoped_lock lock(mutex_);
    comments_ = head.content_type == "text/event-stream";
    waiting_.head = std::move(head);
    streaming_ = true;
    any_waiting_ = true;
    if (write_) deferred_.store(true, std::memory_order_release);
  }
  wake_(Urgency::kNow);
}

void ResponseStream::event(std::string_view bytes) {
  {
    const std::scoped_lock lock(mutex_);
    if (abandoned_ || waiting_.too_slow) return;
    // The wake-up for the preceding bytes covers these, too.
    const bool woken = !waiting_.bytes.empty();
    waiting_.bytes += bytes;
    any_waiting_ = true;
    if (woken && waiting_.bytes.size() <= kMaxWaiting) return;
    waiting_.too_slow |= waiting_.bytes.size() > kMaxWaiting;
  }
  wake_(Urgency::kMayWait);
}

void ResponseStream::keep_alive() {
  {
    const std::scoped_lock lock(mutex_);
    if (!comments_) return;
  }
  event(protocol::kSseKeepAlive);
}

void ResponseStream::drop_slow_client() {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.too_slow = true;
    any_waiting_ = true;
  }
  wake_(Urgency::kNow);
}

void ResponseStream::end_events() {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.ended = true;
    any_waiting_ = true;
  }
  wake_(Urgency::kNow);
}

void ResponseStream::on_stopped(std::function<void()> action) {
  {
    const std::scoped_lock lock(mutex_);
    if (!abandoned_ && !cancelled_) {
      action_ = std::move(action);
      return;
    }
  }
  action();
}

bool ResponseStream::stopped() const {
  const std::scoped_lock lock(mutex_);
  return abandoned_ || cancelled_;
}

bool ResponseStream::abandoned() const {
  const std::scoped_lock lock(mutex_);
  return abandoned_;
}

void ResponseStream::cancel() {
  std::function<void()> action;
  {
    const std::scoped_lock lock(mutex_);
    cancelled_ = true;
    action = std::exchange(action_, {});
  }
  if (action) action();
}

void ResponseStream::on_take(std::function<bool(Piece&)> write) {
  const std::scoped_lock lock(mutex_);
  write_ = std::move(write);
}

void ResponseStream::collect(Piece& out) {
  if (!any_waiting_) return;
  const std::scoped_lock lock(mutex_);
  out = std::exchange(waiting_, {});
  waiting_.ended = out.ended;
  any_waiting_ = out.ended;
}

ResponseStream::Piece ResponseStream::take() {
  Piece out;
  if (!deferred_.load(std::memory_order_acquire) || !write_(out)) collect(out);
  return out;
}

bool ResponseStream::streaming() const {
  const std::scoped_lock lock(mutex_);
  return streaming_;
}

void ResponseStream::abandon() {
  std::function<void()> action;
  {
    const std::scoped_lock lock(mutex_);
    abandoned_ = true;
    waiting_ = {};
    action = std::exchange(action_, {});
  }
  if (action) action();
}

}  // namespace chimere::serving
