// The representation of expressions; private to regex*.cc.
#ifndef CHIMERE_CONSTRAINTS_REGEX_IMPL_H_
#define CHIMERE_CONSTRAINTS_REGEX_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraints/regex.h"

namespace chimere::constraints {

// The expressions that every arena begins with.
inline constexpr Regex kNoText = 0;
inline constexpr Regex kEmptyText = 1;
inline constexpr Regex kAnyText = 2;
inline constexpr Regex kOneCharacter = 3;

/// Texts in the order of their bytes, which is that of their characters.
struct WordList {
  std::string bytes;
  std::vector<uint32_t> begins;   ///< of each text, and the end
  std::vector<uint32_t> lengths;  ///< in characters

  size_t size() const { return lengths.size(); }
  std::string_view operator[](size_t i) const {
    return std::string_view(bytes).substr(begins[i], begins[i + 1] - begins[i]);
  }
};

struct RegexArena::Impl {
  enum class Op : uint8_t {
    kNone,
    kEpsilon,
    kSet,        ///< a: index of the set
    kWords,      ///< a: index of the list; b: bytes read; the texts min to max (excluded)
    kConcat,     ///< a: not a kConcat; b
    kUnion,      ///< a: first child in children; b: number
    kIntersect,  ///< a: first child in children; b: number
    kNot,        ///< a
    kRepeat,     ///< a; min, max
  };
  struct Node {
    Op op = Op::kNone;
    bool nullable = false;
    bool positive = true;  ///< neither intersection nor complement inside
    uint16_t depth = 0;    ///< of the recursion of functions over it
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t min = 0;
    uint32_t max = 0;
  };
  /// Deeper expressions are refused.
  static constexpr uint16_t kMaxDepth = 2'000;
  /// Nodes that constructors may create.
  static constexpr size_t kMaxNodes = 2'000'000;
  static constexpr uint64_t kUnknown = UINT64_MAX - 1;
  static constexpr uint64_t kEmpty = UINT64_MAX;

  Impl();

  // regex.cc: construction.
  Regex intern(const Node& node, std::span<const Regex> children = {});
  Regex set(const CodePointSet& set);
  Regex words(std::vector<std::string> texts);
  Regex word_range(uint32_t list, uint32_t depth, uint32_t begin, uint32_t end);
  Regex concat(Regex a, Regex b);
  Regex prepend(Regex head, Regex tail);
  Regex unite(std::span<const Regex> parts);
  Regex intersect(std::span<const Regex> parts);
  Regex complement(Regex a);
  Regex repeat(Regex a, uint32_t min, uint32_t max);
  bool matches(Regex a, std::string_view utf8);
  Regex restrict_end(Regex a, const CodePointSet& allowed, bool first);
  /// The factor that a repeat repeats, and how often.
  struct Power {
    Regex base;
    uint32_t min;
    uint32_t max;
  };
  Power power(Regex a) const;
  void join_powers(std::vector<Regex>& parts);
  std::span<const Regex> children(const Node& node) const {
    return std::span(pool).subspan(node.a, node.b);
  }
  Regex head(Regex a) const { return nodes[a].op == Op::kConcat ? nodes[a].a : a; }
  Regex tail(Regex a) const { return nodes[a].op == Op::kConcat ? nodes[a].b : 1; }

  // regex_derive.cc: derivatives.
  Regex derive(Regex a, uint32_t code);
  Regex derive_node(Regex a, uint32_t code);
  Regex derive_words(const Node& node, uint32_t code);
  void compute_segments(Regex a);
  std::span<const Segment> segments(Regex a);

  // regex_explore.cc: emptiness and lengths.
  Status explore(Regex a);
  Status prepare(Regex a);
  uint64_t shortest(Regex a);
  std::optional<uint64_t> shortest_in_window(const Node& node);
  std::optional<LengthSet> lengths(Regex a);
  std::optional<LengthSet> compute_lengths(Regex a);
  std::optional<uint64_t> longest_way(Regex a);
  uint64_t fingerprint(Regex a);
  uint64_t compute_fingerprint(const Node& node);

  std::vector<Node> nodes;
  std::vector<Regex> pool;      ///< children of unions and intersections
  std::vector<uint32_t> table;  ///< open addressing; node + 1
  std::vector<CodePointSet> sets;
  std::unordered_multimap<uint64_t, uint32_t> set_index;
  std::vector<WordList> lists;
  std::unordered_multimap<uint64_t, uint32_t> list_index;

  std::unordered_map<std::string, Regex> parsed;  ///< by 's' or 'f' (search or full) and pattern

  // Memoised per node; as long as the largest id asked for.
  struct SegmentRange {
    uint32_t begin = 0;
    uint32_t count = 0;
  };
  std::vector<SegmentRange> segment_range;
  std::vector<Segment> segment_pool;
  std::vector<uint64_t> shortest_of;
  std::vector<uint64_t> fingerprints;  ///< 0: not known
  std::vector<uint64_t> list_fingerprints;
  std::unordered_map<Regex, std::optional<LengthSet>> lengths_of;

  // derive() marks what it has computed in this pass.
  std::vector<std::pair<uint32_t, Regex>> derived;
  uint32_t pass = 0;
  bool deriving = false;
  uint64_t work = 0;          ///< steps of derivatives computed so far
  uint64_t explored = 0;      ///< of these, in explorations
  bool total_limited = true;  ///< `explored` has a limit

  bool too_large = false;  ///< a constructor gave up; its results are meaningless
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_REGEX_IMPL_H_
