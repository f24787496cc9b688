// Changes to the logits of single tokens.
#ifndef CHIMERE_SAMPLING_LOGIT_ADJUSTMENT_H_
#define CHIMERE_SAMPLING_LOGIT_ADJUSTMENT_H_

#include <cstdint>

namespace chimere::sampling {

/// A positive logit is divided by `repeat`, another one multiplied by it; then `minus` is taken
/// away.
struct LogitAdjustment {
  int32_t id = 0;
  float repeat = 1;
  float minus = 0;

  float apply(float logit) const { return (logit > 0 ? logit / repeat : logit * repeat) - minus; }
};

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_LOGIT_ADJUSTMENT_H_
