// Derivatives of expressions, for one character and for all.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "constraints/regex_impl.h"
#include "constraints/work.h"
#include "text/utf8.h"

namespace chimere::constraints {
namespace {

/// A partition of the code points: label of those from `first` up to the next entry's.
struct Label {
  uint32_t first;
  uint32_t label;
};
using Partition = std::vector<Label>;

/// Work of a part of a partition (constraints/work.h).
constexpr uint64_t kUnitsPerPart = 1;

/// Labels equal exactly those code points that have equal labels in both.
Partition refine(const Partition& a, const Partition& b) {
  Partition out;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> labels;
  size_t i = 0;
  size_t j = 0;
  uint32_t at = 0;
  while (true) {
    const auto pair = std::pair(a[i].label, b[j].label);
    const auto [it, added] = labels.try_emplace(pair, static_cast<uint32_t>(labels.size()));
    if (out.empty() || out.back().label != it->second) out.push_back({at, it->second});
    const uint32_t next_a = i + 1 < a.size() ? a[i + 1].first : kLastCodePoint + 1;
    const uint32_t next_b = j + 1 < b.size() ? b[j + 1].first : kLastCodePoint + 1;
    at = std::min(next_a, next_b);
    if (at > kLastCodePoint) return out;
    if (next_a == at) ++i;
    if (next_b == at) ++j;
  }
}

Partition partition_of(const CodePointSet& set) {
  Partition out;
  uint32_t next = 0;
  for (const CodeRange& range : set.ranges()) {
    if (range.first > next) out.push_back({next, 0});
    out.push_back({range.first, 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, 0});
  return out;
}

uint32_t read_code(std::string_view text, size_t at) { return text::read_utf8(text, at).code; }

}  // namespace

Regex RegexArena::Impl::derive_words(const Node& node, uint32_t code) {
  std::string encoded;
  text::append_utf8(encoded, code);
  const WordList& list = lists[node.a];
  const uint32_t depth = node.b;
  const auto before = [&](uint32_t i) { return list[i].substr(depth, encoded.size()) < encoded; };
  const auto not_after = [&](uint32_t i) {
    return list[i].substr(depth, encoded.size()) <= encoded;
  };
  const auto find = [&](const auto& left) {
    uint32_t low = node.min;
    uint32_t high = node.max;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (left(middle)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  const uint32_t begin = find(before);
  const uint32_t end = find(not_after);
  return word_range(node.a, depth + static_cast<uint32_t>(encoded.size()), begin, end);
}

Regex RegexArena::Impl::derive(Regex a, uint32_t code) {
  if (code > kLastCodePoint || (code >= kFirstSurrogate && code <= kLastSurrogate)) return kNoText;
  if (++pass == 0) {
    derived.clear();
    pass = 1;
  }
  const bool outer = std::exchange(deriving, true);
  const Regex out = derive_node(a, code);
  deriving = outer;
  return out;
}

Regex RegexArena::Impl::derive_node(Regex a, uint32_t code) {
  const Node node = nodes[a];
  switch (node.op) {
    case Op::kNone:
    case Op::kEpsilon:
      return kNoText;
    case Op::kSet:
      return sets[node.a].contains(code) ? kEmptyText : kNoText;
    case Op::kWords:
      return derive_words(node, code);
    default:
      break;
  }
  work += 1 + (node.op == Op::kUnion || node.op == Op::kIntersect ? node.b : 0);
  if (a < derived.size() && derived[a].first == pass) return derived[a].second;
  // Unions are distributed over what follows them, so that equal parts are found.
  std::vector<Regex> parts;
  const auto follow = [&](Regex first, Regex rest) {
    const Node part = nodes[first];
    const bool optional = part.op == Op::kRepeat && part.min == 0 && part.max == 1;
    const Regex inner = optional ? part.a : first;
    if (optional) parts.push_back(rest);
    if (nodes[inner].op == Op::kUnion && rest != kEmptyText) {
      const uint32_t begin = nodes[inner].a;
      for (uint32_t i = 0; i < nodes[inner].b; ++i) parts.push_back(concat(pool[begin + i], rest));
    } else {
      parts.push_back(concat(inner, rest));
    }
  };
  Regex out = kNoText;
  switch (node.op) {
    case Op::kConcat: {
      for (Regex at = a; true; at = tail(at)) {
        const Regex first = head(at);
        follow(derive_node(first, code), tail(at));
        if (!nodes[first].nullable || nodes[at].op != Op::kConcat) break;
      }
      work += parts.size();
      out = unite(parts);
      break;
    }
    case Op::kRepeat: {
      const uint32_t max = node.max == kUnbounded ? kUnbounded : node.max - 1;
      const Regex first = derive_node(node.a, code);
      if (first != kNoText) follow(first, repeat(node.a, node.min == 0 ? 0 : node.min - 1, max));
      out = unite(parts);
      break;
    }
    case Op::kUnion:
    case Op::kIntersect:
      for (uint32_t i = 0; i < node.b; ++i) {
        const Regex part = derive_node(pool[node.a + i], code);
        if (part == kNoText && node.op == Op::kIntersect) {
          parts.clear();
          parts.push_back(kNoText);
          break;
        }
        if (part != kNoText) parts.push_back(part);
      }
      out = node.op == Op::kUnion ? unite(parts) : intersect(parts);
      break;
    default:
      out = complement(derive_node(node.a, code));
      break;
  }
  if (a >= derived.size()) derived.resize(std::max<size_t>(nodes.size(), a + 1));
  derived[a] = {pass, out};
  return out;
}

void RegexArena::Impl::compute_segments(Regex a) {
  const uint64_t before = work;
  // What tells first characters apart.
  Partition partition = {{0, 0}, {kFirstSurrogate, 1}, {kLastSurrogate + 1, 0}};
  std::vector<Regex> stack = {a};
  std::vector<uint32_t> first_sets;
  std::map<uint32_t, uint32_t> first_codes;
  if (++pass == 0) {
    derived.clear();
    pass = 1;
  }
  while (!stack.empty()) {
    const Regex at = stack.back();
    stack.pop_back();
    if (at >= derived.size()) derived.resize(std::max<size_t>(nodes.size(), at + 1));
    if (derived[at].first == pass) continue;
    derived[at] = {pass, kNoText};
    const Node& node = nodes[at];
    switch (node.op) {
      case Op::kNone:
      case Op::kEpsilon:
        break;
      case Op::kSet:
        first_sets.push_back(node.a);
        break;
      case Op::kWords: {
        const WordList& list = lists[node.a];
        for (uint32_t i = node.min + (node.nullable ? 1 : 0); i < node.max;) {
          const uint32_t code = read_code(list[i], node.b);
          first_codes.emplace(code, static_cast<uint32_t>(first_codes.size()) + 1);
          // The next text with another character here.
          const std::string_view text = list[i];
          const auto length = static_cast<size_t>(text::read_utf8(text, node.b).length);
          const std::string_view start = text.substr(node.b, length);
          uint32_t step = 1;
          uint32_t low = i;
          while (low + step < node.max && list[low + step].substr(node.b, length) == start) {
            low += step;
            step *= 2;
          }
          while (step > 1) {
            step /= 2;
            if (low + step < node.max && list[low + step].substr(node.b, length) == start) {
              low += step;
            }
          }
          i = low + 1;
        }
        break;
      }
      case Op::kConcat:
        stack.push_back(node.a);
        if (nodes[node.a].nullable) stack.push_back(node.b);
        break;
      case Op::kUnion:
      case Op::kIntersect: {
        const auto inner = children(node);
        stack.insert(stack.end(), inner.begin(), inner.end());
        break;
      }
      case Op::kNot:
      case Op::kRepeat:
        stack.push_back(node.a);
        break;
    }
  }
  std::ranges::sort(first_sets);
  first_sets.erase(std::ranges::unique(first_sets).begin(), first_sets.end());
  for (const uint32_t index : first_sets) partition = refine(partition, partition_of(sets[index]));
  if (!first_codes.empty()) {
    Partition codes;
    uint32_t next = 0;
    for (const auto& [code, label] : first_codes) {
      if (code > next) codes.push_back({next, 0});
      codes.push_back({code, label});
      next = code + 1;
    }
    if (next <= kLastCodePoint) codes.push_back({next, 0});
    partition = refine(partition, codes);
  }
  uint32_t labels = 0;
  for (const Label& entry : partition) labels = std::max(labels, entry.label + 1);
  constexpr Regex kUnset = UINT32_MAX;
  std::vector<Regex> targets(labels, kUnset);
  std::vector<Segment> out;
  for (const Label& entry : partition) {
    Regex& target = targets[entry.label];
    if (target == kUnset) target = derive(a, entry.first);
    if (out.empty() || out.back().target != target) out.push_back({entry.first, target});
  }
  if (a >= segment_range.size()) segment_range.resize(nodes.size());
  segment_range[a] = {static_cast<uint32_t>(segment_pool.size()),
                      static_cast<uint32_t>(out.size())};
  segment_pool.insert(segment_pool.end(), out.begin(), out.end());
  WorkScope::add(work - before + kUnitsPerPart * partition.size());
}

std::span<const RegexArena::Segment> RegexArena::Impl::segments(Regex a) {
  if (a >= segment_range.size() || segment_range[a].count == 0) compute_segments(a);
  const SegmentRange& range = segment_range[a];
  return std::span(segment_pool).subspan(range.begin, range.count);
}

Regex RegexArena::derive(Regex a, uint32_t code) { return impl_->derive(a, code); }
std::span<const RegexArena::Segment> RegexArena::segments(Regex a) { return impl_->segments(a); }

}  // namespace chimere::constraints
