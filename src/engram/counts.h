// What a memory has counted: which tokens followed which contexts, how often, when, and where.
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
/// Unless somebody says otherwise.
inline constexpr int kDefaultOrder = 5;
/// Token ids are below it.
inline constexpr uint32_t kMaxTokens = 1U << 24;
/// Weights are fixed-point numbers: this is one occurrence.
inline constexpr uint32_t kOne = 256;

/// A token that followed a context. Written to disk as it is (docs/engram-format.md).
struct Successor {
  uint32_t token = 0;
  uint32_t weight = 0;  ///< occurrences, in 1 / kOne; saturates
  uint16_t day = 0;     ///< days since 1970-01-01 of the latest occurrence
  uint16_t source = 0;  ///< index of the text it was last seen in
  /// Distinct tokens that stood before the context in front of this token; 0 where the table has no
  /// longer context. Derived from the entries of the next order by Counts::finish().
  uint32_t left = 0;
};
static_assert(sizeof(Successor) == 16);

/// A context, as the end of a path: `token` stands before the context `parent`. The root is the
/// empty context. Written to disk as it is.
struct Node {
  uint32_t parent = 0;
  uint32_t token = 0;
  uint32_t first = 0;  ///< of its successors; they end where those of the next node begin
  float total = 0;     ///< sum of its successors' counts (see Counts::count), derived
};
static_assert(sizeof(Node) == 16);

/// Discounts of successors seen once, twice, and more often.
struct Discounts {
  float once = 0.5F;
  float twice = 1;
  float more = 1.5F;

  /// What is taken from a count; a part of an occurrence loses its part.
  float of(float count) const;
};

/// Where occurrences come from.
struct Occurrence {
  std::string source;
  uint16_t day = 0;        ///< since 1970-01-01
  uint32_t weight = kOne;  ///< of one occurrence
};

/// What a file holds of a Counts; see its accessors.
struct Parts {
  int order = 0;
  uint16_t as_of = 0;
  std::vector<uint32_t> levels;
  std::vector<Node> nodes;
  std::vector<Successor> successors;
  std::vector<std::string> sources;
};

/// N-grams of all orders up to order(): a trie of contexts, read from the latest token backwards.
/// The nodes of each level are sorted by (parent, token), the successors of each by (weight
/// descending, token), so that equal counts are equal bytes. A value; not for use by several
/// threads while one changes it.
class Counts {
 public:
  /// Nothing counted. 1 <= order <= kMaxOrder.
  explicit Counts(int order);

  /// Counts every token of the documents behind the up to `order` tokens of its document that stand
  /// before it. Errors: kInvalidArgument (tokens out of range), kOutOfMemory (more than 2^32 - 2
  /// tokens).
  static Result<Counts> of(std::span<const std::vector<int32_t>> documents, int order,
                           const Occurrence& occurrence);

  /// Adopts what a file says. Errors: kInvalidData if it breaks the order described above or any
  /// index is out of range.
  static Result<Counts> from_parts(Parts parts);

  /// Both together: weights add, the later day and its source stay. Neither order nor grouping
  /// matters. The order is the larger one. Errors: kOutOfMemory (more than 2^32 - 2 entries, 2^16
  /// sources).
  static Result<Counts> merged(const Counts& a, const Counts& b);

  /// What is left on a day: entries not refreshed for 30 days have half their weight, those of 90
  /// days are gone. The stored weights stay as they are, so that nothing is lost by looking twice:
  /// see weight_on(). Entries of the future count as today's.
  Counts decayed(uint16_t today) const;
  /// Without entries of less than `minimum` (in 1 / kOne) behind contexts of `from_order` tokens or
  /// more.
  Counts pruned(uint32_t minimum, int from_order) const;

  int order() const { return parts_.order; }
  /// First node of level k at [k], and at [order() + 1] their number; the root is alone at level 0.
  std::span<const uint32_t> levels() const { return parts_.levels; }
  /// One more than there are contexts: the last marks the end of the successors.
  std::span<const Node> nodes() const { return parts_.nodes; }
  std::span<const Successor> successors() const { return parts_.successors; }
  std::span<const Successor> successors_of(uint32_t node) const;
  const std::vector<std::string>& sources() const { return parts_.sources; }
  /// Of the counts of each level (Chen and Goodman 1999, modified Kneser-Ney), order() + 1 of them.
  std::span<const Discounts> discounts() const { return discounts_; }
  /// The day that weights are told for, since 1970-01-01; 0: they do not fade.
  uint16_t as_of() const { return parts_.as_of; }

 private:
  explicit Counts(Parts parts);

  /// Keeps the successors that `keep` accepts, and contexts that have successors or longer
  /// contexts.
  template <typename Keep>
  Counts filtered(const Keep& keep) const;
  /// Everything that is derived: left extensions, totals, discounts.
  void finish();
  void count_left_extensions();
  void estimate_discounts();
  Status check() const;

  Parts parts_;
  std::vector<Discounts> discounts_;
};

/// The weight of an entry on a day; a table that was not decayed has as_of 0 and keeps its weights.
uint32_t weight_on(const Successor& entry, uint16_t as_of);

/// What Kneser-Ney counts: at the highest order occurrences, below it how many different tokens
/// stood before the context (1 where none did: at the beginning of a text).
float count_of(const Successor& entry, bool highest, uint16_t as_of);

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_COUNTS_H_
