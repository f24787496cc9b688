// What a user sets about rotary positions, in place of a model file's keys.
#ifndef CHIMERE_MODEL_ROPE_OPTIONS_H_
#define CHIMERE_MODEL_ROPE_OPTIONS_H_

#include <cstdint>
#include <optional>

namespace chimere::model {

/// How rotary positions are scaled, for contexts beyond the one that a model was first trained
/// with.
enum class RopeScalingType : uint8_t {
  kNone,
  kLinear,    ///< positions are divided by a factor (Chen et al. 2023, arXiv:2306.15595)
  kYarn,      ///< by a factor that depends on the frequency (Peng et al. 2023, arXiv:2309.00071)
  kNtk,       ///< the base grows, so that the slowest frequency is divided by the factor
  kDynamic,   ///< the same, by as much as the context exceeds the original one
  kLongrope,  ///< by a factor for each frequency (Ding et al. 2024, arXiv:2402.13753)
};

/// Members without a value are as the file says.
struct RopeOptions {
  std::optional<RopeScalingType> type = {};
  std::optional<float> factor = {};     ///< by which contexts grow
  std::optional<float> freq_base = {};  ///< base of the frequencies
  std::optional<int> original_context = {};
  std::optional<float> ext_factor = {};   ///< of kYarn: how much of it is applied, 0 to 1
  std::optional<float> attn_factor = {};  ///< cosines and sines are multiplied by it
  std::optional<float> beta_fast = {};    ///< of kYarn
  std::optional<float> beta_slow = {};
  /// Longest sequence, on which kDynamic and kLongrope depend; 0: the model's context length.
  int64_t context = 0;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ROPE_OPTIONS_H_
