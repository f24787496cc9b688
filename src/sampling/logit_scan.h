// One pass over a vocabulary of logits: the largest logit and block maxima.
#ifndef CHIMERE_SAMPLING_LOGIT_SCAN_H_
#define CHIMERE_SAMPLING_LOGIT_SCAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"

namespace chimere::sampling {

/// A token and its score: a logit or a log-probability, as the function says.
struct Candidate {
  float value = 0;
  int32_t id = 0;

  /// Larger values first, ties to the lower id.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  }
};

/// The logits are divided into interleaved blocks of at most kBlock: each kInterleave * kBlock
/// neighbouring logits form kInterleave blocks, and block b consists of the ids first(b), first(b)
/// + kInterleave, ..., so that block maxima are element-wise maxima of whole vectors. Few blocks
/// contain a large logit, and later passes skip all the others.
struct LogitScan {
  static constexpr size_t kInterleave = 16;
  static constexpr size_t kBlock = 64;

  Candidate largest;   ///< {+infinity, -1} if a logit is NaN or +infinity; id -1: all masked
  int64_t masked = 0;  ///< logits at -infinity
  /// Of the blocks; -infinity for blocks beyond the end.
  std::vector<float> maxima;
  std::vector<float> scratch;  ///< of select_largest()

  static size_t first(size_t block) {
    return block / kInterleave * kInterleave * kBlock + block % kInterleave;
  }
  /// Calls visit(id) for the ids of a block, ascending. `size`: of the vocabulary.
  template <typename Visit>
  static void for_each(size_t block, size_t size, const Visit& visit) {
    const size_t from = first(block);
    const size_t end = std::min(size, from + kInterleave * (kBlock - 1) + 1);
    for (size_t id = from; id < end; id += kInterleave) visit(id);
  }
};

/// Fills `out`, reusing its memory.
void scan_logits(std::span<const float> logits, LogitScan& out);
/// The scan of the same logits with those of tokens outside `set` at -infinity, without writing
/// them. Those must be no NaN or +infinity either.
void scan_logits(std::span<const float> logits, kernels::TokenMask set, LogitScan& out);

/// Fills `kept` with the k largest logits, sorted (fewer if the vocabulary is smaller). `of`: the
/// scan of `logits`, without errors. Tokens at -infinity are masked and never returned. `set`: the
/// tokens that the scan was restricted to; empty: all.
void select_largest(std::span<const float> logits, LogitScan& of, int64_t k,
                    std::vector<Candidate>& kept, kernels::TokenMask set = {});

/// The largest logit. Errors: kInvalidData if one is NaN or +infinity, or if all are -infinity.
Result<Candidate> find_largest(std::span<const float> logits);
/// The same from a scan.
Result<Candidate> find_largest(const LogitScan& scan);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_LOGIT_SCAN_H_
