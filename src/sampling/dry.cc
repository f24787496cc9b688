#include "sampling/dry.h"

#include <algorithm>

namespace chimere::sampling {
namespace {

/// Tokens, latest first.
using Reversed = std::vector<int32_t>;

/// Length of the longest breaker that begins `age` tokens before the end; 0: none.
size_t breaker_length(const Reversed& tokens, size_t age, const DryBreakers& breakers) {
  size_t length = breakers.single.contains(tokens[age]) ? 1 : 0;
  const auto it = breakers.longer.find(tokens[age]);
  if (it == breakers.longer.end()) return length;
  for (const std::vector<int32_t>& rest : it->second) {
    if (rest.size() > age || rest.size() < length) continue;
    bool matches = true;
    for (size_t i = 0; i < rest.size() && matches; ++i) matches = rest[i] == tokens[age - 1 - i];
    if (matches) length = rest.size() + 1;
  }
  return length;
}

/// Number of tokens after the last breaker.
size_t unbroken_length(const Reversed& tokens, const DryBreakers* breakers) {
  if (breakers == nullptr) return tokens.size();
  for (size_t age = 0; age < tokens.size(); ++age) {
    const size_t length = breaker_length(tokens, age, *breakers);
    if (length > 0) return age + 1 - length;
  }
  return tokens.size();
}

/// z[k]: number of tokens from k that equal those from 0 (Gusfield 1997, section 1.4).
std::vector<size_t> z_function(const Reversed& tokens) {
  const size_t n = tokens.size();
  std::vector<size_t> z(n, 0);
  size_t begin = 0;
  size_t end = 0;
  for (size_t k = 1; k < n; ++k) {
    if (k < end) z[k] = std::min(end - k, z[k - begin]);
    while (k + z[k] < n && tokens[z[k]] == tokens[k + z[k]]) ++z[k];
    if (k + z[k] > end) {
      begin = k;
      end = k + z[k];
    }
  }
  return z;
}

/// multiplier * base^exponent by repeated multiplication: the same bits on every machine. Bounded,
/// since an infinite penalty would mask the token.
float penalty(const DryParams& params, size_t exponent) {
  constexpr double kMost = 1e30;
  double power = params.multiplier;
  const double factor = params.base;
  for (size_t i = 0; i < exponent && factor > 1 && power < kMost; ++i) power *= factor;
  return static_cast<float>(std::min(power, kMost));
}

}  // namespace

std::vector<LogitAdjustment> dry_adjustments(std::span<const int32_t> history,
                                             const DryParams& params) {
  if (!params.active()) return {};
  if (params.window > 0 && history.size() > static_cast<size_t>(params.window)) {
    history = history.last(static_cast<size_t>(params.window));
  }
  const Reversed tokens(history.rbegin(), history.rend());
  const DryBreakers* breakers = params.breakers.get();
  const size_t limit = unbroken_length(tokens, breakers);
  const auto allowed = static_cast<size_t>(params.allowed_length);
  if (tokens.size() <= allowed || limit < allowed) return {};
  const std::vector<size_t> z = z_function(tokens);
  std::unordered_map<int32_t, size_t> longest;
  for (size_t k = 1; k < tokens.size(); ++k) {
    const size_t length = std::min(z[k], limit);
    if (length < allowed) continue;
    size_t& best = longest[tokens[k - 1]];
    best = std::max(best, length);
  }
  std::vector<LogitAdjustment> adjustments;
  for (const auto& [id, length] : longest) {
    if (breakers != nullptr && breakers->single.contains(id)) continue;
    adjustments.push_back({id, 1, penalty(params, length - allowed)});
  }
  return adjustments;
}

}  // namespace chimere::sampling
