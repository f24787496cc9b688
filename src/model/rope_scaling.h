// Scaling of rotary positions, for contexts beyond the one that a model was first trained with.
#ifndef CHIMERE_MODEL_ROPE_SCALING_H_
#define CHIMERE_MODEL_ROPE_SCALING_H_

#include <vector>

#include "base/result.h"
#include "model/keys.h"

namespace chimere::model {

/// Limits of what frequencies are divided by: far from any model (1 to some hundreds), and such
/// that angles stay in the range of the series of kernels/rope_angle.h.
inline constexpr float kMinRopeDivisor = 0x1p-4F;
inline constexpr float kMaxRopeDivisor = 0x1p20F;

struct RopeScaling {
  float factor = 1;  ///< frequencies are divided by it; 1: they are not scaled
  /// YaRN (Peng et al. 2023, arXiv:2309.00071): frequencies that turn more than beta_fast times in
  /// the original context are not scaled, those that turn less than beta_slow times are, and
  /// between them the share is linear in the index.
  bool yarn = false;
  int original_context = 0;
  float beta_fast = 32;
  float beta_slow = 1;

  bool scales() const { return factor != 1; }
  /// Cosines and sines are multiplied by it: 1 without YaRN.
  float magnitude() const;
};

/// Reads "rope.scaling.*"; check_rope_keys() has accepted the file's. Errors: those of Keys;
/// kUnsupported (YaRN without a factor).
Result<RopeScaling> read_rope_scaling(const Keys& keys);

/// [dims / 2] what the frequencies base^(-2 i / dims) are divided by.
std::vector<float> rope_divisors(const RopeScaling& scaling, int dims, float base);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ROPE_SCALING_H_
