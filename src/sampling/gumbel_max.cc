#include "sampling/gumbel_max.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/philox.h"
#include "kernels/token_choice.h"
#include "sampling/targets.h"

namespace chimere::sampling {
namespace {

/// u has 52 bits: -ln(-ln u) is at most 53 ln 2.
constexpr double kLargestGumbel = 37.0;

class GumbelMax {
 public:
  explicit GumbelMax(const Draw& draw) : draw_(draw) {}

  void offer(float logit, int32_t id) {
    const double base = logit * draw_.scale;
    if (!(base + kLargestGumbel >= best_)) return;
    const double score = kernels::gumbel_score(base, draw_.seed, draw_.position, id);
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

/// Explicit compiler vectors, because the loop is not vectorised automatically: kLanes blocks of
/// random numbers, two ids each.
template <int kLanes>
struct Vector {
  static constexpr size_t kIds = 2 * kLanes;
  using Words [[gnu::vector_size(8 * kLanes)]] = uint64_t;
  using Ints [[gnu::vector_size(8 * kLanes)]] = int32_t;
  using Floats [[gnu::vector_size(8 * kLanes)]] = float;
};

constexpr uint64_t kLow = 0xffffffff;

/// The high words of the random numbers of the ids from `first` (even).
template <int kLanes>
[[gnu::always_inline]] inline void high_words(const Draw& draw, size_t first,
                                              typename Vector<kLanes>::Ints& out) {
  using Words = typename Vector<kLanes>::Words;
  const auto counter = kernels::counter_of(draw.position, static_cast<uint32_t>(first),
                                           kernels::RandomStream::kTokens);
  std::array<uint64_t, kLanes> blocks;
  for (size_t lane = 0; lane < kLanes; ++lane) blocks[lane] = counter[0] + lane;
  Words c0;
  std::memcpy(&c0, blocks.data(), sizeof(c0));
  Words c1 = Words{} + counter[1];
  Words c2 = Words{} + counter[2];
  Words c3 = Words{} + counter[3];
  kernels::philox4x32(c0, c1, c2, c3, kernels::key_of(draw.seed));
  // Those of an even id and the following odd id, in memory order.
  const Words high = (c1 & kLow) | c3 << 32;
  std::memcpy(&out, &high, sizeof(out));
}

/// Whether any lane is non-zero.
template <typename Ints>
[[gnu::always_inline]] inline bool any(const Ints& ints) {
  std::array<uint64_t, sizeof(Ints) / 8> parts;
  std::memcpy(parts.data(), &ints, sizeof(ints));
  uint64_t all = 0;
  for (const uint64_t part : parts) all |= part;
  return all != 0;
}

template <int kLanes>
[[gnu::always_inline]] inline int32_t gumbel_argmax_in_blocks(std::span<const float> logits,
                                                              const Candidate& largest,
                                                              const Draw& draw,
                                                              kernels::TokenMask set) {
  using Ints = typename Vector<kLanes>::Ints;
  using Floats = typename Vector<kLanes>::Floats;
  constexpr size_t kIds = Vector<kLanes>::kIds;
  GumbelMax search(draw);
  search.offer(largest.value, largest.id);  // first, so that most others are skipped
  const auto scale = static_cast<float>(draw.scale);
  constexpr float kLn2 = 0.69314718F;
  const auto contained = [set](size_t id) {
    return set.empty() || kernels::contains(set, static_cast<int32_t>(id));
  };
  const size_t whole = logits.size() / kIds * kIds;
  for (size_t first = 0; first < whole; first += kIds) {
    // Slack for rounding of the f32 bounds below, which is far smaller.
    const auto best = static_cast<float>(search.best() - 1e-3 - 1e-5 * std::fabs(search.best()));
    Floats scaled;
    std::memcpy(&scaled, logits.data() + first, sizeof(scaled));
    scaled *= scale;
    if (!any(scaled >= best - static_cast<float>(kLargestGumbel))) continue;
    Ints high;
    high_words<kLanes>(draw, first, high);
    // An upper bound of -ln(-ln u) without logarithms: it is at most -ln(1 - u), and 1 - u > 2^(e -
    // 23) with e = floor(log2 of the upper 23 bits of 1 - u), read from the exponent of a float.
    const Floats bits = __builtin_convertvector(~high >> 9 & 0x7fffff, Floats);
    Ints exponent;
    std::memcpy(&exponent, &bits, sizeof(exponent));
    exponent = (exponent >> 23) - 127;
    const Floats bound = kLn2 * __builtin_convertvector(23 - exponent, Floats);
    const Ints may_win = scaled + bound >= best;
    if (!any(may_win)) continue;
    for (size_t j = 0; j < kIds; ++j) {
      const size_t id = first + j;
      if (may_win[j] != 0 && contained(id)) search.offer(logits[id], static_cast<int32_t>(id));
    }
  }
  for (size_t id = whole; id < logits.size(); ++id) {
    if (contained(id)) search.offer(logits[id], static_cast<int32_t>(id));
  }
  return search.winner();
}

// Variants by instruction set, selected at run time; all give the same bits.
#if defined(__x86_64__)
CHIMERE_FOR_AVX512 int32_t gumbel_argmax_avx512(std::span<const float> l, const Candidate& c,
                                                const Draw& d, kernels::TokenMask set) {
  return gumbel_argmax_in_blocks<8>(l, c, d, set);
}
CHIMERE_FOR_AVX2 int32_t gumbel_argmax_avx2(std::span<const float> l, const Candidate& c,
                                            const Draw& d, kernels::TokenMask set) {
  return gumbel_argmax_in_blocks<4>(l, c, d, set);
}
#endif

}  // namespace

int32_t gumbel_argmax(std::span<const Candidate> candidates, const Draw& draw) {
  GumbelMax search(draw);
  for (const Candidate& c : candidates) search.offer(c.value, c.id);
  return search.winner();
}

int32_t gumbel_argmax(std::span<const float> logits, const Candidate& largest, const Draw& draw,
                      kernels::TokenMask set) {
#if defined(__x86_64__)
  static const auto kBest = has_avx512() ? gumbel_argmax_avx512
                            : has_avx2() ? gumbel_argmax_avx2
                                         : nullptr;
  if (kBest != nullptr) return kBest(logits, largest, draw, set);
#endif
  return gumbel_argmax_in_blocks<2>(logits, largest, draw, set);
}

}  // namespace chimere::sampling
