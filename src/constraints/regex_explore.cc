// Emptiness, lengths and enumeration of languages.
#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "constraints/regex_impl.h"
#include "text/utf8.h"

namespace chimere::constraints {
namespace {

/// Steps of derivatives that one exploration may compute, and all of one arena unless
/// RegexArena::limit_single_explorations() was called.
constexpr uint64_t kMaxWork = 500'000;
constexpr uint64_t kMaxArenaWork = 4'000'000;

uint64_t add_lengths(uint64_t a, uint64_t b) {
  constexpr uint64_t kLimit = uint64_t{1} << 62;
  return std::min(std::min(a, kLimit) + std::min(b, kLimit), kLimit);
}

uint64_t multiply_lengths(uint64_t a, uint64_t b) {
  constexpr uint64_t kLimit = uint64_t{1} << 62;
  if (a == 0 || b == 0) return 0;
  return a > kLimit / b ? kLimit : a * b;
}

}  // namespace

/// Computes the shortest texts of all derivatives of an intersection or complement.
Status RegexArena::Impl::explore(Regex a) {
  const auto known = [&](Regex r) {
    return nodes[r].positive || (r < shortest_of.size() && shortest_of[r] != kUnknown);
  };
  std::vector<Regex> visited;
  std::unordered_map<Regex, uint32_t> index;
  const auto visit = [&](Regex r) {
    const auto [it, added] = index.try_emplace(r, static_cast<uint32_t>(visited.size()));
    if (added) visited.push_back(r);
    return it->second;
  };
  visit(a);
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // target, source
  const uint64_t before = work;
  const uint64_t allowed =
      total_limited ? std::min(kMaxWork, kMaxArenaWork - std::min(explored, kMaxArenaWork))
                    : kMaxWork;
  size_t expanded = 0;
  for (size_t i = 0; i < visited.size(); ++i) {
    if (known(visited[i])) continue;
    if (++expanded > kMaxExplored || work - before > allowed) {
      explored += work - before;
      return unsupported(
          "the combination of patterns is too large to decide whether texts remain; simplify or "
          "drop one of the patterns");
    }
    Regex last = kNoText;
    const size_t count = segments(visited[i]).size();
    for (size_t k = 0; k < count; ++k) {
      const Regex target = segments(visited[i])[k].target;
      if (target == kNoText || target == last) continue;
      last = target;
      edges.emplace_back(visit(target), static_cast<uint32_t>(i));
    }
  }
  explored += work - before;
  std::ranges::sort(edges);
  edges.erase(std::ranges::unique(edges).begin(), edges.end());
  using Entry = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<uint64_t> distance(visited.size(), kEmpty);
  for (uint32_t i = 0; i < visited.size(); ++i) {
    if (nodes[visited[i]].nullable) {
      distance[i] = 0;
    } else if (known(visited[i])) {
      distance[i] = shortest(visited[i]);
    }
    if (distance[i] != kEmpty) queue.emplace(distance[i], i);
  }
  while (!queue.empty()) {
    const auto [length, at] = queue.top();
    queue.pop();
    if (length != distance[at]) continue;
    auto edge = std::ranges::lower_bound(edges, std::pair(at, uint32_t{0}));
    for (; edge != edges.end() && edge->first == at; ++edge) {
      if (length + 1 >= distance[edge->second]) continue;
      distance[edge->second] = length + 1;
      queue.emplace(length + 1, edge->second);
    }
  }
  if (shortest_of.size() < nodes.size()) shortest_of.resize(nodes.size(), kUnknown);
  for (uint32_t i = 0; i < visited.size(); ++i) shortest_of[visited[i]] = distance[i];
  return {};
}

/// The shortest text of an intersection with a window of lengths, if the lengths of the other part
/// follow from its structure; then so do those of all derivatives.
std::optional<uint64_t> RegexArena::Impl::shortest_in_window(const Node& node) {
  if (node.op != Op::kIntersect || node.b != 2) return std::nullopt;
  for (uint32_t i = 0; i < 2; ++i) {
    const Node& window = nodes[pool[node.a + i]];
    const Regex other = pool[node.a + 1 - i];
    if (window.op != Op::kRepeat || window.a != kOneCharacter || !nodes[other].positive) continue;
    const auto set = lengths(other);
    if (!set) return std::nullopt;
    const auto length = set->next(window.min);
    return length && *length <= window.max ? *length : kEmpty;
  }
  return std::nullopt;
}

Status RegexArena::Impl::prepare(Regex a) {
  if (too_large) return unsupported("the patterns are too large or too deeply nested");
  std::vector<Regex> stack = {a};
  std::unordered_set<Regex> seen;
  while (!stack.empty()) {
    const Regex at = stack.back();
    stack.pop_back();
    const Node node = nodes[at];
    if (node.positive || !seen.insert(at).second) continue;
    switch (node.op) {
      case Op::kIntersect:
      case Op::kNot:
        if (at < shortest_of.size() && shortest_of[at] != kUnknown) break;
        if (!shortest_in_window(node)) CHIMERE_CHECK_OK(explore(at));
        break;
      case Op::kConcat:
        stack.push_back(node.a);
        stack.push_back(node.b);
        break;
      case Op::kUnion: {
        const auto inner = children(node);
        stack.insert(stack.end(), inner.begin(), inner.end());
        break;
      }
      case Op::kRepeat:
        stack.push_back(node.a);
        break;
      default:
        break;
    }
  }
  return {};
}

/// Length of the shortest text; kEmpty: no text.
uint64_t RegexArena::Impl::shortest(Regex a) {
  const Node node = nodes[a];
  if (a < shortest_of.size() && shortest_of[a] != kUnknown) return shortest_of[a];
  uint64_t out = kEmpty;
  switch (node.op) {
    case Op::kNone:
      break;
    case Op::kEpsilon:
      out = 0;
      break;
    case Op::kSet:
      out = 1;
      break;
    case Op::kWords: {
      const WordList& list = lists[node.a];
      const auto read =
          static_cast<uint32_t>(std::ranges::count_if(list[node.min].substr(0, node.b), [](char c) {
            return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
          }));
      for (uint32_t i = node.min; i < node.max; ++i) {
        out = std::min<uint64_t>(out, list.lengths[i] - read);
      }
      break;
    }
    case Op::kConcat:
      out = 0;
      for (Regex at = a; at != kEmptyText && out != kEmpty; at = tail(at)) {
        const uint64_t part = shortest(head(at));
        out = part == kEmpty ? kEmpty : add_lengths(out, part);
      }
      break;
    case Op::kUnion:
      for (uint32_t i = 0; i < node.b; ++i) out = std::min(out, shortest(pool[node.a + i]));
      break;
    case Op::kRepeat: {
      const uint64_t part = node.min == 0 ? 0 : shortest(node.a);
      out = part == kEmpty ? kEmpty : multiply_lengths(part, node.min);
      break;
    }
    case Op::kIntersect:
    case Op::kNot:
      if (const auto length = shortest_in_window(node)) {
        out = *length;
        break;
      }
      // A prepared expression is explored; otherwise, an error says so, and "alive" is the answer
      // that loses nothing.
      if (!explore(a).ok()) return 0;
      return shortest_of[a];
  }
  if (a >= shortest_of.size()) shortest_of.resize(nodes.size(), kUnknown);
  shortest_of[a] = out;
  return out;
}

std::optional<LengthSet> RegexArena::Impl::lengths(Regex a) {
  const auto it = lengths_of.find(a);
  if (it != lengths_of.end()) return it->second;
  auto out = compute_lengths(a);
  return lengths_of.emplace(a, std::move(out)).first->second;
}

std::optional<LengthSet> RegexArena::Impl::compute_lengths(Regex a) {
  const Node node = nodes[a];
  switch (node.op) {
    case Op::kNone:
      return LengthSet();
    case Op::kEpsilon:
      return LengthSet::of(0, 0);
    case Op::kSet:
      return LengthSet::of(1, 1);
    case Op::kWords: {
      const WordList& list = lists[node.a];
      const auto read =
          static_cast<uint32_t>(std::ranges::count_if(list[node.min].substr(0, node.b), [](char c) {
            return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
          }));
      std::vector<uint32_t> sorted(list.lengths.begin() + node.min,
                                   list.lengths.begin() + node.max);
      std::ranges::sort(sorted);
      sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
      std::optional<LengthSet> out = LengthSet();
      for (const uint32_t length : sorted) {
        out = out->unite(LengthSet::of(length - read, length - read));
        if (!out) return std::nullopt;
      }
      return out;
    }
    case Op::kConcat: {
      std::optional<LengthSet> out = LengthSet::of(0, 0);
      for (Regex at = a; at != kEmptyText; at = tail(at)) {
        const auto part = lengths(head(at));
        if (!part) return std::nullopt;
        out = out->add(*part);
        if (!out) return std::nullopt;
      }
      return out;
    }
    case Op::kUnion: {
      std::optional<LengthSet> out = LengthSet();
      for (uint32_t i = 0; i < node.b; ++i) {
        const auto part = lengths(pool[node.a + i]);
        if (!part) return std::nullopt;
        out = out->unite(*part);
        if (!out) return std::nullopt;
      }
      return out;
    }
    case Op::kRepeat: {
      const auto part = lengths(node.a);
      if (!part) return std::nullopt;
      return part->repeat(node.min, node.max == kUnbounded ? LengthSet::kInfinite : node.max);
    }
    case Op::kIntersect:
    case Op::kNot:
      break;
  }
  return std::nullopt;
}

std::optional<uint64_t> RegexArena::Impl::longest_way(Regex a) {
  const Node node = nodes[a];
  if (!node.positive) return std::nullopt;
  switch (node.op) {
    case Op::kNone:
    case Op::kEpsilon:
      return 0;
    case Op::kSet:
      return 1;
    case Op::kWords: {
      uint32_t longest = 0;
      for (uint32_t i = node.min; i < node.max; ++i) {
        longest = std::max(longest, lists[node.a].lengths[i]);
      }
      return longest;
    }
    case Op::kConcat: {
      // Inside a part: the way to its end, then the shortest texts of the parts that follow.
      std::vector<Regex> heads;
      for (Regex at = a; at != kEmptyText; at = tail(at)) heads.push_back(head(at));
      uint64_t rest = 0;
      uint64_t out = 0;
      for (auto it = heads.rbegin(); it != heads.rend(); ++it) {
        const auto way = longest_way(*it);
        if (!way) return std::nullopt;
        out = std::max(out, add_lengths(*way, rest));
        rest = add_lengths(rest, shortest(*it));
      }
      return out;
    }
    case Op::kUnion: {
      uint64_t out = 0;
      for (uint32_t i = 0; i < node.b; ++i) {
        const auto way = longest_way(pool[node.a + i]);
        if (!way) return std::nullopt;
        out = std::max(out, *way);
      }
      return out;
    }
    case Op::kRepeat: {
      const auto way = longest_way(node.a);
      if (!way) return std::nullopt;
      const uint64_t left = node.min == 0 ? 0 : node.min - 1;
      return add_lengths(*way, multiply_lengths(shortest(node.a), left));
    }
    default:
      return std::nullopt;
  }
}

Status RegexArena::prepare(Regex a) { return impl_->prepare(a); }

bool RegexArena::alive(Regex a) { return impl_->shortest(a) != Impl::kEmpty; }

uint64_t RegexArena::shortest(Regex a) { return impl_->shortest(a); }

Result<bool> RegexArena::empty(Regex a) {
  CHIMERE_CHECK_OK(prepare(a));
  return !alive(a);
}

Result<bool> RegexArena::subset(Regex a, Regex b) { return empty(intersect(a, complement(b))); }

Result<std::vector<std::string>> RegexArena::enumerate(Regex a, size_t limit) {
  CHIMERE_CHECK_OK(prepare(a));
  std::vector<std::string> out;
  // Best first: length so far plus length of the shortest way to the end, then the text. An item
  // with `done` is a text of the language.
  struct Item {
    uint64_t length;
    std::string text;
    bool open;
    Regex rest;
    uint64_t read;
    bool operator<(const Item& other) const {
      return std::tie(length, text, open) < std::tie(other.length, other.text, other.open);
    }
  };
  // Each item leads to a text that no other one leads to: the best of them are enough.
  std::set<Item> queue;
  const auto push = [&](Item item) {
    const bool full = queue.size() >= limit - out.size();
    if (full && !(item < *queue.rbegin())) return false;
    queue.insert(std::move(item));
    if (full) queue.erase(std::prev(queue.end()));
    return true;
  };
  if (alive(a) && limit > 0) push({impl_->shortest(a), "", true, a, 0});
  while (!queue.empty() && out.size() < limit) {
    const Item item = std::move(queue.extract(queue.begin()).value());
    if (!item.open) {
      out.push_back(item.text);
      continue;
    }
    if (accepts(item.rest)) push({item.read, item.text, false, kNoText, item.read});
    const std::vector<Segment> all(segments(item.rest).begin(), segments(item.rest).end());
    std::vector<std::pair<uint64_t, size_t>> order;
    for (size_t i = 0; i < all.size(); ++i) {
      const uint64_t way = impl_->shortest(all[i].target);
      if (way != Impl::kEmpty) order.emplace_back(way, i);
    }
    std::ranges::sort(order);
    size_t pushed = 0;
    for (const auto& [way, i] : order) {
      const uint64_t length = item.read + 1 + way;
      const uint32_t end = i + 1 < all.size() ? all[i + 1].first : kLastCodePoint + 1;
      for (uint32_t code = all[i].first; code < end && pushed < limit; ++code, ++pushed) {
        std::string text = item.text;
        text::append_utf8(text, code);
        if (!push({length, std::move(text), true, all[i].target, item.read + 1})) break;
      }
    }
  }
  return out;
}

Result<std::optional<std::vector<std::string>>> RegexArena::finite(Regex a, size_t limit) {
  CHIMERE_TRY(auto texts, enumerate(a, limit + 1));
  if (texts.size() > limit) return std::optional<std::vector<std::string>>();
  return std::optional(std::move(texts));
}

std::optional<LengthSet> RegexArena::lengths(Regex a) { return impl_->lengths(a); }

RegexArena::Window RegexArena::window(Regex a) {
  const auto bounds = [&](Regex r) { return impl_->nodes[r]; };
  const Impl::Node node = impl_->nodes[a];
  if (a == kOneCharacter) return {kAnyText, 1, 1};
  if (a == kEmptyText) return {kAnyText, 0, 0};
  if (node.op == Impl::Op::kRepeat && node.a == kOneCharacter)
    return {kAnyText, node.min, node.max};
  Window window = {a, 0, kUnbounded};
  if (node.op != Impl::Op::kIntersect) return window;
  std::vector<Regex> others;
  for (uint32_t i = 0; i < node.b; ++i) {
    const Regex part = impl_->pool[node.a + i];
    if (bounds(part).op == Impl::Op::kRepeat && bounds(part).a == kOneCharacter) {
      window.min = bounds(part).min;
      window.max = bounds(part).max;
    } else {
      others.push_back(part);
    }
  }
  window.language = intersect(others);
  return window;
}

std::optional<uint64_t> RegexArena::longest_way(Regex a) { return impl_->longest_way(a); }

size_t RegexArena::memory() const {
  size_t bytes =
      sizeof(Impl) + impl_->nodes.capacity() * sizeof(Impl::Node) +
      impl_->pool.capacity() * sizeof(Regex) + impl_->table.capacity() * sizeof(uint32_t) +
      impl_->segment_range.capacity() * sizeof(Impl::SegmentRange) +
      impl_->segment_pool.capacity() * sizeof(Segment) +
      impl_->shortest_of.capacity() * sizeof(uint64_t) +
      impl_->derived.capacity() * sizeof(impl_->derived[0]) + impl_->lengths_of.size() * 128;
  for (const auto& [pattern, language] : impl_->parsed) bytes += pattern.capacity() + 64;
  for (const CodePointSet& set : impl_->sets) bytes += set.ranges().size_bytes();
  for (const WordList& list : impl_->lists) bytes += list.bytes.capacity() + list.size() * 8;
  return bytes;
}

}  // namespace chimere::constraints
