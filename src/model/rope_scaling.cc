#include "model/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

namespace chimere::model {
namespace {

/// The index of the frequency that turns `turns` times in the original context.
double index_of_turns(const RopeScaling& s, int dims, float base, double turns) {
  const double wavelength = s.original_context / (turns * 2 * std::numbers::pi);
  return dims * std::log(wavelength) / (2 * std::log(base));
}

std::vector<float> yarn_divisors(const RopeScaling& scaling, int dims, float base) {
  std::vector<float> divisors(static_cast<size_t>(dims) / 2);
  const double last = dims - 1;
  double low = index_of_turns(scaling, dims, base, scaling.beta_fast);
  double high = index_of_turns(scaling, dims, base, scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(0.0, low);
  high = std::min(last, high);
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double past = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double kept = (1 - std::clamp(past, 0.0, 1.0)) * scaling.ext_factor;
    divisors[i] = static_cast<float>(1 / (kept + (1 - kept) / scaling.factor));
  }
  return divisors;
}

/// The base becomes base * growth^(dims / (dims - 2)): frequency i is divided by growth^(2 i /
/// (dims
/// - 2)), the last one by growth.
std::vector<float> ntk_divisors(double growth, int dims) {
  std::vector<float> divisors(static_cast<size_t>(dims) / 2, 1.0F);
  for (size_t i = 1; i < divisors.size(); ++i) {
    divisors[i] =
        static_cast<float>(std::pow(growth, 2 * static_cast<double>(i) / std::max(1, dims - 2)));
  }
  return divisors;
}

/// By how much a context needs the frequencies of kDynamic to be slower.
double dynamic_growth(const RopeScaling& s) {
  const double ratio = static_cast<double>(s.context) / s.original_context;
  return std::max(1.0, s.factor * ratio - (s.factor - 1));
}

Result<RopeScalingType> type_of_file(const Keys& keys) {
  // Files from before "scaling.type" existed scale linearly.
  if (!keys.has("rope.scaling.type")) return RopeScalingType::kLinear;
  CHIMERE_TRY(const std::string type, keys.file().get_string(keys.name("rope.scaling.type")));
  if (type == "yarn") return RopeScalingType::kYarn;
  if (type == "longrope") return RopeScalingType::kLongrope;
  return type == "linear" ? RopeScalingType::kLinear : RopeScalingType::kNone;
}

/// What the file says.
Result<RopeScaling> scaling_of_file(const Keys& keys) {
  RopeScaling s;
  constexpr int kMost = std::numeric_limits<int>::max();
  CHIMERE_TRY(s.type, type_of_file(keys));
  CHIMERE_TRY(const int context, keys.integer("context_length", 1, kMost));
  s.context = context;
  CHIMERE_TRY(s.original_context,
              keys.integer_or("rope.scaling.original_context_length", context, 1, kMost));
  if (s.type == RopeScalingType::kNone) return s;
  for (const char* key : {"rope.scale_linear", "rope.scaling.factor"}) {
    CHIMERE_TRY(s.factor, keys.multiplier_or(key, s.factor));
  }
  for (const char* key : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"}) {
    CHIMERE_TRY(const float factor, keys.multiplier_or(key, 1));
    s.attn_factor *= factor;
  }
  if (s.type != RopeScalingType::kYarn) return s;
  if (!keys.has("rope.scaling.factor")) {
    return unsupported(keys.name("rope.scaling.type") + " is yarn, but the file lacks " +
                       keys.name("rope.scaling.factor"));
  }
  CHIMERE_TRY(s.beta_fast, keys.positive_or("rope.scaling.yarn_beta_fast", s.beta_fast));
  CHIMERE_TRY(s.beta_slow, keys.positive_or("rope.scaling.yarn_beta_slow", s.beta_slow));
  if (keys.has("rope.scaling.yarn_truncate")) {
    CHIMERE_TRY(s.truncate, keys.file().get_bool(keys.name("rope.scaling.yarn_truncate")));
  }
  return s;
}

/// What a user may set, with its flag.
Status check(const RopeOptions& o) {
  struct Limit {
    const char* flag;
    const std::optional<float>& value;
    float min;
    float max;
  };
  const Limit limits[] = {
      {"--rope-scale", o.factor, kMinRopeDivisor, kMaxRopeDivisor},
      {"--rope-freq-base", o.freq_base, 1.001F, 1e12F},
      {"--yarn-ext-factor", o.ext_factor, 0, 1},
      {"--yarn-attn-factor", o.attn_factor, kMinRopeMagnitude, kMaxRopeMagnitude},
      {"--yarn-beta-fast", o.beta_fast, 1e-3F, kMaxRopeDivisor},
      {"--yarn-beta-slow", o.beta_slow, 1e-3F, kMaxRopeDivisor},
  };
  for (const Limit& limit : limits) {
    if (!limit.value || (*limit.value >= limit.min && *limit.value <= limit.max)) continue;
    return invalid_argument(std::string(limit.flag) + " is " + std::to_string(*limit.value) +
                            "; it must be from " + std::to_string(limit.min) + " to " +
                            std::to_string(limit.max));
  }
  if (o.original_context && *o.original_context < 1) {
    return invalid_argument("--yarn-orig-ctx must be positive");
  }
  return {};
}

}  // namespace

bool RopeScaling::scales() const {
  switch (type) {
    case RopeScalingType::kNone:
      return false;
    case RopeScalingType::kDynamic:
      return dynamic_growth(*this) > 1;
    case RopeScalingType::kLongrope:
      return true;
    default:
      return factor != 1;
  }
}

float RopeScaling::magnitude() const {
  const bool grows = type == RopeScalingType::kYarn && factor > 1 && ext_factor > 0;
  return attn_factor * (grows ? 1 + 0.1F * std::log(factor) : 1.0F);
}

Result<RopeScaling> read_rope_scaling(const Keys& keys) {
  const RopeOptions& set = keys.rope();
  CHIMERE_CHECK_OK(check(set));
  CHIMERE_TRY(RopeScaling s, scaling_of_file(keys));
  if (set.type && *set.type != s.type) {
    if (*set.type == RopeScalingType::kLongrope) {
      return invalid_argument(
          "--rope-scaling longrope needs a file with factors for each frequency, and this file is "
          "not one; use yarn");
    }
    // Keys of another scaling say nothing about this one.
    s.type = *set.type;
    s.factor = 1;
    s.attn_factor = 1;
    s.truncate = true;
  }
  if (set.factor) s.factor = *set.factor;
  if (set.original_context) s.original_context = *set.original_context;
  if (set.ext_factor) s.ext_factor = *set.ext_factor;
  if (set.attn_factor) s.attn_factor = *set.attn_factor;
  if (set.beta_fast) s.beta_fast = *set.beta_fast;
  if (set.beta_slow) s.beta_slow = *set.beta_slow;
  if (set.context > 0) s.context = set.context;
  const bool by_context =
      s.type == RopeScalingType::kDynamic || s.type == RopeScalingType::kLongrope;
  s.user = by_context || set.type || set.factor || set.original_context || set.ext_factor ||
           set.attn_factor || set.beta_fast || set.beta_slow;
  if (s.user && !set.type && s.type == RopeScalingType::kNone) {
    return invalid_argument(
        "rotary positions of this file are not scaled: set --rope-scaling, too");
  }
  const bool grows = s.type == RopeScalingType::kLinear || s.type == RopeScalingType::kYarn ||
                     s.type == RopeScalingType::kNtk;
  if (set.type && grows && s.factor == 1 && !set.factor) {
    if (s.context <= s.original_context) {
      return invalid_argument(
          "--rope-scaling needs --rope-scale, the factor by which the context grows, or a --ctx "
          "above the " +
          std::to_string(s.original_context) + " tokens of the original one");
    }
    s.factor = static_cast<float>(static_cast<double>(s.context) / s.original_context);
  }
  return s;
}

std::vector<float> rope_divisors(const RopeScaling& scaling, int dims, float base) {
  switch (scaling.type) {
    case RopeScalingType::kYarn:
      return yarn_divisors(scaling, dims, base);
    case RopeScalingType::kNtk:
      return ntk_divisors(scaling.factor, dims);
    case RopeScalingType::kDynamic:
      return ntk_divisors(dynamic_growth(scaling), dims);
    default:
      return std::vector<float>(static_cast<size_t>(dims) / 2, scaling.factor);
  }
}

}  // namespace chimere::model
