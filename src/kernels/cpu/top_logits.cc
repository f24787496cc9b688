#include "kernels/cpu/top_logits.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cpu/for_units.h"

namespace chimere::kernels::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
/// Logits that a thread takes at a time, and those that are looked at together.
constexpr int64_t kPiece = 8192;
constexpr int64_t kBlock = 64;

bool before(const TopLogit& a, const TopLogit& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/// The best of what it was offered, in the order of rising ids.
class Best {
 public:
  explicit Best(size_t count) : count_(count) { kept_.reserve(2 * count); }

  /// Equal ones lose to those that came before, if there are enough of these.
  float threshold() const { return threshold_; }
  void offer(TopLogit t) {
    if (!(t.value > threshold_)) return;
    kept_.push_back(t);
    if (kept_.size() < 2 * count_) return;
    cut();
    threshold_ = kept_.back().value;
  }
  /// At most count of them, in any order.
  const std::vector<TopLogit>& finish() {
    if (kept_.size() > count_) cut();
    return kept_;
  }

 private:
  void cut() {
    const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(count_) - 1;
    std::nth_element(kept_.begin(), last, kept_.end(), before);
    kept_.resize(count_);
  }

  size_t count_;
  std::vector<TopLogit> kept_;
  float threshold_ = -kInfinity;
};

/// Of logits [begin, end); {+infinity, -1} alone if one of them is that or no number.
std::vector<TopLogit> best_of(const float* x, int64_t begin, int64_t end, int32_t count) {
  Best best(static_cast<size_t>(count));
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t n = std::min(kBlock, end - first);
    float most = -kInfinity;
    bool good = true;
    for (int64_t i = first; i < first + n; ++i) {
      most = most < x[i] ? x[i] : most;
      good &= x[i] < kInfinity;
    }
    if (!good) return {{kInfinity, -1}};
    if (!(most > best.threshold())) continue;
    for (int64_t i = first; i < first + n; ++i) best.offer({x[i], static_cast<int32_t>(i)});
  }
  return best.finish();
}

/// The best of a row's pieces.
void merge(std::span<const std::vector<TopLogit>> pieces, std::span<TopLogit> top) {
  std::vector<TopLogit> all;
  for (const auto& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
  const size_t n = std::min(top.size(), all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n), all.end(), before);
  std::fill(top.begin(), top.end(), TopLogit{-kInfinity, -1});
  const bool bad = n > 0 && all.front().id < 0;
  std::copy_n(all.begin(), bad ? 1 : n, top.begin());
}

}  // namespace

void top_logits(ThreadPool& pool, ConstMatrixView logits, TopLogits top) {
  const int64_t pieces = (logits.cols + kPiece - 1) / kPiece;
  std::vector<std::vector<TopLogit>> best(static_cast<size_t>(logits.rows * pieces));
  for_units(
      pool, logits.rows * pieces, logits.rows * logits.cols / 4, [&](int64_t unit, int /*worker*/) {
        const int64_t begin = unit % pieces * kPiece;
        best[static_cast<size_t>(unit)] = best_of(logits.row(unit / pieces), begin,
                                                  std::min(begin + kPiece, logits.cols), top.count);
      });
  for (int64_t r = 0; r < logits.rows; ++r) {
    merge(std::span(best).subspan(static_cast<size_t>(r * pieces), static_cast<size_t>(pieces)),
          top.row(r));
  }
}

}  // namespace chimere::kernels::cpu
