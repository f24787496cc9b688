// Tables in use: mixes their predictions into a model's next-token distribution.
#ifndef CHIMERE_ENGRAM_MEMORY_H_
#define CHIMERE_ENGRAM_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engram/gate.h"
#include "engram/table.h"

namespace chimere::engram {

/// Probability mass that a token receives from the tables.
struct Share {
  uint32_t token = 0;
  float mass = 0;  ///< above 0
};

enum class Gating {
  kLearned,    ///< the table's own gate, or the default one
  kKneserNey,  ///< always the Kneser-Ney share
};

/// The mixture, for each table in turn from its shortest known context to the longest:
///
///     p_0 = p_model,  p_k = (1 - g_k) p_(k-1) + g_k q_k
///
/// q_k is the context's discounted distribution (count - discount, normalised), g_k the gate's
/// share. With Gating::kKneserNey this is interpolated Kneser-Ney with the model as the lowest
/// order. In total p = (1 - w) p_model + w p_table with w = 1 - prod (1 - g_k).
///
/// Reads one growing text. The familiarity of the last tokens is cached, but is a function of the
/// text alone, so that results do not depend on earlier calls. Not thread-safe.
class Memory {
 public:
  using Tables = std::vector<std::shared_ptr<const Table>>;
  /// Largest total weight w of the tables.
  static constexpr double kMaxWeight = 0.995;
  /// Masses below it are skipped.
  static constexpr double kMinMass = 1e-6;

  /// Errors: kInvalidData (a table's gate is malformed).
  static Result<Memory> create(Tables tables, Gating gating);

  /// Looks up the contexts at the end of the text. False: no context is known, and the model's
  /// distribution stays unchanged. Errors: those of Table::find().
  Result<bool> look_up(std::span<const int32_t> history);
  /// Appends the successors that look_up() would find: the only tokens whose logits mix() reads.
  /// Does not affect look_up() and mix(). Errors: those of Table::find().
  Status successors(std::span<const int32_t> history, std::vector<int32_t>& out);
  /// The masses for the contexts that look_up() found, each token once; their sum is w. Tokens that
  /// are masked or outside the vocabulary get none, and masses below kMinMass are skipped.
  std::span<const Share> mix(const ModelPrediction& prediction);

  /// The most likely successor of the longest context that a table knows at the end of the text,
  /// with its discounted probability (without the contribution of shorter contexts). False if there
  /// is none. Does not affect look_up() and mix().
  Result<bool> likeliest(std::span<const int32_t> history, Share& out);

  /// What look_up() found in table `i`, shortest context first.
  std::span<const Evidence> evidence(size_t i) const { return readers_[i].found; }
  Familiarity familiarity(size_t i) const;
  size_t tables() const { return readers_.size(); }

 private:
  /// Tokens that familiarity averages over.
  static constexpr size_t kWindow = 32;

  struct Reader {
    std::shared_ptr<const Table> table;
    Gate gate;
    std::vector<Evidence> found;  ///< after the first `seen_` tokens; valid if `fresh_`
    std::array<Familiarity, kWindow> recent = {};  ///< of the token at position p, at [p % kWindow]
  };

  explicit Memory(std::vector<Reader> readers) : readers_(std::move(readers)) {}
  Status update_familiarity(std::span<const int32_t> history);

  std::vector<Reader> readers_;
  std::vector<int32_t> tail_;  ///< the tokens that `recent` covers and their contexts
  size_t seen_ = 0;            ///< length of the text at that time
  bool fresh_ = false;         ///< Reader::found is valid for these tokens
  std::vector<Share> shares_;
  std::vector<Evidence> scratch_;
  std::vector<uint32_t> index_;  ///< index in shares_ of a token, + 1; 0 between calls
};

/// The discounted distribution of a context: calls use(token, share). The shares sum to 1; no call
/// is made if the discounts leave nothing.
template <typename Use>
void for_each_discounted(const Evidence& evidence, const Use& use) {
  if (evidence.left <= 0) return;
  for (const Counted& c : evidence.top) {
    if (c.left > 0) use(c.token, c.left / evidence.left);
  }
}

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_MEMORY_H_
