#include "sampling/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "kernels/token_choice.h"
#include "sampling/math.h"

namespace chimere::sampling {
namespace {

constexpr float kCut = -std::numeric_limits<float>::infinity();

/// Sums of weights by key, so that only the tokens near the cut-off need to be sorted.
class Histogram {
 public:
  static constexpr size_t kBins = 2049;

  /// Keys are in nats; the last bin collects all keys from 64, whose weight is negligible.
  static size_t bin(double key) { return key < 64 ? static_cast<size_t>(key * 32) : kBins - 1; }
  void add(double key, double weight) { sums_[bin(key)] += weight; }
  double total() const {
    double sum = 0;
    for (const double s : sums_) sum += s;
    return sum;
  }
  double sum(size_t bin) const { return sums_[bin]; }

 private:
  std::array<double, kBins> sums_{};
};

Error none_allowed() {
  return invalid_data(
      "No token is left to choose from: those that the constraint allows are masked.");
}

}  // namespace

void Candidates::Rest::change(float before, float after) {
  if (sums == nullptr || before == after) return;
  const double base = sums->largest;
  removed += std::exp(static_cast<double>(before) - base);
  added += std::exp(static_cast<double>(after) - base);
}

Status Candidates::assign(std::span<const float> logits) {
  start(logits);
  return rescan();
}

Status Candidates::assign(std::span<const float> logits, kernels::TokenMask set) {
  start(logits);
  if (is_small(set)) {
    CHIMERE_CHECK_OK(rescan());  // for NaN and +infinity
    return list_set(set);
  }
  set_ = set;
  return rescan();
}

void Candidates::start(std::span<const float> logits) {
  logits_ = logits;
  set_ = {};
  selected_ = false;
  scanned_ = false;
  rest_.reset();
  undecided_ = false;
  list_.clear();
  unsorted_ = false;
  scale_ = 1;
}

void Candidates::scan() {
  if (scanned_) return;
  if (set_.empty()) {
    scan_logits(logits_, scan_);
  } else {
    scan_logits(logits_, set_, scan_);
  }
  scanned_ = true;
}

/// Computes the largest logit and the count of a whole vocabulary.
Status Candidates::rescan() {
  scanned_ = false;
  scan();
  CHIMERE_TRY(largest_, find_largest(scan_));
  count_ = static_cast<int64_t>(logits_.size()) - scan_.masked;
  return {};
}

std::span<float> Candidates::mutable_logits() {
  if (logits_.data() != owned_.data()) {
    owned_.assign(logits_.begin(), logits_.end());
    logits_ = owned_;
  }
  if (set_.empty()) return owned_;
  for (size_t first = 0, w = 0; first < owned_.size(); first += 32, ++w) {
    const uint32_t word = w < set_.size() ? set_[w] : 0;
    if (word == ~uint32_t{0}) continue;
    const size_t n = std::min<size_t>(32, owned_.size() - first);
    for (size_t i = 0; i < n; ++i) {
      if ((word >> i & 1U) == 0) owned_[first + i] = kCut;
    }
  }
  set_ = {};
  return owned_;
}

void Candidates::sort_list() {
  if (unsorted_) std::sort(list_.begin(), list_.end());
  unsorted_ = false;
}

double Candidates::weight(float logit) const {
  return kernels::choice_weight(logit, largest_.value, scale_);
}

Status Candidates::adjust(std::span<const LogitAdjustment> adjustments) {
  if (adjustments.empty()) return {};
  if (!selected()) {
    const std::span<float> logits = mutable_logits();
    for (const LogitAdjustment& e : adjustments) {
      if (e.id < 0 || static_cast<size_t>(e.id) >= logits.size()) continue;
      float& logit = logits[static_cast<size_t>(e.id)];
      if (logit != kCut) logit = e.apply(logit);
    }
    return rescan();
  }
  adjustments_.assign(adjustments.begin(), adjustments.end());
  std::ranges::sort(adjustments_, {}, &LogitAdjustment::id);
  for (Candidate& c : list_) {
    const auto it = std::ranges::lower_bound(adjustments_, c.id, {}, &LogitAdjustment::id);
    if (it == adjustments_.end() || it->id != c.id) continue;
    const float before = std::exchange(c.value, it->apply(c.value));
    if (rest_) rest_->change(before, c.value);
  }
  std::erase_if(list_, [](const Candidate& c) { return c.value == kCut; });
  if (list_.empty()) {
    return invalid_data("No token is left to choose from: every logit is masked.");
  }
  constexpr float kInfinity = -kCut;
  for (const Candidate& c : list_) {
    if (c.value < kInfinity) continue;
    CHIMERE_TRY(largest_, find_largest({&kInfinity, 1}));  // returns the error
  }
  unsorted_ = true;
  sort_list();
  largest_ = list_.front();
  count_ = static_cast<int64_t>(list_.size());
  return {};
}

Status Candidates::assign_known(std::span<const Candidate> known, const Rest& rest) {
  start({});
  rest_ = rest;
  for (const Candidate& c : known) {
    if (c.id >= 0) list_.push_back(c);
  }
  // find_largest() produces the error messages; an empty scan allocates nothing.
  LogitScan scan;
  scan.largest = {kCut, -1};
  if (!list_.empty()) {
    scan.largest = list_.front();
  } else if (!known.empty()) {
    scan.largest.value = known.front().value;
  }
  if (std::isnan(scan.largest.value)) scan.largest.value = -kCut;
  CHIMERE_TRY(largest_, find_largest(scan));
  selected_ = true;
  count_ = static_cast<int64_t>(list_.size());
  return {};
}

Distribution Candidates::distribution() {
  if (!selected()) return summarise(masked_logits(), largest_.value, scale_);
  sort_list();
  values_.clear();
  for (const Candidate& c : list_) values_.push_back(c.value);
  return summarise(values_, largest_.value, scale_);
}

double Candidates::deviation() {
  // Relative to the largest logit, to keep the sums small.
  double sum = 0;
  double squares = 0;
  const auto add = [&](float logit) {
    const double x = logit == kCut ? 0.0 : static_cast<double>(logit) - largest_.value;
    sum += x;
    squares += x * x;
  };
  if (selected()) {
    sort_list();
    for (const Candidate& c : list_) add(c.value);
  } else {
    for (const float logit : masked_logits()) add(logit);
  }
  const auto n = static_cast<double>(count_);
  const double mean = sum / n;
  return std::sqrt(std::max(0.0, squares / n - mean * mean));
}

template <typename Keep>
void Candidates::filter(const Keep& keep) {
  if (selected()) {
    sort_list();
    std::erase_if(list_, [&](const Candidate& c) { return !keep(c.value, c.id); });
    largest_ = list_.front();
    count_ = static_cast<int64_t>(list_.size());
    return;
  }
  const std::span<float> logits = mutable_logits();
  scanned_ = false;
  Candidate best{kCut, -1};
  int64_t left = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (logits[i] == kCut) continue;
    if (!keep(logits[i], id)) {
      logits[i] = kCut;
      continue;
    }
    ++left;
    if (logits[i] > best.value) best = {logits[i], id};
  }
  largest_ = best;
  count_ = left;
  make_list();
}

