#include "engram/memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace chimere::engram {

Result<Memory> Memory::create(Tables tables, Gating gating) {
  std::vector<Reader> readers;
  for (auto& table : tables) {
    const std::vector<float>& own = table->info().gate;
    Gate gate = gating == Gating::kKneserNey ? Gate::kneser_ney() : Gate::learned();
    if (gating == Gating::kLearned && !own.empty()) {
      CHIMERE_TRY(gate, Gate::from_values(own));
    }
    readers.push_back({std::move(table), gate, {}, {}});
  }
  return Memory(std::move(readers));
}

/// Brings `recent` up to the text's end: one lookup for each new token, or a whole window of them
/// if the text is another one than before.
Status Memory::recall(std::span<const int32_t> history) {
  const size_t n = history.size();
  const size_t reach = kWindow + kMaxOrder;
  const size_t known = tail_.size();
  bool grown = n >= seen_ && n - seen_ < kWindow && known <= seen_;
  if (grown) {
    grown = std::equal(tail_.begin(), tail_.end(),
                       history.begin() + static_cast<std::ptrdiff_t>(seen_ - known));
  }
  for (size_t p = grown ? seen_ : n - std::min(n, kWindow); p < n; ++p) {
    for (Reader& reader : readers_) {
      CHIMERE_CHECK_OK(reader.table->find(history.first(p), reader.found));
      Familiarity& f = reader.recent[p % kWindow];
      f = {};
      if (reader.found.empty()) continue;
      const Evidence& longest = reader.found.back();
      f.order = static_cast<double>(longest.order) / kMaxOrder;
      for_each_discounted(longest, [&](uint32_t token, float share) {
        if (token == static_cast<uint32_t>(history[p])) f.probability = share;
      });
    }
  }
  const auto tail = history.last(std::min(n, reach));
  tail_.assign(tail.begin(), tail.end());
  seen_ = n;
  return {};
}

Familiarity Memory::familiarity(size_t i) const {
  Familiarity mean;
  const size_t n = std::min(seen_, kWindow);
  if (n == 0) return mean;
  for (size_t p = seen_ - n; p < seen_; ++p) {
    mean.probability += readers_[i].recent[p % kWindow].probability;
    mean.order += readers_[i].recent[p % kWindow].order;
  }
  mean.probability /= static_cast<double>(n);
  mean.order /= static_cast<double>(n);
  return mean;
}

Result<bool> Memory::look_up(std::span<const int32_t> history) {
  CHIMERE_CHECK_OK(recall(history));
  bool any = false;
  for (Reader& reader : readers_) {
    CHIMERE_CHECK_OK(reader.table->find(history, reader.found));
    any = any || !reader.found.empty();
  }
  return any;
}

std::span<const Share> Memory::mix(const Belief& belief) {
  shares_.clear();
  // From the last table's longest context back: what is left for those before it.
  double left = 1;
  for (size_t i = readers_.size(); i-- > 0;) {
    const Familiarity before = familiarity(i);
    const auto& found = readers_[i].found;
    for (size_t k = found.size(); k-- > 0 && left > 1 - kMostWeight;) {
      double share = readers_[i].gate.share(found[k].order, features_of(found[k], belief, before));
      share = std::min(share, 1 - (1 - kMostWeight) / left);
      const double taken = left * share;
      double given = 0;
      for_each_discounted(found[k], [&](uint32_t token, float part) {
        if (!std::isfinite(belief.log_probability(token))) return;
        shares_.push_back({token, static_cast<float>(taken * static_cast<double>(part))});
        given += static_cast<double>(part);
      });
      left -= taken * given;
    }
  }
  std::ranges::sort(shares_, {}, &Share::token);
  size_t kept = 0;
  for (const Share& s : shares_) {
    if (s.mass <= 0) continue;
    if (kept > 0 && shares_[kept - 1].token == s.token) {
      shares_[kept - 1].mass += s.mass;
    } else {
      shares_[kept++] = s;
    }
  }
  shares_.resize(kept);
  return shares_;
}

}  // namespace chimere::engram
