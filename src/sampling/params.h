// Sampling parameters of a request. Names, defaults and neutral values are those of llama.cpp where
// it has the setting; docs/sampling.md lists the differences.
#ifndef CHIMERE_SAMPLING_PARAMS_H_
#define CHIMERE_SAMPLING_PARAMS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sampling/auxiliary_lm.h"
#include "sampling/dry.h"

namespace chimere {
class Settings;
}  // namespace chimere

namespace chimere::sampling {

/// A member of the sampler chain; each works on the tokens that the previous ones left.
enum class SamplerType {
  kPenalties,
  kDry,
  kTopNSigma,
  kTopK,
  kTypical,
  kTopP,
  kMinP,
  kXtc,
  kTemperature,
};

/// "penalties", "dry", "top_n_sigma", "top_k", "typ_p" (or "typical"), "top_p", "min_p", "xtc",
/// "temperature".
std::optional<SamplerType> parse_sampler(std::string_view name);

/// Added to a token's logit before all samplers; -infinity bans the token.
struct LogitBias {
  int32_t id = 0;
  float bias = 0;
};

/// The defaults are greedy decoding. Probabilities are those of the softmax over the remaining
/// tokens, of logits / temperature after the temperature sampler has run.
struct SamplingParams {
  /// Mixed into the model's distribution before everything below; may be empty. Reported
  /// log-probabilities and entropy are those of the mixture.
  std::shared_ptr<AuxiliaryLm> auxiliary;

  std::vector<SamplerType> order = {
      SamplerType::kPenalties, SamplerType::kDry,     SamplerType::kTopNSigma,
      SamplerType::kTopK,      SamplerType::kTypical, SamplerType::kTopP,
      SamplerType::kMinP,      SamplerType::kXtc,     SamplerType::kTemperature};
  std::vector<LogitBias> logit_bias;

  DryParams dry;

  // The options of base/settings.def, at their neutral values.
#define SAMPLING_OPTION(id, type, member, neutral, ...) type member = neutral;
#include "base/settings.def"

  uint64_t seed = 0;

  /// Log-probabilities to report: -1: none, 0: the chosen token's, N: also those of the N most
  /// likely tokens.
  int32_t logprobs = -1;
};

/// The order of the samplers and the options of base/settings.def as the settings say; everything
/// else has its default.
SamplingParams params_from(const Settings& settings);

/// Errors: kInvalidArgument, naming the value and its range.
Status validate(const SamplingParams& params);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_PARAMS_H_
