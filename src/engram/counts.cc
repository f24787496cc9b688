#include "engram/counts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace chimere::engram {
namespace {

constexpr int kHalfAfterDays = 30;
constexpr int kGoneAfterDays = 90;

bool heavier(const Successor& a, const Successor& b) {
  return a.weight > b.weight || (a.weight == b.weight && a.token < b.token);
}

}  // namespace

float Discounts::of(float count) const {
  if (count < 1) return once * count;
  return count < 1.5F ? once : count < 2.5F ? twice : more;
}

uint32_t weight_on(const Successor& entry, uint16_t as_of) {
  const int age = static_cast<int>(as_of) - entry.day;
  if (as_of == 0 || age < kHalfAfterDays) return entry.weight;
  return age < kGoneAfterDays ? entry.weight / 2 : 0;
}

float count_of(const Successor& entry, bool highest, uint16_t as_of) {
  if (!highest) return static_cast<float>(std::max<uint32_t>(1, entry.left));
  return static_cast<float>(weight_on(entry, as_of)) / static_cast<float>(kOne);
}

Counts::Counts(int order)
    : parts_{order,
             0,
             std::vector<uint32_t>(static_cast<size_t>(order) + 2, 1),
             std::vector<Node>(2),
             {},
             {}},
      discounts_(static_cast<size_t>(order) + 1) {
  parts_.levels[0] = 0;
}

Counts::Counts(Parts parts)
    : parts_(std::move(parts)), discounts_(static_cast<size_t>(parts_.order) + 1) {}

std::span<const Successor> Counts::successors_of(uint32_t node) const {
  return std::span(parts_.successors)
      .subspan(parts_.nodes[node].first, parts_.nodes[node + 1].first - parts_.nodes[node].first);
}

Result<Counts> Counts::from_parts(Parts parts) {
  if (parts.order < 1 || parts.order > kMaxOrder) {
    return invalid_data("The table's order is " + std::to_string(parts.order) +
                        "; orders go from 1 to " + std::to_string(kMaxOrder) + ".");
  }
  Counts out(std::move(parts));
  CHIMERE_CHECK_OK(out.check());
  out.finish();
  return out;
}

Status Counts::check() const {
  const auto broken = [](const char* what) {
    return invalid_data(std::string("The table is damaged: ") + what +
                        "; build it again from its texts.");
  };
  const size_t n = parts_.nodes.size() - 1;
  if (parts_.nodes.size() < 2 || parts_.levels.size() != static_cast<size_t>(parts_.order) + 2 ||
      parts_.levels[0] != 0 || parts_.levels[1] != 1 || parts_.levels.back() != n ||
      !std::ranges::is_sorted(parts_.levels)) {
    return broken("its levels are inconsistent");
  }
  // Checked before any entry is read: an index in the middle could be out of range.
  if (parts_.nodes[0].first != 0 || parts_.nodes[n].first != parts_.successors.size() ||
      !std::ranges::is_sorted(parts_.nodes, {}, &Node::first)) {
    return broken("entries without a context");
  }
  for (size_t level = 0; level < parts_.levels.size() - 1; ++level) {
    for (uint32_t i = parts_.levels[level]; i < parts_.levels[level + 1]; ++i) {
      const Node& node = parts_.nodes[i];
      if (!std::ranges::is_sorted(successors_of(i), heavier) ||
          std::ranges::any_of(successors_of(i), [&](const Successor& s) {
            return s.token >= kMaxTokens || (s.source != 0 && s.source >= parts_.sources.size());
          })) {
        return broken("entries are out of order or out of range");
      }
      if (level == 0) continue;
      if (node.token >= kMaxTokens || node.parent < parts_.levels[level - 1] ||
          node.parent >= parts_.levels[level]) {
        return broken("a context has no parent");
      }
      if (i > parts_.levels[level] &&
          std::pair(parts_.nodes[i - 1].parent, parts_.nodes[i - 1].token) >=
              std::pair(node.parent, node.token)) {
        return broken("contexts are out of order");
      }
    }
  }
  return {};
}

