#include "constraints/length_set.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace chimere::constraints {
namespace {

using Part = LengthSet::Part;

/// Larger bounds are not computed with.
constexpr uint64_t kLargest = uint64_t{1} << 62;
/// Progressions of at most so many members are expanded where no rule applies.
constexpr uint64_t kMaxExpanded = 32;
/// Sums of stars are tabulated up to here.
constexpr size_t kMaxTable = 1024;

bool finite(const Part& p) { return p.last != LengthSet::kInfinite; }
bool single(const Part& p) { return p.first == p.last; }

bool contains(const Part& p, uint64_t value) {
  return value >= p.first && value <= p.last && (value - p.first) % p.step == 0;
}

/// Whether b is a subset of a, as far as that is easily told.
bool covers(const Part& a, const Part& b) {
  if (!contains(a, b.first)) return false;
  if (single(b)) return true;
  return b.last <= a.last && b.step % a.step == 0;
}

/// The union of two progressions if it is one.
std::optional<Part> join(Part a, Part b) {
  if (b.first < a.first) std::swap(a, b);
  if (covers(a, b)) return a;
  if (covers(b, a)) return b;
  if (single(a) && single(b)) {
    // Two single members stay apart unless they touch, so that intervals stay intervals.
    if (b.first == a.first + 1) return Part{a.first, b.first, 1};
    return std::nullopt;
  }
  const uint64_t step = single(a) ? b.step : a.step;
  if (!single(a) && !single(b) && a.step != b.step) return std::nullopt;
  if ((b.first - a.first) % step != 0) return std::nullopt;
  if (finite(a) && b.first > a.last + step) return std::nullopt;
  return Part{a.first, std::max(a.last, b.last), step};
}

/// Adds a progression to a list, joining where possible. false: too many.
bool insert(std::vector<Part>& parts, Part part) {
  for (size_t i = 0; i < parts.size();) {
    if (const auto joined = join(parts[i], part)) {
      part = *joined;
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      i = 0;
    } else {
      ++i;
    }
  }
  if (parts.size() >= LengthSet::kMaxParts) return false;
  parts.insert(std::ranges::upper_bound(parts, part.first, {}, &Part::first), part);
  return true;
}

std::optional<uint64_t> sum(uint64_t a, uint64_t b) {
  if (a == LengthSet::kInfinite || b == LengthSet::kInfinite) return LengthSet::kInfinite;
  if (a + b > kLargest) return std::nullopt;
  return a + b;
}

std::optional<uint64_t> product(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == LengthSet::kInfinite || b == LengthSet::kInfinite) return LengthSet::kInfinite;
  if (a > kLargest / b) return std::nullopt;
  return a * b;
}

/// Adds all sums of members of p and q.
bool insert_sums(std::vector<Part>& out, const Part& p, const Part& q) {
  const auto first = sum(p.first, q.first);
  const auto last = sum(p.last, q.last);
  if (!first || !last) return false;
  const auto wide = [](const Part& a, const Part& b) {
    // a steps through the gaps of b.
    return b.step % a.step == 0 && (!finite(a) || a.last - a.first + a.step >= b.step);
  };
  if (single(q) || (!single(p) && wide(p, q))) return insert(out, {*first, *last, p.step});
  if (single(p) || wide(q, p)) return insert(out, {*first, *last, q.step});
  const auto count = [](const Part& a) {
    return finite(a) ? (a.last - a.first) / a.step : LengthSet::kInfinite;
  };
  const bool expand_p = count(p) < count(q);
  const Part& few = expand_p ? p : q;
  const Part& many = expand_p ? q : p;
  if (count(few) >= kMaxExpanded) return false;
  for (uint64_t member = few.first; member <= few.last; member += few.step) {
    const auto shifted_last = sum(many.last, member);
    if (!shifted_last || !insert(out, {many.first + member, *shifted_last, many.step})) {
      return false;
    }
  }
  return true;
}

}  // namespace

LengthSet LengthSet::of(uint64_t first, uint64_t last, uint64_t step) {
  LengthSet set;
  if (first > last) return set;
  if (last != kInfinite) last -= (last - first) % step;
  set.parts_.push_back({first, last, first == last ? 1 : step});
  return set;
}

uint64_t LengthSet::min() const { return parts_.front().first; }

uint64_t LengthSet::max() const {
  uint64_t max = 0;
  for (const Part& part : parts_) max = std::max(max, part.last);
  return max;
}

