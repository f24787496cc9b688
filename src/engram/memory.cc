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

/// Updates `recent` to the end of the text: one lookup per new token, or a whole window if the text
/// is not a continuation of the previous one.
Status Memory::update_familiarity(std::span<const int32_t> history) {
  const size_t n = history.size();
  const size_t reach = kWindow + kMaxOrder;
  const size_t known = tail_.size();
  bool grown = n >= seen_ && n - seen_ < kWindow && known <= seen_;
  if (grown) {
    grown = std::equal(tail_.begin(), tail_.end(),
                       history.begin() + static_cast<std::ptrdiff_t>(seen_ - known));
  }
  for (size_t p = grown ? seen_ : n - std::min(n, kWindow); p < n; ++p) {
    const bool found = grown && fresh_ && p == seen_;
    for (Reader& reader : readers_) {
      if (!found) CHIMERE_CHECK_OK(reader.table->find(history.first(p), reader.found));
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
  fresh_ = fresh_ && grown && n == seen_;
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
  const Status updated = update_familiarity(history);
  if (!updated.ok()) {
    fresh_ = false;
    seen_ = 0;
    tail_.clear();
    return updated.error();
  }
  bool any = false;
  for (Reader& reader : readers_) {
    if (!fresh_) CHIMERE_CHECK_OK(reader.table->find(history, reader.found));
    any = any || !reader.found.empty();
  }
  fresh_ = true;
  return any;
}

Result<bool> Memory::likeliest(std::span<const int32_t> history, Share& out) {
  int longest = 0;
  for (const Reader& reader : readers_) {
    CHIMERE_CHECK_OK(reader.table->find(history, scratch_));
    if (scratch_.empty()) continue;
    const Evidence& e = scratch_.back();
    if (e.order <= longest || e.left <= 0) continue;
    longest = e.order;
    const Counted& best = *std::ranges::max_element(e.top, {}, &Counted::left);
    out = {best.token, best.left / e.total};
  }
  return longest > 0;
}

Status Memory::successors(std::span<const int32_t> history, std::vector<int32_t>& out) {
  for (const Reader& reader : readers_) {
    CHIMERE_CHECK_OK(reader.table->find(history, scratch_));
    for (const Evidence& e : scratch_) {
      for (const Counted& c : e.top) out.push_back(static_cast<int32_t>(c.token));
    }
  }
  return {};
}

std::span<const Share> Memory::mix(const ModelPrediction& prediction) {
  shares_.clear();
  if (index_.size() < prediction.logits.size()) index_.resize(prediction.logits.size(), 0);
  const auto add = [this](uint32_t token, float mass) {
    uint32_t& index = index_[token];
    if (index == 0) {
      shares_.push_back({token, 0});
      index = static_cast<uint32_t>(shares_.size());
    }
    shares_[index - 1].mass += mass;
  };
  // From the last table's longest context back; `left` is the weight that remains for the others.
  double left = 1;
  for (size_t i = readers_.size(); i-- > 0;) {
    const Familiarity before = familiarity(i);
    const auto& found = readers_[i].found;
    for (size_t k = found.size(); k-- > 0 && left > 1 - kMaxWeight;) {
      double share =
          readers_[i].gate.share(found[k].order, features_of(found[k], prediction, before));
      share = std::min(share, 1 - (1 - kMaxWeight) / left);
      const double taken = left * share;
      if (taken < kMinMass) continue;
      double given = 0;
      for_each_discounted(found[k], [&](uint32_t token, float part) {
        const double mass = taken * static_cast<double>(part);
        if (mass < kMinMass || !prediction.has(token)) return;
        add(token, static_cast<float>(mass));
        given += static_cast<double>(part);
      });
      left -= taken * given;
    }
  }
  for (const Share& s : shares_) index_[s.token] = 0;
  return shares_;
}

}  // namespace chimere::engram
