// Merges two tries level by level. The nodes of a level are sorted by (parent, token) and stay
// sorted when parents are renumbered.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "engram/counts.h"

namespace chimere::engram {
namespace {

/// The later day wins, then the source whose name comes first.
void add(Successor& into, const Successor& other, const std::vector<std::string>& sources) {
  into.weight =
      static_cast<uint32_t>(std::min<uint64_t>(uint64_t{into.weight} + other.weight, UINT32_MAX));
  const auto name = [&](const Successor& s) {
    return s.source < sources.size() ? std::string_view(sources[s.source]) : std::string_view();
  };
  if (other.day > into.day || (other.day == into.day && name(other) < name(into))) {
    into.source = other.source;
  }
  into.day = std::max(into.day, other.day);
}

class Merger {
 public:
  Merger(const Counts& a, const Counts& b) : inputs_{Input{&a, {}, {}}, Input{&b, {}, {}}} {
    out_.order = std::max(a.order(), b.order());
    out_.as_of = std::max(a.as_of(), b.as_of());
  }

  Result<Parts> run() {
    CHIMERE_CHECK_OK(join_sources());
    for (Input& in : inputs_) in.renamed.assign(in.counts->nodes().size() - 1, 0);
    for (int level = 0; level <= out_.order; ++level) {
      out_.levels.push_back(static_cast<uint32_t>(out_.nodes.size()));
      CHIMERE_CHECK_OK(merge_level(level));
    }
    out_.levels.push_back(static_cast<uint32_t>(out_.nodes.size()));
    out_.nodes.push_back({0, 0, static_cast<uint32_t>(out_.successors.size()), 0});
    return std::move(out_);
  }

 private:
  struct Input {
    const Counts* counts;
    std::vector<uint32_t> renamed;  ///< node -> node of the result
    std::vector<uint16_t> sources;  ///< source -> source of the result
  };

  Status join_sources() {
    // Sorted, so that the result does not depend on the order of the arguments.
    for (const Input& in : inputs_)
      out_.sources.insert(out_.sources.end(), in.counts->sources().begin(),
                          in.counts->sources().end());
    std::ranges::sort(out_.sources);
    const auto rest = std::ranges::unique(out_.sources);
    out_.sources.erase(rest.begin(), rest.end());
    if (out_.sources.size() > UINT16_MAX) {
      return out_of_memory("A table holds at most 65,535 source names; use fewer (--source).");
    }
    for (Input& in : inputs_) {
      for (const std::string& name : in.counts->sources()) {
        const auto place = std::ranges::lower_bound(out_.sources, name);
        in.sources.push_back(static_cast<uint16_t>(place - out_.sources.begin()));
      }
    }
    return {};
  }

  Status merge_level(int level) {
    struct Range {
      uint32_t at = 0;
      uint32_t end = 0;
    };
    std::array<Range, 2> range;
    for (size_t i = 0; i < 2; ++i) {
      const Counts& c = *inputs_[i].counts;
      if (level > c.order()) continue;
      const auto l = static_cast<size_t>(level);
      range[i] = {c.levels()[l], c.levels()[l + 1]};
    }
    const auto key = [&](size_t i) {
      const Node& node = inputs_[i].counts->nodes()[range[i].at];
      return std::pair(level == 0 ? 0 : inputs_[i].renamed[node.parent], node.token);
    };
    while (range[0].at < range[0].end || range[1].at < range[1].end) {
      std::array<bool, 2> has = {range[0].at < range[0].end, range[1].at < range[1].end};
      if (has[0] && has[1]) {
        const auto x = key(0);
        const auto y = key(1);
        has = {x <= y, y <= x};
      }
      const auto place = static_cast<uint32_t>(out_.nodes.size());
      const auto [parent, token] = key(has[0] ? 0 : 1);
      out_.nodes.push_back({parent, token, static_cast<uint32_t>(out_.successors.size()), 0});
      for (size_t i = 0; i < 2; ++i) {
        if (!has[i]) continue;
        gather(inputs_[i], range[i].at);
        inputs_[i].renamed[range[i].at++] = place;
      }
      flush();
      if (out_.successors.size() > UINT32_MAX - 2) {
        return out_of_memory("A table holds at most 2^32 - 2 entries; prune the tables first.");
      }
    }
    return {};
  }

  void gather(const Input& in, uint32_t node) {
    for (Successor s : in.counts->successors_of(node)) {
      s.source = s.source < in.sources.size() ? in.sources[s.source] : uint16_t{0};
      entries_.push_back(s);
    }
  }

  void flush() {
    std::ranges::sort(entries_, {}, &Successor::token);
    const auto begin = static_cast<std::ptrdiff_t>(out_.successors.size());
    for (const Successor& s : entries_) {
      const bool again = static_cast<std::ptrdiff_t>(out_.successors.size()) > begin &&
                         out_.successors.back().token == s.token;
      if (again) {
        add(out_.successors.back(), s, out_.sources);
      } else {
        out_.successors.push_back(s);
      }
    }
    std::stable_sort(out_.successors.begin() + begin, out_.successors.end(),
                     [](const Successor& x, const Successor& y) { return x.weight > y.weight; });
    entries_.clear();
  }

  std::array<Input, 2> inputs_;
  Parts out_;
  std::vector<Successor> entries_;
};

}  // namespace

Result<Counts> Counts::merged(const Counts& a, const Counts& b) {
  CHIMERE_TRY(Parts parts, Merger(a, b).run());
  Counts out(std::move(parts));
  out.finish();
  return out;
}

}  // namespace chimere::engram
