// What one pass over a vocabulary of logits finds.
#ifndef CHIMERE_SAMPLING_LOGIT_SCAN_H_
#define CHIMERE_SAMPLING_LOGIT_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace chimere::sampling {

/// A token and its score: a logit or a log-probability, as the function says.
struct Candidate {
  float value = 0;
  int32_t id = 0;

  /// Larger first, ties to the lower id.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  }
};

/// The logits are cut into strands of at most kBlock, each with every kInterleave-th of kInterleave
/// * kBlock neighbours: strand s has the ids first(s), first(s) + kInterleave, ..., which are
/// maxima of whole vectors. Few strands hold a large logit, and nobody has to look at the others
/// again.
struct LogitScan {
  static constexpr size_t kInterleave = 16;
  static constexpr size_t kBlock = 64;

  Candidate largest;   ///< {+infinity, -1} if a logit is that or no number; id -1: all masked
  int64_t masked = 0;  ///< logits at -infinity
  std::vector<float> maxima;  ///< of the strands; those that would begin behind the end are masked

  static size_t first(size_t block) {
    return block / kInterleave * kInterleave * kBlock + block % kInterleave;
  }
};

/// Fills in `out`, whose memory is used again.
void scan_logits(std::span<const float> logits, LogitScan& out);

/// The k largest logits in order (fewer if the vocabulary has fewer); `of`: their survey, without
/// errors. Tokens at -infinity are masked and never appear.
std::vector<Candidate> select_largest(std::span<const float> logits, const LogitScan& of,
                                      int64_t k);

/// The largest logit. Errors: kInvalidData if one is NaN or +infinity, or if all are -infinity.
Result<Candidate> find_largest(std::span<const float> logits);
/// The same of a survey.
Result<Candidate> find_largest(const LogitScan& scan_logits);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_LOGIT_SCAN_H_
