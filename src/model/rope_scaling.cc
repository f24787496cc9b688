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

}  // namespace

float RopeScaling::magnitude() const {
  return yarn && factor > 1 ? 1 + 0.1F * std::log(factor) : 1;
}

Result<RopeScaling> read_rope_scaling(const Keys& keys) {
  RopeScaling s;
  std::string type = "linear";
  if (keys.has("rope.scaling.type")) {
    CHIMERE_TRY(type, keys.file().get_string(keys.name("rope.scaling.type")));
  }
  if (type == "none") return s;
  for (const char* key : {"rope.scale_linear", "rope.scaling.factor"}) {
    CHIMERE_TRY(s.factor, keys.multiplier_or(key, s.factor));
  }
  if (type != "yarn") return s;
  if (!keys.has("rope.scaling.factor")) {
    return unsupported(keys.name("rope.scaling.type") + " is yarn, but the file lacks " +
                       keys.name("rope.scaling.factor"));
  }
  s.yarn = true;
  constexpr int kMost = std::numeric_limits<int>::max();
  CHIMERE_TRY(const int context, keys.integer("context_length", 1, kMost));
  CHIMERE_TRY(s.original_context,
              keys.integer_or("rope.scaling.original_context_length", context, 1, kMost));
  CHIMERE_TRY(s.beta_fast, keys.positive_or("rope.scaling.yarn_beta_fast", s.beta_fast));
  CHIMERE_TRY(s.beta_slow, keys.positive_or("rope.scaling.yarn_beta_slow", s.beta_slow));
  return s;
}

std::vector<float> rope_divisors(const RopeScaling& scaling, int dims, float base) {
  std::vector<float> divisors(static_cast<size_t>(dims) / 2, scaling.factor);
  if (!scaling.yarn) return divisors;
  const double last = dims - 1;
  const double low =
      std::max(0.0, std::floor(index_of_turns(scaling, dims, base, scaling.beta_fast)));
  const double high =
      std::min(last, std::ceil(index_of_turns(scaling, dims, base, scaling.beta_slow)));
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double past = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double kept = 1 - std::clamp(past, 0.0, 1.0);
    divisors[i] = static_cast<float>(1 / (kept + (1 - kept) / scaling.factor));
  }
  return divisors;
}

}  // namespace chimere::model
