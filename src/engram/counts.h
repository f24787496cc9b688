// N-gram counts: the tokens that followed each context, with their weight, day and source.
#ifndef CHIMERE_ENGRAM_COUNTS_H_
#define CHIMERE_ENGRAM_COUNTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace chimere::engram {

/// Longest context, in tokens.
inline constexpr int kMaxOrder = 8;
/// Order of a new table unless the caller chooses another.
inline constexpr int kDefaultOrder = 5;
/// Upper bound of token ids (exclusive).
inline constexpr uint32_t kMaxTokens = 1U << 24;
/// Weights are fixed-point numbers; kOne is one occurrence.
inline constexpr uint32_t kOne = 256;

/// A token that followed a context. Stored on disk as is (docs/engram-format.md).
struct Successor {
  uint32_t token = 0;
  uint32_t weight = 0;  ///< occurrences in units of 1 / kOne; saturates
  uint16_t day = 0;     ///< latest occurrence, in days since 1970-01-01
  uint16_t source = 0;  ///< index of the source it was last seen in
  /// Number of distinct tokens that preceded the context followed by this token; 0 at the highest
  /// order. Derived from the entries of the next order by Counts::finish().
  uint32_t left = 0;
};
static_assert(sizeof(Successor) == 16);

/// A context as a path in a trie: `token` precedes the context `parent`. The root is the empty
/// context. Stored on disk as is.
struct Node {
  uint32_t parent = 0;
  uint32_t token = 0;
  uint32_t first = 0;  ///< index of its first successor; its range ends at `first` of the next node
  float total = 0;     ///< sum of its successors' counts (see count_of()), derived
};
static_assert(sizeof(Node) == 16);

/// Kneser-Ney discounts of successors seen once, twice, and more often.
struct Discounts {
  float once = 0.5F;
  float twice = 1;
  float more = 1.5F;

  /// The discount of a count; fractional counts are discounted proportionally.
  float of(float count) const;
};

/// Source, day and weight of the occurrences that are counted.
struct Occurrence {
  std::string source;
  uint16_t day = 0;        ///< since 1970-01-01
  uint32_t weight = kOne;  ///< of one occurrence
};

/// The stored parts of a Counts; see its accessors.
struct Parts {
  int order = 0;
  uint16_t as_of = 0;
  std::vector<uint32_t> levels;
  std::vector<Node> nodes;
  std::vector<Successor> successors;
  std::vector<std::string> sources;
};

/// N-grams of all orders up to order(): a trie of contexts, read from the latest token backwards.
/// The nodes of each level are sorted by (parent, token), the successors of a node by (weight
/// descending, token), so that equal counts are equal bytes. A value type without internal
/// synchronisation.
class Counts {
 public:
  /// Empty counts. 1 <= order <= kMaxOrder.
  explicit Counts(int order);

  /// Counts every token after each of its contexts: up to `order` preceding tokens of the same
  /// document. Errors: kInvalidArgument (tokens out of range), kOutOfMemory (more than 2^32 - 2
  /// tokens).
  static Result<Counts> of(std::span<const std::vector<int32_t>> documents, int order,
                           const Occurrence& occurrence);

  /// Adopts parts read from a file. Errors: kInvalidData if the sort order described above is
  /// violated or an index is out of range.
  static Result<Counts> from_parts(Parts parts);

  /// The sum of both: weights add up, the later day and its source win. Commutative and
  /// associative; the order is the larger one. Errors: kOutOfMemory (more than 2^32 - 2 entries or
  /// 2^16 sources).
  static Result<Counts> merged(const Counts& a, const Counts& b);

  /// The counts as of a day: entries older than 30 days have half their weight, entries older than
  /// 90 days are removed. The stored weights are unchanged, so that decaying twice loses nothing:
  /// see weight_on(). Entries dated in the future count as today's.
  Counts decayed(uint16_t today) const;
  /// Without entries of weight below `minimum` (in 1 / kOne) in contexts of at least `from_order`
  /// tokens.
  Counts pruned(uint32_t minimum, int from_order) const;

  int order() const { return parts_.order; }
  /// levels()[k] is the first node of level k; levels()[order() + 1] is the number of nodes. Level
  /// 0 is the root alone.
  std::span<const uint32_t> levels() const { return parts_.levels; }
  /// One more than there are contexts: the last one is a sentinel that marks the end of the
  /// successors.
  std::span<const Node> nodes() const { return parts_.nodes; }
  std::span<const Successor> successors() const { return parts_.successors; }
  std::span<const Successor> successors_of(uint32_t node) const;
  const std::vector<std::string>& sources() const { return parts_.sources; }
  /// Modified Kneser-Ney discounts (Chen and Goodman 1999) per level, order() + 1 of them.
  std::span<const Discounts> discounts() const { return discounts_; }
  /// The day that weights are computed for, since 1970-01-01; 0: no decay.
  uint16_t as_of() const { return parts_.as_of; }

 private:
  explicit Counts(Parts parts);

  /// Keeps the successors that `keep` accepts, and the contexts that have successors or longer
  /// contexts.
  template <typename Keep>
  Counts filtered(const Keep& keep) const;
  /// Computes everything derived: left extensions, totals, discounts.
  void finish();
  void count_left_extensions();
  void estimate_discounts();
  Status check() const;

  Parts parts_;
  std::vector<Discounts> discounts_;
};

/// The weight of an entry on day `as_of`; with as_of 0 (never decayed) its stored weight.
uint32_t weight_on(const Successor& entry, uint16_t as_of);

/// The Kneser-Ney count: occurrences at the highest order, below it the number of distinct tokens
/// that preceded the context (1 if there were none: at the beginning of a text).
float count_of(const Successor& entry, bool highest, uint16_t as_of);

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_COUNTS_H_
