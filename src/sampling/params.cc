#include "sampling/params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/settings.h"

namespace chimere::sampling {
namespace {

Error out_of_range(std::string_view name, std::string_view range) {
  return invalid_argument("The sampling value " + std::string(name) + " must be " +
                          std::string(range) + ".");
}

template <typename T>
Status check_range(const SettingInfo& setting, T value) {
  // False for NaN. In the value's own precision, in which the bounds are values too.
  bool within = static_cast<T>(setting.min) <= value && value <= static_cast<T>(setting.max);
  if (!setting.choices.empty()) {
    within = within &&
             std::ranges::find(setting.choices, std::to_string(value)) != setting.choices.end();
  }
  if (within) return {};
  return out_of_range(setting.name, settings::range_text(setting));
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

SamplingParams params_from(const Settings& settings) {
  SamplingParams p;
  p.order.clear();
  std::string_view names = settings.get(settings::kSamplers);
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(';'));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    if (const auto sampler = parse_sampler(name)) p.order.push_back(*sampler);
  }
#define SAMPLING_OPTION(id, type, member, ...) \
  p.member = static_cast<type>(settings.get(settings::id));
#define DRY_OPTION(id, type, member, ...) \
  p.dry.member = static_cast<type>(settings.get(settings::id));
#include "base/settings.def"
  return p;
}

Status validate(const SamplingParams& p) {
#define SAMPLING_OPTION(id, type, member, ...) \
  CHIMERE_CHECK_OK(check_range(settings::id, p.member));
#define DRY_OPTION(id, type, member, ...) CHIMERE_CHECK_OK(check_range(settings::id, p.dry.member));
#include "base/settings.def"
  // Below 0.001, dividing by the temperature only amplifies rounding; greedy decoding has its own
  // value.
  const bool warm = 0.001F <= p.temperature && p.temperature <= 100;
  if (p.temperature != 0 && !warm) return out_of_range("temp", "0 (greedy) or from 0.001 to 100");
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
