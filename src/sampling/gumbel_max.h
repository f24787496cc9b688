// Gumbel-max sampling.
#ifndef CHIMERE_SAMPLING_GUMBEL_MAX_H_
#define CHIMERE_SAMPLING_GUMBEL_MAX_H_

#include <cstdint>
#include <span>

#include "sampling/log_softmax.h"

namespace chimere::sampling {

/// The parameters of a draw besides the logits.
struct Draw {
  uint64_t seed = 0;
  uint64_t position = 0;
  double scale = 1;  ///< 1 / temperature
};

/// The token with the largest scale * logit - ln(-ln u), u = uniform(seed, position, id): token i
/// wins with probability softmax(scale * logit)_i. The winner does not depend on the order of the
/// tokens; ties go to the lower id; tokens at -infinity never win. -1 if there is none.
int32_t gumbel_argmax(std::span<const Candidate> candidates, const Draw& draw);

/// The same over a whole vocabulary. `largest`: its largest logit. About 1 ms for 248k tokens:
/// random numbers are computed in blocks, and logarithms only for the few tokens that may win.
/// `set`: tokens outside it never win, and `largest` is one of it; empty: all tokens.
int32_t gumbel_argmax(std::span<const float> logits, const Candidate& largest, const Draw& draw,
                      kernels::TokenMask set = {});

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_GUMBEL_MAX_H_
