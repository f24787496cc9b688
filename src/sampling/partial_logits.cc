#include "sampling/partial_logits.h"

#include <algorithm>
#include <limits>

namespace chimere::sampling {

void merge(const PartialLogits& partial_logits, std::vector<Candidate>& out) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  out.clear();
  bool numbers =
      partial_logits.largest.empty() || partial_logits.largest.front().value != kInfinity;
  for (const Candidate& c : partial_logits.largest) {
    if (c.id >= 0) out.push_back(c);
  }
  for (const Candidate& c : partial_logits.selected) {
    numbers = numbers && c.value < kInfinity;
    if (c.value > -kInfinity) out.push_back(c);
  }
  if (!numbers) {
    out.assign(1, {kInfinity, -1});
  } else if (out.empty()) {
    out.push_back({-kInfinity, -1});
  } else {
    std::sort(out.begin(), out.end());
  }
}

}  // namespace chimere::sampling
