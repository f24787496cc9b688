#include "repetition.h"

#include <algorithm>

namespace chimere::app {

void Repetition::add(int32_t token) {
  for (size_t period = 1; period <= kPeriods; ++period) {
    const bool same = seen_ >= period && last_.at((seen_ - period) % kPeriods) == token;
    int64_t& count = repeated_.at(period - 1);
    count = same ? count + 1 : 0;
  }
  last_.at(seen_ % kPeriods) = token;
  ++seen_;
}

bool Repetition::endless() const {
  for (size_t period = 1; period <= kPeriods; ++period) {
    const int64_t rounds = kRounds * static_cast<int64_t>(period);
    if (repeated_.at(period - 1) >= std::max(rounds, kLeast)) return true;
  }
  return false;
}

}  // namespace chimere::app
