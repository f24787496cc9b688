#include "serving/history/event_buffer.h"

#include <algorithm>

namespace chimere::serving {

void EventBuffer::add(std::string_view events) {
  constexpr std::string_view kEnd = "\n\n";
  while (!events.empty()) {
    const size_t found = events.find(kEnd);
    const size_t size = found == std::string_view::npos ? events.size() : found + kEnd.size();
    std::string event = "id: " + std::to_string(++last_) + "\n";
    event += events.substr(0, size);
    events.remove_prefix(size);
    bytes_ += event.size();
    events_.push_back(std::move(event));
  }
  while (bytes_ > most_bytes_ && events_.size() > 1) {
    bytes_ -= events_.front().size();
    events_.pop_front();
  }
}

bool EventBuffer::has_all_after(int64_t number) const {
  return number >= last_ - static_cast<int64_t>(events_.size()) && number <= last_;
}

int64_t EventBuffer::read(int64_t number, int64_t end, size_t most, std::string& out) const {
  const int64_t dropped = last_ - static_cast<int64_t>(events_.size());
  for (end = std::min(end, last_); number < end && out.size() < most; ++number) {
    out += events_[static_cast<size_t>(number - dropped)];
  }
  return number;
}

}  // namespace chimere::serving