void Candidates::make_list() {
  if (selected() || count_ > kSelected) return;
  scan();
  select_largest(logits_, scan_, count_, list_, set_);
  selected_ = true;
}

bool Candidates::is_small(kernels::TokenMask set) const {
  const size_t words =
      std::min(set.size(), static_cast<size_t>(kernels::mask_words(std::ssize(logits_))));
  int64_t members = 0;
  for (size_t w = 0; w < words && members <= kSelected; ++w) members += std::popcount(set[w]);
  return members <= kSelected;
}

Status Candidates::keep_set(kernels::TokenMask set) {
  if (!selected()) {
    if (is_small(set)) return list_set(set);
    if (!set_.empty()) (void)mutable_logits();
    set_ = set;
    return rescan();
  }
  std::erase_if(list_, [&](const Candidate& c) { return !kernels::contains(set, c.id); });
  if (list_.empty()) return none_allowed();
  if (rest_ && rest_->largest == kCut) rest_.reset();  // the list is complete
  sort_list();
  largest_ = list_.front();
  count_ = static_cast<int64_t>(list_.size());
  return {};
}

Status Candidates::list_set(kernels::TokenMask set) {
  const size_t words =
      std::min(set.size(), static_cast<size_t>(kernels::mask_words(std::ssize(logits_))));
  list_.clear();
  for (size_t w = 0; w < words; ++w) {
    for (uint32_t left = set[w]; left != 0; left &= left - 1) {
      const auto id = static_cast<int32_t>(32 * w) + std::countr_zero(left);
      const auto at = static_cast<size_t>(id);
      const bool masked = at >= logits_.size() || logits_[at] == kCut ||
                          (!set_.empty() && !kernels::contains(set_, id));
      if (!masked) list_.push_back({logits_[at], id});
    }
  }
  if (list_.empty()) return none_allowed();
  selected_ = true;
  unsorted_ = true;
  largest_ = *std::ranges::min_element(list_, std::less<>());
  count_ = static_cast<int64_t>(list_.size());
  return {};
}

