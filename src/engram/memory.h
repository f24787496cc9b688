// Tables in use: what they add to a model's next-token distribution.
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

/// Probability that the mixture takes from a table.
struct Share {
  uint32_t token = 0;
  float mass = 0;  ///< above 0
};

enum class Gating {
  kLearned,    ///< the table's own gate, or the default one
  kKneserNey,  ///< always, as much as Kneser-Ney says
};

/// The mixture, for each table in turn from its shortest known context to the longest:
///
///     p_0 = p_model,  p_k = (1 - g_k) p_(k-1) + g_k q_k
///
/// q_k is the context's discounted distribution (count - discount, normalised), g_k the gate's
/// share. With Gating::kKneserNey this is interpolated Kneser-Ney with the model in place of the
/// lowest order. In sum p = (1 - w) p_model + w p_table with w = 1 - prod (1 - g_k).
///
/// One reader of a growing text: it remembers how familiar the last tokens were, as a function of
/// the text alone, so that results do not depend on what was asked before. Not for two threads.
class Memory {
 public:
  using Tables = std::vector<std::shared_ptr<const Table>>;
  /// Most of the distribution that tables may take.
  static constexpr double kMaxWeight = 0.995;
  /// Shares below it change no generation.
  static constexpr double kMinMass = 1e-6;

  /// Errors: kInvalidData (a table's gate).
  static Result<Memory> create(Tables tables, Gating gating);

  /// Looks up the contexts at the end of the text. False: nothing is known there, and the model's
  /// distribution stays as it is. Errors: those of Table::find().
  Result<bool> look_up(std::span<const int32_t> history);
  /// Adds the successors that look_up() would find, which are all that mix() looks at. Changes
  /// nothing that look_up() and mix() see. Errors: those of Table::find().
  Status successors(std::span<const int32_t> history, std::vector<int32_t>& out);
  /// The shares of what look_up() found, each token once; their sum is w. Tokens that the model
  /// masks or does not have get none, and nothing is done for less than kMinMass.
  std::span<const Share> mix(const ModelPrediction& prediction);

  /// The most likely successor of the longest context that a table knows at the end of the text,
  /// with interpolated Kneser-Ney's probability for it (the shorter contexts' share left out).
  /// False if there is none. Changes nothing that look_up() and mix() see.
  Result<bool> likeliest(std::span<const int32_t> history, Share& out);

  /// What look_up() found in table `i`, shortest context first.
  std::span<const Evidence> evidence(size_t i) const { return readers_[i].found; }
  Familiarity familiarity(size_t i) const;
  size_t tables() const { return readers_.size(); }

 private:
  /// Tokens that familiarity looks back at.
  static constexpr size_t kWindow = 32;

  struct Reader {
    std::shared_ptr<const Table> table;
    Gate gate;
    std::vector<Evidence> found;  ///< behind the first `seen_` tokens, where `fresh_`
    std::array<Familiarity, kWindow> recent = {};  ///< of the token at position p, at [p % kWindow]
  };

  explicit Memory(std::vector<Reader> readers) : readers_(std::move(readers)) {}
  Status recall(std::span<const int32_t> history);

  std::vector<Reader> readers_;
  std::vector<int32_t> tail_;  ///< the tokens that `recent` speaks of and those before them
  size_t seen_ = 0;            ///< size of the text then
  bool fresh_ = false;         ///< look_up() has been called for these tokens
  std::vector<Share> shares_;
  std::vector<Evidence> asked_;  ///< here for its memory
  std::vector<uint32_t> place_;  ///< of a token in shares_, + 1; 0 between calls
};

/// The distribution that a context's counts stand for, after discounts: calls use(token, share)
/// with shares that sum up to 1 or, if discounts leave nothing, not at all.
template <typename Use>
void for_each_discounted(const Evidence& evidence, const Use& use) {
  if (evidence.left <= 0) return;
  for (const Counted& c : evidence.top) {
    if (c.left > 0) use(c.token, c.left / evidence.left);
  }
}

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_MEMORY_H_
