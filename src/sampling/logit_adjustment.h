// Changes to the logits of individual tokens.
#ifndef CHIMERE_SAMPLING_LOGIT_ADJUSTMENT_H_
#define CHIMERE_SAMPLING_LOGIT_ADJUSTMENT_H_

#include <cstdint>

namespace chimere::sampling {

/// Divides a positive logit by `repeat` and multiplies any other by it; then subtracts `minus`.
struct LogitAdjustment {
  int32_t id = 0;
  float repeat = 1;
  float minus = 0;

  float apply(float logit) const { return (logit > 0 ? logit / repeat : logit * repeat) - minus; }
};

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_LOGIT_ADJUSTMENT_H_
