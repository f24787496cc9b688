#include "sampling/params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace chimere::sampling {
namespace {

struct Range {
  const char* name;
  float value;
  float min;
  float max;
  const char* text;
};

Error out_of_range(const char* name, const char* range) {
  return invalid_argument(std::string("The sampling value ") + name + " must be " + range + ".");
}

}  // namespace

std::optional<SamplerType> parse_sampler(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, SamplerType>, 10> kSamplers = {
      {{"penalties", SamplerType::kPenalties},
       {"dry", SamplerType::kDry},
       {"top_n_sigma", SamplerType::kTopNSigma},
       {"top_k", SamplerType::kTopK},
       {"typ_p", SamplerType::kTypical},
       {"typical", SamplerType::kTypical},
       {"top_p", SamplerType::kTopP},
       {"min_p", SamplerType::kMinP},
       {"xtc", SamplerType::kXtc},
       {"temperature", SamplerType::kTemperature}}};
  const auto* it =
      std::ranges::find(kSamplers, name, &std::pair<std::string_view, SamplerType>::first);
  if (it == kSamplers.end()) return std::nullopt;
  return it->second;
}

Status validate(const SamplingParams& p) {
  const std::array<Range, 15> ranges = {{
      {"repeat-penalty", p.repeat_penalty, 0.01F, 10, "from 0.01 to 10"},
      {"frequency-penalty", p.frequency_penalty, -10, 10, "from -10 to 10"},
      {"presence-penalty", p.presence_penalty, -10, 10, "from -10 to 10"},
      {"dry-multiplier", p.dry.multiplier, 0, 100, "from 0 to 100"},
      {"dry-base", p.dry.base, 0, 100, "from 0 to 100"},
      {"top-nsigma", p.top_n_sigma, -1, 1000, "from -1 to 1000"},
      {"typical", p.typical, 1e-6F, 1, "from 0.000001 to 1"},
      {"top-p", p.top_p, 1e-6F, 1, "from 0.000001 to 1"},
      {"min-p", p.min_p, 0, 1, "from 0 to 1"},
      {"xtc-probability", p.xtc_probability, 0, 1, "from 0 to 1"},
      {"xtc-threshold", p.xtc_threshold, 0, 1, "from 0 to 1"},
      {"dynatemp-range", p.dynatemp_range, 0, 100, "from 0 to 100"},
      {"dynatemp-exp", p.dynatemp_exponent, 0, 100, "from 0 to 100"},
      {"mirostat-ent", p.mirostat_tau, 0, 100, "from 0 to 100"},
      {"mirostat-lr", p.mirostat_eta, 0, 10, "from 0 to 10"},
  }};
  for (const Range& r : ranges) {
    // False for NaN.
    const bool within = r.min <= r.value && r.value <= r.max;
    if (!within) return out_of_range(r.name, r.text);
  }
  // Below 0.001, dividing by the temperature only amplifies rounding; greedy decoding has its own
  // value.
  const bool warm = 0.001F <= p.temperature && p.temperature <= 100;
  if (p.temperature != 0 && !warm) return out_of_range("temp", "0 (greedy) or from 0.001 to 100");
  if (p.penalty_window < -1) return out_of_range("repeat-last-n", "-1 (everything), 0 or more");
  if (p.dry.window < -1) return out_of_range("dry-penalty-last-n", "-1 (everything), 0 or more");
  if (p.dry.allowed_length < 0) return out_of_range("dry-allowed-length", "0 or more");
  if (p.top_k < 0) return out_of_range("top-k", "0 (all) or more");
  if (p.mirostat != 0 && p.mirostat != 2) return out_of_range("mirostat", "0 (off) or 2");
  if (p.logprobs < -1 || p.logprobs > 1000) {
    return out_of_range("logprobs", "-1 (none) or from 0 to 1000");
  }
  for (const LogitBias& b : p.logit_bias) {
    const bool usable = b.id >= 0 && b.bias < std::numeric_limits<float>::infinity();
    if (!usable) return out_of_range("logit-bias", "a token id with a number or -inf");
  }
  return {};
}

}  // namespace chimere::sampling
