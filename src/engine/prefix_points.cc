#include "engine/prefix_points.h"

#include <algorithm>
#include <set>

#include "kernels/api.h"

namespace chimere::engine {

int64_t stable_end(std::span<const int64_t> chunk_ends) {
  if (chunk_ends.empty()) return 0;
  const int64_t start = chunk_ends.size() > 1 ? chunk_ends[chunk_ends.size() - 2] : 0;
  return chunk_ends.back() - start == kernels::kMaxChunkRows ? chunk_ends.back() : start;
}

std::vector<int64_t> prefix_points(std::span<const int32_t> prompt,
                                   std::span<const int64_t> chunk_ends,
                                   std::span<const int32_t> message_starts) {
  const auto size = static_cast<int64_t>(prompt.size());
  std::vector<int64_t> messages;  // message starts after the first token
  for (const int64_t end : chunk_ends) {
    if (end < size && std::ranges::find(message_starts, prompt[static_cast<size_t>(end)]) !=
                          message_starts.end()) {
      messages.push_back(end);
    }
  }
  std::set<int64_t> points;
  const auto add = [&](int64_t point) {
    if (point > 0 && points.size() < kMaxPrefixPoints) points.insert(point);
  };
  add(stable_end(chunk_ends));
  if (!messages.empty()) add(messages.front());
  for (size_t i = 1; i <= std::min<size_t>(3, messages.size()); ++i) {
    add(messages[messages.size() - i]);
  }
  /// The last of `boundaries` in (from, to]; 0: none.
  const auto last_between = [](std::span<const int64_t> boundaries, int64_t from, int64_t to) {
    const auto above = std::ranges::upper_bound(boundaries, to);
    return above != boundaries.begin() && *(above - 1) > from ? *(above - 1) : 0;
  };
  for (int64_t distance = 128; distance < size; distance *= 2) {
    const int64_t from = size - 2 * distance;
    const int64_t to = size - distance;
    const int64_t message = last_between(messages, from, to);
    add(message > 0 ? message : last_between(chunk_ends, from, to));
  }
  return {points.begin(), points.end()};
}

}  // namespace chimere::engine