void Candidates::keep_largest(int64_t k) {
  if (k <= 0) return;
  rest_.reset();
  if (k >= count_) return;
  if (selected()) {
    if (unsorted_) std::nth_element(list_.begin(), list_.begin() + k - 1, list_.end());
    list_.resize(static_cast<size_t>(k));
    sort_list();
    count_ = k;
    return;
  }
  if (k == 1) {
    list_ = {largest_};
    selected_ = true;
    count_ = 1;
    return;
  }
  if (k <= kSelected) {
    count_ = k;
    make_list();
    return;
  }
  std::vector<Candidate> all;
  all.reserve(static_cast<size_t>(count_));
  const std::span<const float> logits = masked_logits();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != kCut) all.push_back({logits[i], static_cast<int32_t>(i)});
  }
  const auto last = all.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(all.begin(), last, all.end());
  filter([&](float logit, int32_t id) { return !(*last < Candidate{logit, id}); });
}

void Candidates::keep_at_least(double floor) {
  // The largest always stays, whatever the rounding error of the floor.
  floor = std::min(floor, scaled(largest_.value));
  if (!knows_largest(floor)) return;
  if (!selected()) {
    const int64_t left = count_at_least(floor);
    if (left <= kSelected) {
      keep_largest(left);
      return;
    }
  }
  filter([&](float logit, int32_t) { return scaled(logit) >= floor; });
}

int64_t Candidates::count_at_least(double floor) {
  scan();
  int64_t count = 0;
  for (size_t block = 0; block < scan_.maxima.size(); ++block) {
    if (!(scaled(scan_.maxima[block]) >= floor)) continue;
    LogitScan::for_each(block, logits_.size(), [&](size_t i) {
      const bool counts = scaled(logits_[i]) >= floor;
      count += static_cast<int64_t>(
          counts && (set_.empty() || kernels::contains(set_, static_cast<int32_t>(i))));
    });
  }
  return count;
}

/// Whether all tokens with scale * logit >= floor are in the list. If so, the tokens outside it no
/// longer matter.
bool Candidates::knows_largest(double floor) {
  undecided_ = undecided_ || (rest_ && scaled(rest_->largest) >= floor);
  rest_.reset();
  return !undecided_;
}

void Candidates::drop_before_last_at_least(double floor) {
  Candidate last{std::numeric_limits<float>::infinity(), -1};
  const auto look = [&](const Candidate& c) {
    if (scaled(c.value) >= floor && (last.id < 0 || last < c)) last = c;
  };
  if (selected()) {
    for (const Candidate& c : list_) look(c);
  } else {
    const std::span<const float> logits = masked_logits();
    for (size_t i = 0; i < logits.size(); ++i) look({logits[i], static_cast<int32_t>(i)});
  }
  if (last.id < 0 || last.id == largest_.id) return;
  filter([&](float logit, int32_t id) { return !(Candidate{logit, id} < last); });
}

