#include "sampling/race.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "sampling/math.h"
#include "sampling/philox.h"

namespace chimere::sampling {
namespace {

/// u has 52 bits: -ln(-ln u) is at most 53 ln 2.
constexpr double kLargestGumbel = 37.0;

class Race {
 public:
  explicit Race(const Draw& draw) : draw_(draw) {}

  void offer(float logit, int32_t id) {
    const double base = logit * draw_.scale;
    if (!(base + kLargestGumbel >= best_)) return;
    const double u = uniform(draw_.seed, draw_.position, static_cast<uint32_t>(id));
    const double score = base - log_positive(-log_positive(u));
    if (score > best_ || (score == best_ && id < winner_)) {
      best_ = score;
      winner_ = id;
    }
  }
  double best() const { return best_; }
  int32_t winner() const { return winner_; }

 private:
  Draw draw_;
  double best_ = -std::numeric_limits<double>::max();
  int32_t winner_ = -1;
};

constexpr size_t kBlocks = 16;  ///< of random numbers at a time, two ids each
constexpr size_t kIds = 2 * kBlocks;

/// The upper words of the numbers of kIds ids from `first` (even) on; even ids in [0, kBlocks), odd
/// ids behind them.
std::array<uint32_t, kIds> high_words(const Draw& draw, uint32_t first) {
  std::array<std::array<uint32_t, kBlocks>, 4> words{};
  const auto counter = counter_of(draw.position, first, Stream::kTokens);
  for (size_t j = 0; j < kBlocks; ++j) {
    words[0][j] = counter[0] + static_cast<uint32_t>(j);
    words[1][j] = counter[1];
    words[2][j] = counter[2];
    words[3][j] = counter[3];
  }
  philox4x32(words, key_of(draw.seed));
  std::array<uint32_t, kIds> high{};
  std::copy(words[1].begin(), words[1].end(), high.begin());
  std::copy(words[3].begin(), words[3].end(), high.begin() + kBlocks);
  return high;
}

}  // namespace

int32_t race(std::span<const Candidate> candidates, const Draw& draw) {
  Race race(draw);
  for (const Candidate& c : candidates) race.offer(c.value, c.id);
  return race.winner();
}

int32_t race(std::span<const float> logits, const Candidate& largest, const Draw& draw) {
  Race race(draw);
  race.offer(largest.value, largest.id);  // first, so that most of the others are passed over
  const auto scale = static_cast<float>(draw.scale);
  constexpr float kLn2 = 0.69314718F;
  const size_t whole = logits.size() / kIds * kIds;
  for (size_t first = 0; first < whole; first += kIds) {
    const float* const l = logits.data() + first;
    // What f32 may have rounded away in the bounds below: far less than this.
    const auto best = static_cast<float>(race.best() - 1e-3 - 1e-5 * std::fabs(race.best()));
    float top = l[0];
    for (size_t j = 1; j < kIds; ++j) top = top < l[j] ? l[j] : top;
    if (top * scale + static_cast<float>(kLargestGumbel) < best) continue;
    const std::array<uint32_t, kIds> high = high_words(draw, static_cast<uint32_t>(first));
    // A bound of -ln(-ln u) without logarithms: it is at most -ln(1 - u), and 1 - u > 2^(e - 23)
    // with e = floor(log2 of the upper 23 bits of 1 - u), which stands in the exponent of a float.
    std::array<float, kIds> bound{};
    for (size_t j = 0; j < kIds; ++j) {
      const auto bits = static_cast<float>(static_cast<int32_t>(~high[j] >> 9));
      const int32_t e = (std::bit_cast<int32_t>(bits) >> 23) - 127;
      bound[j] = kLn2 * static_cast<float>(23 - e);
    }
    int may_win = 0;
    for (size_t j = 0; j < kBlocks; ++j) {
      may_win |= static_cast<int>(l[2 * j] * scale + bound[j] >= best) |
                 static_cast<int>(l[2 * j + 1] * scale + bound[kBlocks + j] >= best);
    }
    if (may_win == 0) continue;
    for (size_t j = 0; j < kIds; ++j) {
      if (l[j] * scale + bound[(j & 1U) * kBlocks + j / 2] >= best) {
        race.offer(l[j], static_cast<int32_t>(first + j));
      }
    }
  }
  for (size_t i = whole; i < logits.size(); ++i) race.offer(logits[i], static_cast<int32_t>(i));
  return race.winner();
}

}  // namespace chimere::sampling