template <typename Keep>
Counts Counts::filtered(const Keep& keep) const {
  const size_t n = parts_.nodes.size() - 1;
  // From the longest contexts down: contexts that a longer one needs stay.
  std::vector<uint8_t> needed(n, 0);
  needed[0] = 1;
  for (size_t level = parts_.levels.size() - 1; level-- > 0;) {
    for (uint32_t i = parts_.levels[level]; i < parts_.levels[level + 1]; ++i) {
      const bool some = std::ranges::any_of(
          successors_of(i), [&](const Successor& s) { return keep(s, static_cast<int>(level)); });
      if (some) needed[i] = 1;
      if (needed[i] != 0) needed[parts_.nodes[i].parent] = 1;
    }
  }
  Counts out(parts_.order);
  out.parts_.sources = parts_.sources;
  out.parts_.nodes.clear();
  std::vector<uint32_t> renamed(n, 0);
  for (size_t level = 0; level + 1 < parts_.levels.size(); ++level) {
    out.parts_.levels[level] = static_cast<uint32_t>(out.parts_.nodes.size());
    for (uint32_t i = parts_.levels[level]; i < parts_.levels[level + 1]; ++i) {
      if (needed[i] == 0) continue;
      renamed[i] = static_cast<uint32_t>(out.parts_.nodes.size());
      out.parts_.nodes.push_back({renamed[parts_.nodes[i].parent], parts_.nodes[i].token,
                                  static_cast<uint32_t>(out.parts_.successors.size()), 0});
      for (const Successor& s : successors_of(i)) {
        if (keep(s, static_cast<int>(level))) out.parts_.successors.push_back(s);
      }
    }
  }
  out.parts_.levels.back() = static_cast<uint32_t>(out.parts_.nodes.size());
  out.parts_.nodes.push_back({0, 0, static_cast<uint32_t>(out.parts_.successors.size()), 0});
  out.parts_.as_of = parts_.as_of;
  return out;
}

Counts Counts::decayed(uint16_t today) const {
  Counts out = filtered([&](const Successor& s, int) { return weight_on(s, today) > 0; });
  out.parts_.as_of = today;
  out.finish();
  return out;
}

Counts Counts::pruned(uint32_t minimum, int from_order) const {
  Counts out = filtered([&](const Successor& s, int level) {
    return level < from_order || weight_on(s, parts_.as_of) >= minimum;
  });
  out.finish();
  return out;
}

void Counts::finish() {
  count_left_extensions();
  estimate_discounts();
  for (size_t level = 0; level + 1 < parts_.levels.size(); ++level) {
    const bool highest = level == static_cast<size_t>(parts_.order);
    for (uint32_t i = parts_.levels[level]; i < parts_.levels[level + 1]; ++i) {
      double total = 0;
      for (const Successor& s : successors_of(i))
        total += static_cast<double>(count_of(s, highest, parts_.as_of));
      parts_.nodes[i].total = static_cast<float>(total);
    }
  }
}

void Counts::count_left_extensions() {
  for (Successor& s : parts_.successors) s.left = 0;
  uint32_t largest = 0;
  for (const Successor& s : parts_.successors) largest = std::max(largest, s.token);
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> place(parts_.successors.empty() ? 0 : largest + 1, kNone);
  // The longer contexts of a node are adjacent.
  for (size_t level = 1; level + 1 < parts_.levels.size(); ++level) {
    for (uint32_t i = parts_.levels[level]; i < parts_.levels[level + 1];) {
      const uint32_t parent = parts_.nodes[i].parent;
      const uint32_t begin = parts_.nodes[parent].first;
      const uint32_t end = parts_.nodes[parent + 1].first;
      for (uint32_t s = begin; s < end; ++s) place[parts_.successors[s].token] = s;
      for (; i < parts_.levels[level + 1] && parts_.nodes[i].parent == parent; ++i) {
        for (const Successor& s : successors_of(i)) {
          if (place[s.token] != kNone) ++parts_.successors[place[s.token]].left;
        }
      }
      for (uint32_t s = begin; s < end; ++s) place[parts_.successors[s].token] = kNone;
    }
  }
}

void Counts::estimate_discounts() {
  for (size_t level = 0; level + 1 < parts_.levels.size(); ++level) {
    std::array<double, 5> having = {};  // number of entries with a count of 1 to 4
    const bool highest = level == static_cast<size_t>(parts_.order);
    for (uint32_t i = parts_.nodes[parts_.levels[level]].first;
         i < parts_.nodes[parts_.levels[level + 1]].first; ++i) {
      const float count = count_of(parts_.successors[i], highest, parts_.as_of);
      if (count >= 1 && count < 4.5F) ++having[static_cast<size_t>(std::lround(count))];
    }
    Discounts& d = discounts_[level];
    d = {};
    if (std::ranges::any_of(having.begin() + 1, having.end(), [](double n) { return n == 0; })) {
      continue;  // too few entries for an estimate
    }
    const double y = having[1] / (having[1] + 2 * having[2]);
    const auto within = [](double value, double most) {
      return static_cast<float>(std::clamp(value, 0.05, most));
    };
    d.once = within(1 - 2 * y * having[2] / having[1], 0.95);
    d.twice = within(2 - 3 * y * having[3] / having[2], 1.9);
    d.more = within(3 - 4 * y * having[4] / having[3], 2.85);
  }
}

}  // namespace chimere::engram
