#include "serving/arrival_predictor.h"

#include <algorithm>

namespace chimere::serving {

std::optional<ArrivalPredictor::Clock::time_point> ArrivalPredictor::add(Clock::time_point at) {
  const bool first = !last_ || at - *last_ > kLongest;
  const Clock::duration distance = first ? Clock::duration{} : at - *last_;
  last_ = at;
  if (first) {
    seen_ = 0;
    return std::nullopt;
  }
  if (seen_++ == 0) {
    mean_ = distance;
    deviation_ = {};
  } else {
    const Clock::duration off = distance - mean_;
    mean_ += off / 8;
    deviation_ += (std::chrono::abs(off) - deviation_) / 8;
  }
  if (seen_ < kEnough) return std::nullopt;
  return at + mean_ + std::min(2 * deviation_, mean_ / 4);
}

}  // namespace chimere::serving
