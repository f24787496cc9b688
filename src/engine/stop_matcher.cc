#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace chimere::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

void StopMatcher::push(std::string_view text, std::string& out) {
  if (matched_) return;
  if (stops_.empty()) {
    out += text;
    return;
  }
  held_ += text;
  size_t end = std::string::npos;  // of the match
  size_t begin = held_.size();
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t stop_end = at + stop.size();
    if (stop_end < end || (stop_end == end && at < begin)) {
      end = stop_end;
      begin = at;
      match_ = stop;
    }
  }
  matched_ = end != std::string::npos;
  if (!matched_) {
    for (const std::string& stop : stops_) begin = std::min(begin, held_.size() - overlap(stop));
  }
  out.append(held_, 0, begin);
  held_.erase(0, begin);
}

size_t StopMatcher::overlap(std::string_view stop) const {
  for (size_t n = std::min(stop.size() - 1, held_.size()); n > 0; --n) {
    if (std::string_view(held_).ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

std::string StopMatcher::finish() { return matched_ ? "" : std::exchange(held_, ""); }

}  // namespace chimere::engine
