// The newest events of a stream, numbered, for clients that come back to it.
#ifndef CHIMERE_SERVING_HISTORY_EVENT_BUFFER_H_
#define CHIMERE_SERVING_HISTORY_EVENT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace chimere::serving {

/// Not thread-safe.
class EventBuffer {
 public:
  /// Beyond `most_bytes` the oldest events are dropped; the newest one is always there.
  explicit EventBuffer(size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Whole server-sent events, each ending in an empty line: they get the numbers from last() + 1
  /// as their `id`.
  void add(std::string_view events);
  /// The number of the newest event; 0: there was none.
  int64_t last() const { return last_; }
  /// Whether `number` is that of an event, or 0, and all events after it are there.
  bool has_all_after(int64_t number) const;
  /// Appends the events after `number` up to that of the number `end` to `out`, until it has
  /// `most` bytes or more. Requires has_all_after(number). Returns the number of the last one.
  int64_t read(int64_t number, int64_t end, size_t most, std::string& out) const;

 private:
  const size_t most_bytes_;
  std::deque<std::string> events_;
  size_t bytes_ = 0;
  int64_t last_ = 0;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_HISTORY_EVENT_BUFFER_H_