template <typename Key, typename Enough>
void Candidates::keep_by(const Key& key, const Enough& enough) {
  // The tokens near the cut-off, to be sorted, and the weight of the tokens before them.
  std::vector<Keyed>& sorted = sorted_;
  sorted.clear();
  double reached = 0;
  double total = 0;
  if (selected()) {
    sort_list();
    for (const Candidate& c : list_) {
      sorted.push_back({key(scaled(c.value)), c});
      total += weight(c.value);
    }
  } else {
    const std::span<const float> logits = masked_logits();
    Histogram histogram;
    constexpr size_t kBlock = 64;  // weights are computed together, which vectorises
    std::array<double, kBlock> weights{};
    for (size_t first = 0; first < logits.size(); first += kBlock) {
      const auto block = logits.subspan(first, std::min(kBlock, logits.size() - first));
      for (size_t j = 0; j < block.size(); ++j) weights[j] = weight(block[j]);
      for (size_t j = 0; j < block.size(); ++j) {
        if (block[j] != kCut) histogram.add(key(scaled(block[j])), weights[j]);
      }
    }
    total = histogram.total();
    size_t bin = 0;
    while (bin + 1 < Histogram::kBins && !enough(reached + histogram.sum(bin), total)) {
      reached += histogram.sum(bin++);
    }
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] == kCut) continue;
      const double k = key(scaled(logits[i]));
      if (Histogram::bin(k) == bin) sorted.push_back({k, {logits[i], static_cast<int32_t>(i)}});
    }
    if (sorted.empty()) return;  // rounding: all tokens are needed to reach the share
  }
  std::sort(sorted.begin(), sorted.end());
  size_t last = 0;
  for (; last + 1 < sorted.size(); ++last) {
    reached += weight(sorted[last].token.value);
    if (enough(reached, total)) break;
  }
  const Keyed& end = sorted[last];
  filter([&](float logit, int32_t id) { return !(end < Keyed{key(scaled(logit)), {logit, id}}); });
}

/// keep_top_p() for the case that kFew tokens reach the share of logits with scale 1, whose sum has
/// the same bits on a GPU. False: more tokens are needed.
bool Candidates::keep_top_p_of_few(double share) {
  double total = 0;
  double error = 0;  // bound of the error of `total`
  if (!selected()) {
    scan();
    total = log_sum_exp(logits_, set_).e;
  } else if (rest_ && rest_->sums != nullptr) {
    total = rest_->sums->e;
    if (rest_->added > 0 || rest_->removed > 0) {
      // Not the bits of a sum over the changed row, but close enough for most cuts.
      const double base =
          std::exp(static_cast<double>(rest_->sums->largest) - double{largest_.value});
      error = 1e-4 * (total + rest_->added + rest_->removed) * base;
      total = (total + rest_->added - rest_->removed) * base;
    }
  } else {
    return false;
  }
  sort_list();
  if (!selected()) select_largest(logits_, scan_, std::min(count_, kFew), few_, set_);
  const std::vector<Candidate>& few = selected() ? list_ : few_;
  double reached = 0;
  for (size_t i = 0; i < few.size(); ++i) {
    // The order beyond the smallest known logit is unknown.
    if (rest_ && few[i].value < rest_->largest) return false;
    // A changed token may follow an unknown one with the same logit and a lower id.
    if (error > 0 && few[i].value == rest_->largest) return false;
    reached += weight(few[i].value);
    if (reached < share * (total - error)) continue;
    if (reached < share * (total + error)) return false;
    keep_largest(static_cast<int64_t>(i) + 1);
    return true;
  }
  return false;
}

void Candidates::keep_top_p(double share) {
  const bool whole = !selected() || rest_;
  if (whole && scale_ == 1 && keep_top_p_of_few(share)) return;
  if (rest_) {
    undecided_ = true;
    return;
  }
  const double top = scaled(largest_.value);
  keep_by([=](double logit) { return top - logit; },
          [=](double sum, double total) { return sum >= share * total; });
}

void Candidates::keep_typical(double share) {
  const Distribution d = distribution();
  keep_by([=](double logit) { return std::fabs(d.log_sum - logit - d.entropy); },
          [=](double sum, double total) { return sum > share * total; });
}

Candidate Candidates::draw(uint64_t seed, uint64_t position) const {
  const Draw draw{seed, position, scale_};
  if (!selected()) {
    const int32_t id = gumbel_argmax(logits_, largest_, draw, set_);
    return {logits_[static_cast<size_t>(id)], id};
  }
  return *std::ranges::find(list_, gumbel_argmax(list_, draw), &Candidate::id);
}

}  // namespace chimere::sampling
