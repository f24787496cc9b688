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

  /// Applies to the tokens of the last `penalty_window` positions (prompt and generation): a
  /// positive logit is divided by `repeat_penalty`, a negative one multiplied by it (Keskar et al.
  /// 2019, arXiv:1909.05858); then count * frequency_penalty + presence_penalty is subtracted.
  float repeat_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  int32_t penalty_window = 64;  ///< 0: none; -1: the whole sequence

  DryParams dry;

  /// Keeps logits within n standard deviations of the largest (Tang et al. 2024,
  /// arXiv:2411.07641); <= 0: all.
  float top_n_sigma = -1;
  int32_t top_k = 0;  ///< keeps the k most likely tokens; 0: all
  /// Keeps the tokens whose negative log-likelihood is closest to the entropy until their
  /// probabilities exceed this sum (Meister et al. 2022, arXiv:2202.00666); 1: all.
  float typical = 1;
  float top_p = 1;  ///< keeps the fewest most likely tokens whose probabilities reach it
  float min_p = 0;  ///< keeps the tokens at least this likely relative to the first

  /// With probability `xtc_probability`, all tokens with a probability of `xtc_threshold` or more
  /// are removed except the least likely of them. A threshold above 0.5 disables XTC.
  float xtc_probability = 0;
  float xtc_threshold = 0.1F;

  float temperature = 0;  ///< 0: greedy
  /// With a range r > 0 the temperature varies from max(0, temperature - r) to temperature + r with
  /// (entropy / maximum entropy)^exponent.
  float dynatemp_range = 0;
  float dynatemp_exponent = 1;

  /// 0: off; 2: Mirostat 2 (Basu et al. 2021, arXiv:2007.14966) replaces every sampler except
  /// penalties, DRY and temperature, which run in this order. Tokens with a negative log-likelihood
  /// above mu bits are removed; mu starts at 2 tau and decreases by eta * (negative log-likelihood
  /// of the chosen token - tau).
  int32_t mirostat = 0;
  float mirostat_tau = 5;
  float mirostat_eta = 0.1F;

  uint64_t seed = 0;

  /// Log-probabilities to report: -1: none, 0: the chosen token's, N: also those of the N most
  /// likely tokens.
  int32_t logprobs = -1;
};

/// Errors: kInvalidArgument, naming the value and its range.
Status validate(const SamplingParams& params);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_PARAMS_H_
