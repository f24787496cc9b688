// A row of logits of which only a part was copied from the GPU.
#ifndef CHIMERE_SAMPLING_PARTIAL_LOGITS_H_
#define CHIMERE_SAMPLING_PARTIAL_LOGITS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api.h"
#include "sampling/logit_scan.h"

namespace chimere::sampling {

/// The known part of a row of logits.
struct PartialLogits {
  /// The largest logits of the tokens outside `selected`, sorted. Ids below 0 are unused places; a
  /// first one with +infinity reports logits that are NaN or +infinity.
  std::span<const Candidate> largest;
  /// Requested tokens, each once, with their logits, which may be masked.
  std::span<const Candidate> selected = {};
  /// Log-sum-exp statistics of the whole row; nullptr: not requested.
  const kernels::LogSumExp* sums = nullptr;
};

/// What partial logits must contain besides the tokens of Sampler::selected_ids().
struct Needed {
  int32_t largest = 0;  ///< 0: partial logits are not sufficient; the whole row is needed
  bool sums = false;

  friend bool operator==(const Needed&, const Needed&) = default;
};

/// Writes the known unmasked tokens to `out`, sorted. If the logits are NaN or +infinity, or if
/// there are none, `out` is PartialLogits::largest.
void merge(const PartialLogits& partial_logits, std::vector<Candidate>& out);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_PARTIAL_LOGITS_H_