std::optional<uint64_t> LengthSet::next(uint64_t low) const {
  std::optional<uint64_t> least;
  for (const Part& part : parts_) {
    uint64_t member = part.first;
    if (member < low) {
      const uint64_t gap = low - member;
      const uint64_t steps = gap / part.step + (gap % part.step != 0 ? 1 : 0);
      if (steps > (kInfinite - member) / part.step) continue;
      member += steps * part.step;
    }
    if (member <= part.last && (!least || member < *least)) least = member;
  }
  return least;
}

std::optional<LengthSet> LengthSet::unite(const LengthSet& other) const {
  LengthSet out = *this;
  for (const Part& part : other.parts_) {
    if (!insert(out.parts_, part)) return std::nullopt;
  }
  return out;
}

std::optional<LengthSet> LengthSet::add(const LengthSet& other) const {
  LengthSet out;
  for (const Part& p : parts_) {
    for (const Part& q : other.parts_) {
      if (!insert_sums(out.parts_, p, q)) return std::nullopt;
    }
  }
  return out;
}

namespace {

/// All sums of any number of members.
std::optional<LengthSet> star(const LengthSet& set) {
  uint64_t divisor = 0;
  uint64_t least = LengthSet::kInfinite;
  std::array<bool, kMaxTable> member = {};
  for (const Part& part : set.parts()) {
    divisor = std::gcd(divisor, part.first);
    if (!single(part)) divisor = std::gcd(divisor, part.step);
    for (uint64_t at = part.first; at <= part.last && at < kMaxTable; at += part.step) {
      member[at] = true;
      if (at != 0) least = std::min(least, at);
    }
  }
  if (divisor == 0) return LengthSet::of(0, 0);  // only the length 0
  if (least >= kMaxTable / 4) return std::nullopt;
  std::array<bool, kMaxTable> reached = {};
  reached[0] = true;
  uint64_t run = 0;  // multiples of the divisor in a row, up to `at`
  std::optional<LengthSet> out = LengthSet::of(0, 0);
  for (size_t at = 0; at < kMaxTable; at += divisor) {
    for (size_t step = 1; step <= at && !reached[at]; ++step) {
      reached[at] = member[step] && reached[at - step];
    }
    run = reached[at] ? run + 1 : 0;
    if (reached[at]) out = out->unite(LengthSet::of(at, at));
    if (!out) return std::nullopt;
    if (run * divisor >= least) {
      return out->unite(LengthSet::of(at, LengthSet::kInfinite, divisor));
    }
  }
  return std::nullopt;
}

/// All sums of min to max members of one progression with at least two.
std::optional<LengthSet> repeat_progression(const Part& part, uint64_t min, uint64_t max) {
  std::optional<LengthSet> out = min == 0 ? LengthSet::of(0, 0) : LengthSet();
  const bool residues = part.first % part.step != 0;
  uint64_t count = std::max<uint64_t>(min, 1);
  for (uint64_t tries = 0; count <= max; ++count, ++tries) {
    const auto first = product(part.first, count);
    const auto last = product(part.last, count);
    if (!first || !last || tries > kMaxExpanded) return std::nullopt;
    // From here on, the sums of count + 1 members follow those of count members without a gap.
    if (!residues && (!finite(part) || *first + part.first <= *last + part.step)) {
      const auto end = product(part.last, max);
      if (!end) return std::nullopt;
      return out->unite(LengthSet::of(*first, *end, part.step));
    }
    out = out->unite(LengthSet::of(*first, *last, part.step));
    if (!out) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<LengthSet> LengthSet::repeat(uint64_t min, uint64_t max) const {
  if (max == 0) return of(0, 0);
  if (empty()) return min == 0 ? of(0, 0) : LengthSet();
  if (parts_.size() == 1) {
    const Part& part = parts_.front();
    if (!single(part)) return repeat_progression(part, min, max);
    if (part.first == 0) return of(0, 0);
    const auto first = product(part.first, min);
    const auto last = product(part.first, max);
    if (!first || !last) return std::nullopt;
    return of(*first, *last, part.first);
  }
  constexpr uint64_t kMaxSums = 16;
  if (min > kMaxSums || (max != kInfinite && max > kMaxSums)) return std::nullopt;
  std::optional<LengthSet> sums = of(0, 0);
  for (uint64_t count = 0; count < min; ++count) {
    sums = sums->add(*this);
    if (!sums) return std::nullopt;
  }
  if (max == kInfinite) {
    const auto rest = star(*this);
    return rest ? sums->add(*rest) : std::nullopt;
  }
  std::optional<LengthSet> out = sums;
  for (uint64_t count = min; count < max; ++count) {
    sums = sums->add(*this);
    if (sums) out = out->unite(*sums);
    if (!sums || !out) return std::nullopt;
  }
  return out;
}

}  // namespace chimere::constraints
