// What a request says about sampling. Names, defaults and neutral values are llama.cpp's where it
// has the setting; docs/sampling.md lists the differences.
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

/// A step of the chain; each works on the tokens that the ones before it left.
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

/// Added to a token's logit before everything else; -infinity forbids the token.
struct LogitBias {
  int32_t id = 0;
  float bias = 0;
};

/// The defaults take the most likely token. Probabilities are those of softmax over the tokens that
/// are left, of logits / temperature once the temperature has had its turn.
struct SamplingParams {
  /// Mixed into the model's distribution before everything below; may be empty. What is reported of
  /// the distribution (log-probabilities, entropy) is the mixture's.
  std::shared_ptr<AuxiliaryLm> auxiliary;

  std::vector<SamplerType> order = {
      SamplerType::kPenalties, SamplerType::kDry,     SamplerType::kTopNSigma,
      SamplerType::kTopK,      SamplerType::kTypical, SamplerType::kTopP,
      SamplerType::kMinP,      SamplerType::kXtc,     SamplerType::kTemperature};
  std::vector<LogitBias> logit_bias;

  /// Tokens of the last `penalty_window` positions (prompt and generation): a positive logit is
  /// divided by `repeat_penalty`, a negative one multiplied by it (Keskar et al. 2019,
  /// arXiv:1909.05858); then every logit loses count * frequency_penalty + presence_penalty.
  float repeat_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  int32_t penalty_window = 64;  ///< 0: none; -1: the whole sequence

  DryParams dry;

  float top_n_sigma = -1;  ///< keep logits within n standard deviations of the largest (Tang et
                           ///< al. 2024, arXiv:2411.07641); not above 0: all
  int32_t top_k = 0;       ///< keep the k most likely tokens; 0: all
  float typical = 1;       ///< keep the tokens whose surprise is closest to the entropy until their
                      ///< probabilities pass it (Meister et al. 2022, arXiv:2202.00666); 1: all
  float top_p = 1;  ///< keep the fewest most likely tokens whose probabilities reach it
  float min_p = 0;  ///< keep the tokens at least this likely relative to the first

  /// With `xtc_probability`, of the tokens with a probability of `xtc_threshold` or more only the
  /// least likely one stays. A threshold above 0.5 turns it off.
  float xtc_probability = 0;
  float xtc_threshold = 0.1F;

  float temperature = 0;  ///< 0 takes the most likely token
  /// With a range r > 0 the temperature goes from max(0, temperature - r) to temperature + r with
  /// (entropy / largest possible entropy)^exponent.
  float dynatemp_range = 0;
  float dynatemp_exponent = 1;

  /// 0: off; 2: Mirostat 2 (Basu et al. 2021, arXiv:2007.14966) takes the place of every stage but
  /// penalties, DRY and temperature, which run in this order. Tokens with a surprise of more than
  /// mu bits are cut; mu starts at 2 tau and goes down by eta * (surprise of the chosen token -
  /// tau).
  int32_t mirostat = 0;
  float mirostat_tau = 5;
  float mirostat_eta = 0.1F;

  uint64_t seed = 0;

  /// Log-probabilities to report: -1 none, 0 the chosen token's, N also those of the N most likely
  /// tokens.
  int32_t logprobs = -1;
};

/// Errors: kInvalidArgument, naming the value and its range.
Status validate(const SamplingParams& params);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_PARAMS_H_
