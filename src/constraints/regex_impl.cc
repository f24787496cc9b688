#include "constraints/regex_impl.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "text/utf8.h"

namespace chimere::constraints {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 29;
}

uint64_t hash_bytes(std::string_view bytes) { return std::hash<std::string_view>()(bytes); }

uint32_t count_characters(std::string_view utf8) {
  return static_cast<uint32_t>(
      std::ranges::count_if(utf8, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

/// Sums and products of counts; nullopt: above kMaxCount.
std::optional<uint32_t> add_counts(uint32_t a, uint32_t b) {
  if (a == RegexArena::kUnbounded || b == RegexArena::kUnbounded) return RegexArena::kUnbounded;
  if (a + b > RegexArena::kMaxCount) return std::nullopt;
  return a + b;
}

std::optional<uint32_t> multiply_counts(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == RegexArena::kUnbounded || b == RegexArena::kUnbounded) return RegexArena::kUnbounded;
  if (a > RegexArena::kMaxCount / b) return std::nullopt;
  return a * b;
}

}  // namespace

RegexArena::Impl::Impl() : table(1024) {
  intern({.op = Op::kNone});
  intern({.op = Op::kEpsilon, .nullable = true});
  intern({.op = Op::kRepeat, .nullable = true, .depth = 1, .a = kOneCharacter, .max = kUnbounded});
  set(CodePointSet::all());
}

Regex RegexArena::Impl::intern(const Node& node, std::span<const Regex> children) {
  const bool listed = node.op == Op::kUnion || node.op == Op::kIntersect;
  uint64_t hash = mix(static_cast<uint64_t>(node.op), node.b);
  if (listed) {
    for (const Regex child : children) hash = mix(hash, child);
  } else {
    hash = mix(hash, uint64_t{node.a} << 32 | node.min);
    hash = mix(hash, node.max);
  }
  size_t slot = hash & (table.size() - 1);
  for (; table[slot] != 0; slot = (slot + 1) & (table.size() - 1)) {
    const Node& other = nodes[table[slot] - 1];
    if (other.op != node.op || other.b != node.b) continue;
    if (listed ? std::ranges::equal(this->children(other), children)
               : other.a == node.a && other.min == node.min && other.max == node.max) {
      return table[slot] - 1;
    }
  }
  if (node.depth > kMaxDepth || (!deriving && nodes.size() > kMaxNodes)) {
    too_large = true;
    return kNoText;
  }
  const auto id = static_cast<Regex>(nodes.size());
  nodes.push_back(node);
  if (listed) {
    nodes.back().a = static_cast<uint32_t>(pool.size());
    pool.insert(pool.end(), children.begin(), children.end());
  }
  table[slot] = id + 1;
  if (nodes.size() * 2 > table.size()) {
    // The hash is not stored: rebuild by interning again.
    std::vector<uint32_t> larger(table.size() * 2);
    for (const uint32_t entry : table) {
      if (entry == 0) continue;
      const Node& old = nodes[entry - 1];
      uint64_t again = mix(static_cast<uint64_t>(old.op), old.b);
      if (old.op == Op::kUnion || old.op == Op::kIntersect) {
        for (const Regex child : this->children(old)) again = mix(again, child);
      } else {
        again = mix(again, uint64_t{old.a} << 32 | old.min);
        again = mix(again, old.max);
      }
      size_t to = again & (larger.size() - 1);
      while (larger[to] != 0) to = (to + 1) & (larger.size() - 1);
      larger[to] = entry;
    }
    table = std::move(larger);
  }
  return id;
}

Regex RegexArena::Impl::set(const CodePointSet& set) {
  if (set.empty()) return kNoText;
  uint64_t hash = 1;
  for (const CodeRange& range : set.ranges()) {
    hash = mix(hash, uint64_t{range.first} << 32 | range.last);
  }
  const auto [begin, end] = set_index.equal_range(hash);
  auto it = std::find_if(begin, end, [&](const auto& entry) { return sets[entry.second] == set; });
  if (it == end) {
    sets.push_back(set);
    it = set_index.emplace(hash, static_cast<uint32_t>(sets.size() - 1));
  }
  return intern({.op = Op::kSet, .depth = 1, .a = it->second});
}

Regex RegexArena::Impl::words(std::vector<std::string> texts) {
  std::erase_if(texts, [](const std::string& text) { return !text::is_valid_utf8(text); });
  std::ranges::sort(texts);
  texts.erase(std::ranges::unique(texts).begin(), texts.end());
  WordList list;
  list.begins.push_back(0);
  for (const std::string& text : texts) {
    list.bytes += text;
    list.begins.push_back(static_cast<uint32_t>(list.bytes.size()));
    list.lengths.push_back(count_characters(text));
    if (list.bytes.size() > UINT32_MAX / 2) {
      too_large = true;
      return kNoText;
    }
  }
  const uint64_t hash = mix(hash_bytes(list.bytes), texts.size());
  const auto [begin, end] = list_index.equal_range(hash);
  auto it = std::find_if(begin, end, [&](const auto& entry) {
    const WordList& other = lists[entry.second];
    return other.bytes == list.bytes && other.begins == list.begins;
  });
  if (it == end) {
    lists.push_back(std::move(list));
    it = list_index.emplace(hash, static_cast<uint32_t>(lists.size() - 1));
  }
  return word_range(it->second, 0, 0, static_cast<uint32_t>(texts.size()));
}

Regex RegexArena::Impl::word_range(uint32_t list, uint32_t depth, uint32_t begin, uint32_t end) {
  if (begin == end) return kNoText;
  const bool nullable = lists[list][begin].size() == depth;
  if (nullable && end - begin == 1) return kEmptyText;
  return intern({.op = Op::kWords,
                 .nullable = nullable,
                 .depth = 1,
                 .a = list,
                 .b = depth,
                 .min = begin,
                 .max = end});
}

RegexArena::Impl::Power RegexArena::Impl::power(Regex a) const {
  const Node& node = nodes[a];
  if (node.op == Op::kRepeat) return {node.a, node.min, node.max};
  return {a, 1, 1};
}

/// head is no kConcat.
Regex RegexArena::Impl::prepend(Regex head_part, Regex tail_part) {
  if (head_part == kNoText || tail_part == kNoText) return kNoText;
  if (head_part == kEmptyText) return tail_part;
  if (tail_part == kEmptyText) return head_part;
  const Power left = power(head_part);
  const Power right = power(head(tail_part));
  if (left.base == right.base) {
    const auto min = add_counts(left.min, right.min);
    const auto max = add_counts(left.max, right.max);
    if (min && max) return prepend(repeat(left.base, *min, *max), tail(tail_part));
  }
  const Node& a = nodes[head_part];
  const Node& b = nodes[tail_part];
  // Functions walk along the tail in a loop: only heads count.
  const int depth = std::max<int>(a.depth + 1, b.op == Op::kConcat ? b.depth : b.depth + 1);
  return intern({.op = Op::kConcat,
                 .nullable = a.nullable && b.nullable,
                 .positive = a.positive && b.positive,
                 .depth = static_cast<uint16_t>(depth),
                 .a = head_part,
                 .b = tail_part});
}

Regex RegexArena::Impl::concat(Regex a, Regex b) {
  if (nodes[a].op != Op::kConcat) return prepend(a, b);
  if (a == kNoText || b == kNoText) return kNoText;
  std::vector<Regex> heads;
  for (; nodes[a].op == Op::kConcat; a = nodes[a].b) heads.push_back(nodes[a].a);
  Regex out = concat(a, b);
  for (auto it = heads.rbegin(); it != heads.rend(); ++it) out = prepend(*it, out);
  return out;
}

/// Joins repeats of the same factor before the same rest where their counts touch.
void RegexArena::Impl::join_powers(std::vector<Regex>& parts) {
  if (parts.size() < 2) return;
  struct Item {
    Regex base;
    Regex rest;
    uint32_t min;
    uint32_t max;
    Regex whole;
  };
  std::vector<Item> items;
  items.reserve(parts.size());
  bool repeats = false;
  for (const Regex part : parts) {
    const Power p = power(head(part));
    repeats = repeats || p.base != head(part);
    items.push_back({p.base, tail(part), p.min, p.max, part});
  }
  if (!repeats) return;
  std::ranges::sort(items, [](const Item& a, const Item& b) {
    return std::tie(a.base, a.rest, a.min, a.max) < std::tie(b.base, b.rest, b.min, b.max);
  });
  parts.clear();
  for (size_t i = 0; i < items.size();) {
    Item item = items[i++];
    bool joined = false;
    for (; i < items.size() && items[i].base == item.base && items[i].rest == item.rest &&
           (item.max == kUnbounded || items[i].min <= item.max + 1);
         ++i) {
      item.max = std::max(item.max, items[i].max);
      joined = true;
    }
    parts.push_back(joined ? concat(repeat(item.base, item.min, item.max), item.rest) : item.whole);
  }
}

Regex RegexArena::Impl::unite(std::span<const Regex> parts) {
  bool epsilon = false;
  std::vector<Regex> flat;
  std::vector<Regex> stack(parts.rbegin(), parts.rend());
  std::optional<CodePointSet> joint_set;
  Regex first_set = kNoText;
  while (!stack.empty()) {
    const Regex part = stack.back();
    stack.pop_back();
    const Node& node = nodes[part];
    if (part == kNoText) continue;
    if (part == kAnyText) return kAnyText;
    if (part == kEmptyText) {
      epsilon = true;
    } else if (node.op == Op::kUnion) {
      const auto inner = children(node);
      stack.insert(stack.end(), inner.rbegin(), inner.rend());
    } else if (node.op == Op::kRepeat && node.min == 0 && node.max == 1) {
      epsilon = true;
      stack.push_back(node.a);
    } else if (node.op == Op::kSet) {
      if (first_set == kNoText) {
        first_set = part;
      } else if (part != first_set) {
        const CodePointSet& added = sets[node.a];
        joint_set = joint_set ? joint_set->unite(added) : sets[nodes[first_set].a].unite(added);
      }
    } else {
      flat.push_back(part);
    }
  }
  if (first_set != kNoText) flat.push_back(joint_set ? set(*joint_set) : first_set);
  const auto tidy = [&] {
    std::ranges::sort(flat);
    flat.erase(std::ranges::unique(flat).begin(), flat.end());
  };
  tidy();
  const size_t before = flat.size();
  join_powers(flat);
  tidy();
  if (flat.size() != before && std::ranges::binary_search(flat, kAnyText)) return kAnyText;
  bool positive = true;
  bool nullable = false;
  uint16_t depth = 0;
  for (const Regex part : flat) {
    const Node& node = nodes[part];
    positive = positive && node.positive;
    nullable = nullable || node.nullable;
    depth = std::max(depth, node.depth);
    // X | not X.
    if (node.op == Op::kNot && std::ranges::binary_search(flat, node.a)) return kAnyText;
  }
  Regex out = kNoText;
  if (flat.size() == 1) {
    out = flat.front();
  } else if (flat.size() > 1) {
    out = intern({.op = Op::kUnion,
                  .nullable = nullable,
                  .positive = positive,
                  .depth = static_cast<uint16_t>(depth + 1),
                  .b = static_cast<uint32_t>(flat.size())},
                 flat);
  }
  if (!epsilon || nullable) return out;
  return out == kNoText ? kEmptyText : repeat(out, 0, 1);
}

Regex RegexArena::Impl::intersect(std::span<const Regex> parts) {
  std::vector<Regex> flat;
  std::vector<Regex> stack(parts.rbegin(), parts.rend());
  std::optional<CodePointSet> joint_set;
  uint32_t min = 0;
  uint32_t max = kUnbounded;
  bool epsilon = false;
  while (!stack.empty()) {
    const Regex part = stack.back();
    stack.pop_back();
    const Node& node = nodes[part];
    if (part == kNoText) return kNoText;
    if (part == kEmptyText) {
      epsilon = true;
    } else if (part == kOneCharacter) {
      min = std::max<uint32_t>(min, 1);
      max = std::min<uint32_t>(max, 1);
    } else if (node.op == Op::kRepeat && node.a == kOneCharacter) {
      min = std::max(min, node.min);
      max = std::min(max, node.max);
    } else if (node.op == Op::kIntersect) {
      const auto inner = children(node);
      stack.insert(stack.end(), inner.rbegin(), inner.rend());
    } else if (node.op == Op::kSet) {
      joint_set = joint_set ? joint_set->intersect(sets[node.a]) : sets[node.a];
    } else {
      flat.push_back(part);
    }
  }
  if (min > max || (joint_set && (min > 1 || max < 1))) return kNoText;
  if (epsilon) {
    const bool nullable = min == 0 && !joint_set && std::ranges::all_of(flat, [&](Regex part) {
                            return nodes[part].nullable;
                          });
    return nullable ? kEmptyText : kNoText;
  }
  if (joint_set) {
    const Regex part = set(*joint_set);
    if (part == kNoText) return kNoText;
    flat.push_back(part);
  } else if (min != 0 || max != kUnbounded) {
    const Regex part = repeat(kOneCharacter, min, max);
    if (part == kEmptyText) {
      return std::ranges::all_of(flat, [&](Regex p) { return nodes[p].nullable; }) ? kEmptyText
                                                                                   : kNoText;
    }
    flat.push_back(part);
  }
  std::ranges::sort(flat);
  flat.erase(std::ranges::unique(flat).begin(), flat.end());
  if (flat.empty()) return kAnyText;
  if (flat.size() == 1) return flat.front();
  bool nullable = true;
  uint16_t depth = 0;
  Regex listed = kNoText;
  for (const Regex part : flat) {
    const Node& node = nodes[part];
    nullable = nullable && node.nullable;
    depth = std::max(depth, node.depth);
    if (node.op == Op::kNot && std::ranges::binary_search(flat, node.a)) return kNoText;
    if (node.op == Op::kWords) listed = part;
  }
  if (listed != kNoText && !deriving) {
    // Few texts: keep those that are in the other languages.
    const Node node = nodes[listed];
    std::vector<std::string> kept;
    for (uint32_t i = node.min; i < node.max; ++i) {
      std::string word(lists[node.a][i].substr(node.b));
      if (std::ranges::all_of(flat, [&](Regex p) { return p == listed || matches(p, word); })) {
        kept.push_back(std::move(word));
      }
    }
    return words(std::move(kept));
  }
  return intern({.op = Op::kIntersect,
                 .nullable = nullable,
                 .positive = false,
                 .depth = static_cast<uint16_t>(depth + 1),
                 .b = static_cast<uint32_t>(flat.size())},
                flat);
}

Regex RegexArena::Impl::complement(Regex a) {
  const Node node = nodes[a];
  if (a == kNoText) return kAnyText;
  if (a == kAnyText) return kNoText;
  if (node.op == Op::kNot) return node.a;
  const Power p = a == kEmptyText ? Power{kOneCharacter, 0, 0} : power(a);
  if (p.base == kOneCharacter) {
    const Regex shorter = p.min == 0 ? kNoText : repeat(kOneCharacter, 0, p.min - 1);
    const Regex longer =
        p.max == kUnbounded ? kNoText : repeat(kOneCharacter, p.max + 1, kUnbounded);
    const Regex both[] = {shorter, longer};
    return unite(both);
  }
  return intern({.op = Op::kNot,
                 .nullable = !node.nullable,
                 .positive = false,
                 .depth = static_cast<uint16_t>(node.depth + 1),
                 .a = a});
}

Regex RegexArena::Impl::repeat(Regex a, uint32_t min, uint32_t max) {
  if (min > max || (max != kUnbounded && max > kMaxCount) || min > kMaxCount) {
    too_large = too_large || min <= max;
    return kNoText;
  }
  if (max == 0) return kEmptyText;
  if (a == kNoText) return min == 0 ? kEmptyText : kNoText;
  if (a == kEmptyText) return kEmptyText;
  if (a == kAnyText) return kAnyText;
  if (nodes[a].nullable) min = 0;
  if (min == 1 && max == 1) return a;
  const Node node = nodes[a];
  if (node.op == Op::kRepeat) {
    if (min == 0 && max == 1 && node.min <= 1) return repeat(node.a, 0, node.max);
    // k times a X{p,q} is X{kp,kq}: the union over k is one repeat if nothing is left out between.
    const bool no_gap =
        min == max || (min == 0 ? node.min <= 1
                                : node.max == kUnbounded || (min + uint64_t{1}) * node.min <=
                                                                uint64_t{min} * node.max + 1);
    const auto new_min = multiply_counts(node.min, min);
    const auto new_max = multiply_counts(node.max, max);
    if (no_gap && new_min && new_max) return repeat(node.a, *new_min, *new_max);
  }
  return intern({.op = Op::kRepeat,
                 .nullable = min == 0 || node.nullable,
                 .positive = node.positive,
                 .depth = static_cast<uint16_t>(node.depth + 1),
                 .a = a,
                 .min = min,
                 .max = max});
}

/// The texts of a whose first or last character is in the set. Stays free of intersections, which
/// would have to be explored, wherever a is.
Regex RegexArena::Impl::restrict_end(Regex a, const CodePointSet& allowed, bool first) {
  const Node node = nodes[a];
  switch (node.op) {
    case Op::kNone:
    case Op::kEpsilon:
      return kNoText;
    case Op::kSet:
      return set(sets[node.a].intersect(allowed));
    case Op::kConcat: {
      // One part is restricted; those between it and the end are empty.
      std::vector<Regex> heads;
      for (Regex at = a; at != kEmptyText; at = tail(at)) heads.push_back(head(at));
      std::vector<Regex> choices;
      if (first) {
        Regex at = a;
        for (const Regex part : heads) {
          choices.push_back(concat(restrict_end(part, allowed, first), tail(at)));
          at = tail(at);
          if (!nodes[part].nullable) break;
        }
        return unite(choices);
      }
      size_t end = heads.size();
      while (end > 1 && nodes[heads[end - 1]].nullable) --end;
      for (size_t i = end - 1; i < heads.size(); ++i) {
        Regex choice = restrict_end(heads[i], allowed, first);
        for (size_t k = i; k > 0; --k) choice = prepend(heads[k - 1], choice);
        choices.push_back(choice);
      }
      return unite(choices);
    }
    case Op::kUnion: {
      std::vector<Regex> choices;
      for (uint32_t i = 0; i < node.b; ++i) {
        choices.push_back(restrict_end(pool[node.a + i], allowed, first));
      }
      return unite(choices);
    }
    case Op::kRepeat: {
      const Regex end = restrict_end(node.a, allowed, first);
      const Regex rest = repeat(node.a, node.min == 0 ? 0 : node.min - 1,
                                node.max == kUnbounded ? kUnbounded : node.max - 1);
      return first ? concat(end, rest) : concat(rest, end);
    }
    case Op::kIntersect: {
      std::vector<Regex> parts;
      for (uint32_t i = 0; i < node.b; ++i) parts.push_back(pool[node.a + i]);
      parts.front() = restrict_end(parts.front(), allowed, first);
      return intersect(parts);
    }
    case Op::kWords:
    case Op::kNot:
      break;
  }
  const Regex character = set(allowed);
  const Regex parts[] = {a, first ? concat(character, kAnyText) : concat(kAnyText, character)};
  return intersect(parts);
}

bool RegexArena::Impl::matches(Regex a, std::string_view utf8) {
  for (size_t at = 0; at < utf8.size();) {
    const text::Utf8Char read = text::read_utf8(utf8, at);
    if (read.kind != text::Utf8Char::Kind::kValid) return false;
    a = derive(a, read.code);
    if (a == kNoText) return false;
    at += static_cast<size_t>(read.length);
  }
  return nodes[a].nullable;
}

bool RegexArena::exhausted() const { return impl_->too_large; }

void RegexArena::limit_single_explorations() { impl_->total_limited = false; }

RegexArena::RegexArena() : impl_(std::make_unique<Impl>()) {}
RegexArena::~RegexArena() = default;

Regex RegexArena::literal(std::string_view utf8) { return impl_->words({std::string(utf8)}); }
Regex RegexArena::words(std::vector<std::string> texts) { return impl_->words(std::move(texts)); }
Regex RegexArena::characters(const CodePointSet& set) { return impl_->set(set); }
Regex RegexArena::concat(Regex a, Regex b) { return impl_->concat(a, b); }
Regex RegexArena::concat(std::span<const Regex> parts) {
  Regex out = kEmptyText;
  for (auto it = parts.rbegin(); it != parts.rend(); ++it) out = impl_->concat(*it, out);
  return out;
}
Regex RegexArena::unite(Regex a, Regex b) {
  const Regex parts[] = {a, b};
  return impl_->unite(parts);
}
Regex RegexArena::unite(std::span<const Regex> parts) { return impl_->unite(parts); }
Regex RegexArena::intersect(Regex a, Regex b) {
  const Regex parts[] = {a, b};
  return impl_->intersect(parts);
}
Regex RegexArena::intersect(std::span<const Regex> parts) { return impl_->intersect(parts); }
Regex RegexArena::complement(Regex a) { return impl_->complement(a); }
Regex RegexArena::repeat(Regex a, uint32_t min, uint32_t max) { return impl_->repeat(a, min, max); }
Regex RegexArena::begin_with(Regex a, const CodePointSet& set) {
  return impl_->restrict_end(a, set, true);
}
Regex RegexArena::end_with(Regex a, const CodePointSet& set) {
  return impl_->restrict_end(a, set, false);
}
bool RegexArena::accepts(Regex a) const { return impl_->nodes[a].nullable; }
bool RegexArena::matches(Regex a, std::string_view utf8) { return impl_->matches(a, utf8); }
bool RegexArena::positive(Regex a) const { return impl_->nodes[a].positive; }

}  // namespace chimere::constraints
