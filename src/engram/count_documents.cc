// Counting: positions are sorted by their contexts, latest token first, so that the positions of a
// context are adjacent at every order.
#include <algorithm>
#include <utility>

#include "engram/counts.h"

namespace chimere::engram {
namespace {

/// Precedes the first token of each document; smaller than every token (ids are stored + 1).
constexpr uint32_t kBorder = 0;

struct Position {
  uint64_t latest;  ///< the two preceding tokens, the nearer one in the high half
  uint32_t at;      ///< index in Text::tokens
};

/// All documents, concatenated, each preceded by a border.
struct Text {
  std::vector<uint32_t> tokens;
  std::vector<Position> positions;
};

Result<Text> join(std::span<const std::vector<int32_t>> documents) {
  Text text;
  size_t size = 0;
  for (const auto& d : documents) size += d.size() + 1;
  if (size > UINT32_MAX - 2) {
    return out_of_memory(
        "The texts have more than 2^32 tokens; build several tables and merge them.");
  }
  text.tokens.reserve(size);
  text.positions.reserve(size);
  for (const auto& document : documents) {
    text.tokens.push_back(kBorder);
    for (const int32_t token : document) {
      if (token < 0 || static_cast<uint32_t>(token) >= kMaxTokens - 1) {
        return invalid_argument("Token " + std::to_string(token) +
                                " is out of range; tables hold ids below " +
                                std::to_string(kMaxTokens - 1) + ".");
      }
      const auto at = static_cast<uint32_t>(text.tokens.size());
      const uint64_t before = text.tokens[at - 1];
      const uint64_t second = before == kBorder ? kBorder : text.tokens[at - 2];
      text.positions.push_back({before << 32 | second, at});
      text.tokens.push_back(static_cast<uint32_t>(token) + 1);
    }
  }
  return text;
}

/// Number of tokens that two positions' contexts share, at most `order`. Borders end contexts.
int common(const std::vector<uint32_t>& tokens, uint32_t a, uint32_t b, int order) {
  for (int k = 0; k < order; ++k) {
    const uint32_t x = tokens[a - 1 - static_cast<uint32_t>(k)];
    if (x != tokens[b - 1 - static_cast<uint32_t>(k)] || x == kBorder) return k;
  }
  return order;
}

int depth_of(const std::vector<uint32_t>& tokens, uint32_t at, int order) {
  int depth = 0;
  while (depth < order && tokens[at - 1 - static_cast<uint32_t>(depth)] != kBorder) ++depth;
  return depth;
}

void sort_by_context(Text& text, int order) {
  const auto& tokens = text.tokens;
  std::ranges::sort(text.positions, [&](const Position& a, const Position& b) {
    if (a.latest != b.latest) return a.latest < b.latest;
    for (int k = 0; k < order; ++k) {
      const uint32_t x = tokens[a.at - 1 - static_cast<uint32_t>(k)];
      const uint32_t y = tokens[b.at - 1 - static_cast<uint32_t>(k)];
      if (x != y) return x < y;
      if (x == kBorder) break;
    }
    return a.at < b.at;
  });
}

/// Adds one entry for each distinct token of `next`, which is sorted in place.
void add_successors(std::vector<uint32_t>& next, const Occurrence& occurrence,
                    std::vector<Successor>& out) {
  const auto begin = static_cast<std::ptrdiff_t>(out.size());
  std::ranges::sort(next);
  for (size_t i = 0; i < next.size();) {
    size_t end = i + 1;
    while (end < next.size() && next[end] == next[i]) ++end;
    const uint64_t weight = uint64_t{occurrence.weight} * (end - i);
    out.push_back({next[i] - 1, static_cast<uint32_t>(std::min<uint64_t>(weight, UINT32_MAX)),
                   occurrence.day, 0, 0});
    i = end;
  }
  // Stable: tokens stay in order among equal weights.
  std::stable_sort(out.begin() + begin, out.end(),
                   [](const Successor& a, const Successor& b) { return a.weight > b.weight; });
}

}  // namespace

Result<Counts> Counts::of(std::span<const std::vector<int32_t>> documents, int order,
                          const Occurrence& occurrence) {
  CHIMERE_TRY(Text text, join(documents));
  sort_by_context(text, order);
  const auto& positions = text.positions;
  const size_t n = positions.size();
  std::vector<uint8_t> depth(n);
  std::vector<uint8_t> shared(n);  // context tokens shared with the previous position
  for (size_t j = 0; j < n; ++j) {
    depth[j] = static_cast<uint8_t>(depth_of(text.tokens, positions[j].at, order));
    if (j > 0) {
      shared[j] =
          static_cast<uint8_t>(common(text.tokens, positions[j - 1].at, positions[j].at, order));
    }
  }

  Parts parts;
  parts.order = order;
  parts.sources = {occurrence.source};
  std::vector<uint32_t> next;
  for (int level = 0; level <= order; ++level) {
    parts.levels.push_back(static_cast<uint32_t>(parts.nodes.size()));
    // The node of the shorter context that contains the positions; none yet.
    uint32_t parent = level < 2 ? 0 : parts.levels[static_cast<size_t>(level) - 1] - 1;
    for (size_t j = 0; j < n;) {
      if (level > 1 && depth[j] >= level - 1 && (j == 0 || shared[j] < level - 1)) ++parent;
      if (depth[j] < level) {
        ++j;
        continue;
      }
      const uint32_t at = positions[j].at;
      const uint32_t token = level == 0 ? 0 : text.tokens[at - static_cast<uint32_t>(level)] - 1;
      parts.nodes.push_back({parent, token, static_cast<uint32_t>(parts.successors.size()), 0});
      next.clear();
      do {
        next.push_back(text.tokens[positions[j].at]);
        ++j;
      } while (j < n && shared[j] >= level && depth[j] >= level);
      add_successors(next, occurrence, parts.successors);
      if (parts.successors.size() > UINT32_MAX - 2) {
        return out_of_memory("A table holds at most 2^32 - 2 entries; build several tables.");
      }
    }
    if (level == 0 && parts.nodes.empty()) parts.nodes.push_back({});
  }
  parts.levels.push_back(static_cast<uint32_t>(parts.nodes.size()));
  parts.nodes.push_back({0, 0, static_cast<uint32_t>(parts.successors.size()), 0});
  Counts out(std::move(parts));
  out.finish();
  return out;
}

}  // namespace chimere::engram
