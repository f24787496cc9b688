// Scaling of rotary positions, for contexts beyond the one that a model was first trained with.
#ifndef CHIMERE_MODEL_ROPE_SCALING_H_
#define CHIMERE_MODEL_ROPE_SCALING_H_

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/keys.h"
#include "model/rope_options.h"

namespace chimere::model {

/// Limits of what frequencies are divided by: far from any model (1 to some hundreds), and such
/// that angles stay in the range of the series of kernels/rope_angle.h.
inline constexpr float kMinRopeDivisor = 0x1p-4F;
inline constexpr float kMaxRopeDivisor = 0x1p20F;
/// Limits of what cosines and sines are multiplied by.
inline constexpr float kMinRopeMagnitude = 0x1p-4F;
inline constexpr float kMaxRopeMagnitude = 0x1p4F;

struct RopeScaling {
  RopeScalingType type = RopeScalingType::kNone;
  float factor = 1;  ///< by which contexts grow; for kDynamic what the user or the file gives, 1
  int original_context = 0;
  int64_t context = 0;  ///< longest sequence
  /// kYarn: frequencies that turn more than beta_fast times in the original context are not scaled,
  /// those that turn less than beta_slow times are, and between them the share is linear in the
  /// index.
  float beta_fast = 32;
  float beta_slow = 1;
  bool truncate = true;   ///< kYarn: the limits of that range are rounded to whole indices
  float ext_factor = 1;   ///< kYarn: share of it; the rest is linear scaling
  float attn_factor = 1;  ///< cosines and sines are multiplied by it, besides YaRN's own factor
  bool user = false;      ///< the user has set some of it, or the context decides

  /// Whether frequencies are divided.
  bool scales() const;
  /// kLongrope: whether the sequence is longer than the original context.
  bool is_long() const { return context > original_context; }
  /// Cosines and sines are multiplied by it: attn_factor, and for YaRN 1 + ln(factor) / 10.
  float magnitude() const;
};

/// Reads "rope.scaling.*", which check_rope_keys() has accepted, and what the user has set. Errors:
/// those of Keys; kUnsupported (YaRN without a factor), kInvalidArgument (what the user has set
/// contradicts itself).
Result<RopeScaling> read_rope_scaling(const Keys& keys);

/// [dims / 2] what the frequencies base^(-2 i / dims) are divided by; not for kLongrope, whose
/// divisors are tensors.
std::vector<float> rope_divisors(const RopeScaling& scaling, int dims, float base);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ROPE_SCALING_H_
