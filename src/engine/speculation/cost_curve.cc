#include "engine/speculation/cost_curve.h"

#include <algorithm>

namespace chimere::engine {
namespace {

/// Larger steps are not distinguished; drafts matter for small ones.
constexpr int32_t kMaxRows = 256;
/// A GPU runs a shape once, then captures it, and a number of rows has two shapes: with rows that
/// are folded and without.
constexpr int32_t kMostLeftOut = 4;

}  // namespace

CostCurve::Samples* CostCurve::of(int32_t rows) {
  if (rows < 1 || rows > kMaxRows) return nullptr;
  if (by_rows_.size() < static_cast<size_t>(rows)) by_rows_.resize(static_cast<size_t>(rows));
  return &by_rows_[static_cast<size_t>(rows) - 1];
}

bool CostCurve::leave_out(int32_t rows) {
  Samples* const s = of(rows);
  return s == nullptr || s->left_out++ < kMostLeftOut;
}

void CostCurve::add(int32_t rows, double seconds) {
  Samples* const of_rows = of(rows);
  if (of_rows == nullptr) return;
  Samples& s = *of_rows;
  s.latest[static_cast<size_t>(s.count++) % kKept] = seconds;
  auto sorted = s.latest;
  const auto n = static_cast<std::ptrdiff_t>(std::min(static_cast<size_t>(s.count), kKept));
  // The lower of two: an interruption makes a step longer, nothing makes it shorter.
  const std::ptrdiff_t middle = (n - 1) / 2;
  std::nth_element(sorted.begin(), sorted.begin() + middle, sorted.begin() + n);
  s.median = sorted[static_cast<size_t>(middle)];
}

int32_t CostCurve::measured(int32_t rows) const {
  const auto i = static_cast<size_t>(rows) - 1;
  return i < by_rows_.size() ? by_rows_[i].count : 0;
}

double CostCurve::seconds(int32_t rows) const {
  if (measured(rows) > 0) return by_rows_[static_cast<size_t>(rows) - 1].median;
  int32_t below = rows;
  while (below > 0 && measured(below) == 0) --below;
  auto above = static_cast<size_t>(rows);
  while (above < by_rows_.size() && by_rows_[above].count == 0) ++above;
  const bool has_above = above < by_rows_.size();
  if (below == 0 && !has_above) return 0;
  if (below == 0) {
    const double known = static_cast<double>(above) + 1;
    return by_rows_[above].median * (1 + growth_ * (rows - 1)) / (1 + growth_ * (known - 1));
  }
  const double low = by_rows_[static_cast<size_t>(below) - 1].median;
  if (!has_above) return low * (1 + growth_ * (rows - 1)) / (1 + growth_ * (below - 1));
  const double share = static_cast<double>(rows - below) / (static_cast<double>(above) + 1 - below);
  return low + share * (by_rows_[above].median - low);
}

double CostCurve::slope() const {
  double weights = 0;
  double mean_rows = 0;
  double mean_seconds = 0;
  int32_t points = 0;
  const auto each = [&](auto use) {
    for (size_t i = 0; i < by_rows_.size(); ++i) {
      const Samples& s = by_rows_[i];
      if (s.count > 0) use(std::min<double>(s.count, kKept), static_cast<double>(i) + 1, s.median);
    }
  };
  each([&](double weight, double rows, double median) {
    weights += weight;
    mean_rows += weight * rows;
    mean_seconds += weight * median;
    ++points;
  });
  if (points == 0) return 0;
  mean_rows /= weights;
  mean_seconds /= weights;
  if (points == 1) return growth_ * mean_seconds / (1 + growth_ * (mean_rows - 1));
  double spread = 0;
  double product = 0;
  each([&](double weight, double rows, double median) {
    spread += weight * (rows - mean_rows) * (rows - mean_rows);
    product += weight * (rows - mean_rows) * (median - mean_seconds);
  });
  return std::max(product / spread, seconds(1) / 50);
}

}  // namespace chimere::engine
