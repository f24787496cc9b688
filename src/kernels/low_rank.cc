#include "kernels/low_rank.h"

#include <algorithm>
#include <string>
#include <utility>

namespace chimere::kernels {

Result<int32_t> StepAdapters::add(LowRankAdapter adapter) {
  const auto free = std::ranges::find_if(adapters_, [](const auto& a) { return !a; });
  const auto number = static_cast<int32_t>(free - adapters_.begin());
  if (number == kMaxAdapters) {
    return invalid_argument("a model can have at most " + std::to_string(kMaxAdapters) +
                            " adapters at a time");
  }
  if (free == adapters_.end()) {
    adapters_.emplace_back(std::move(adapter));
  } else {
    *free = std::move(adapter);
  }
  return number;
}

StepAdapters::Step StepAdapters::begin(const RowAdapters& rows, std::span<const int32_t> wanted) {
  const Step before = std::exchange(step_, Step{rows, wanted});
  all_segments_.clear();
  wanted_segments_.clear();
  if (!rows.empty()) {
    all_segments_ = find_segments(static_cast<int64_t>(rows.begin.size()) - 1, false);
    wanted_segments_ = find_segments(static_cast<int64_t>(wanted.size()), true);
  }
  return before;
}

std::vector<StepAdapters::Segment> StepAdapters::find_segments(int64_t n, bool wanted) const {
  std::vector<Segment> segments;
  for (int64_t r = 0; r < n; ++r) {
    const std::span<const AdapterUse> uses = of(r, wanted);
    if (uses.empty()) continue;
    auto same = std::ranges::find_if(
        segments, [&](const Segment& s) { return std::ranges::equal(s.uses, uses); });
    if (same == segments.end()) same = segments.insert(segments.end(), {uses, {}});
    same->rows.push_back(r);
  }
  return segments;
}

const LowRankPair* StepAdapters::find(const WeightView& w, const AdapterUse& use) const {
  if (w.target < 0) return nullptr;
  const LowRankPair& pair =
      adapters_[static_cast<size_t>(use.adapter)]->targets[static_cast<size_t>(w.target)];
  return pair.empty() ? nullptr : &pair;
}

}  // namespace chimere::kernels
