// What a choice needs of a row of logits, where it is less than all of them.
#ifndef CHIMERE_SAMPLING_PARTIAL_LOGITS_H_
#define CHIMERE_SAMPLING_PARTIAL_LOGITS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api.h"
#include "sampling/logit_scan.h"

namespace chimere::sampling {

/// A row of logits that lies elsewhere, as far as it is known.
struct PartialLogits {
  /// The largest logits of the tokens that are not listed, in order. Ids below 0 are places that no
  /// token was left for; a first one with +infinity stands for logits that are not numbers.
  std::span<const Candidate> largest;
  /// Tokens, each once, with their logits, which may be masked.
  std::span<const Candidate> selected = {};
  /// Of the whole row; nullptr: not known.
  const kernels::LogSumExp* sums = nullptr;
};

/// What an partial logits must have beside the tokens that Sampler::list() names.
struct Needed {
  int32_t largest = 0;  ///< 0: an partial logits is not enough, all logits are needed
  bool sums = false;

  friend bool operator==(const Needed&, const Needed&) = default;
};

/// The known tokens that are not masked, in order, in place of `out`; as PartialLogits::largest
/// where they are not numbers, or none.
void merge(const PartialLogits& partial_logits, std::vector<Candidate>& out);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_PARTIAL_LOGITS_H_
