// The K-quants that can be written.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/clones.h"
#include "quant/encoders.h"
#include "quant/fit.h"
#include "quant/quant.h"
#include "quant/super_fit.h"

namespace chimere::quant {
namespace {

// Sub-blocks of Q4_K and Q5_K.
constexpr int kSub = 32;
constexpr int kSubs = kSuperBlock / kSub;
// Of Q2_K, Q3_K and Q6_K.
constexpr int kShortSub = 16;
constexpr int kShortSubs = kSuperBlock / kShortSub;

// Q2_K, Q4_K and Q5_K before packing: x ~ d * scale * q - dmin * min.
template <int kSubBlocks, int kMaxScale>
struct AffineSuper {
  static constexpr int kCount = kSuperBlock / kSubBlocks;  // elements of a sub-block
  static constexpr int kLargestScale = kMaxScale;
  float d = 0;
  float dmin = 0;
  std::array<int, kSubBlocks> scale{};
  std::array<int, kSubBlocks> min{};
  std::array<uint8_t, kSuperBlock> q{};
  double error = std::numeric_limits<double>::max();
};

// The best integers near the target scale and minimum of sub-block s, and its levels.
template <class Super>
void choose(const float* x, const float* w, int levels, Affine wanted, int s, Super& out) {
  constexpr int kCount = Super::kCount;
  constexpr int kMaxScale = Super::kLargestScale;
  const int scale = static_cast<int>(round_to(wanted.d * inverse(out.d), 0, kMaxScale));
  const int min = static_cast<int>(round_to(-wanted.m * inverse(out.dmin), 0, kMaxScale));
  // Candidates are up to three scales times up to five minima.
  constexpr int kMinima = 5;
  float d[kCandidates];
  float m[kCandidates];
  float id[kCandidates];
  float error[kCandidates] = {};
  int a[kCandidates];
  int b[kCandidates];
  for (int c = 0; c < kCandidates; ++c) {
    a[c] = std::clamp(scale + std::min(c / kMinima, 2) - 1, 0, kMaxScale);
    b[c] = std::clamp(min + c % kMinima - kMinima / 2, 0, kMaxScale);
    d[c] = out.d * static_cast<float>(a[c]);
    m[c] = -(out.dmin * static_cast<float>(b[c]));
    id[c] = inverse(d[c]);
  }
  const auto top = static_cast<float>(levels);
  for (int i = s * kCount; i < (s + 1) * kCount; ++i) {
    for (int c = 0; c < kCandidates; ++c) {
      const float l = round_to((x[i] - m[c]) * id[c], 0, top);
      const float e = x[i] - d[c] * l - m[c];
      error[c] += w[i] * e * e;
    }
  }
  int best = 0;
  for (int c = 1; c < kCandidates; ++c) best = error[c] < error[best] ? c : best;
  out.scale[static_cast<size_t>(s)] = a[best];
  out.min[static_cast<size_t>(s)] = b[best];
  put_affine_levels(x + s * kCount, kCount, {d[best], m[best]}, levels, out.q.data() + s * kCount);
  out.error += double{error[best]};
}

// Least squares for d and dmin over fixed integers.
template <class Super>
Affine refit(const float* x, const float* w, const Super& f) {
  double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
  for (size_t s = 0; s < f.scale.size(); ++s) {
    // Sums of a sub-block, whose scale and minimum are constant.
    float lanes[5][kCandidates] = {};
    for (size_t i = s * Super::kCount; i < (s + 1) * Super::kCount; i += kCandidates) {
      for (size_t j = 0; j < kCandidates; ++j) {
        const float l = f.q[i + j];
        lanes[0][j] += w[i + j];
        lanes[1][j] += w[i + j] * l;
        lanes[2][j] += w[i + j] * l * l;
        lanes[3][j] += w[i + j] * x[i + j];
        lanes[4][j] += w[i + j] * x[i + j] * l;
      }
    }
    const float sw = sum_of(lanes[0]);
    const float q = sum_of(lanes[1]);
    const float qq = sum_of(lanes[2]);
    const float xw = sum_of(lanes[3]);
    const float xq = sum_of(lanes[4]);
    const double scale = f.scale[s];
    const double min = f.min[s];
    aa += scale * scale * double{qq};
    ab -= scale * min * double{q};
    bb += min * min * double{sw};
    xa += scale * double{xq};
    xb -= min * double{xw};
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant <= 0) return {aa > 0 ? static_cast<float>(xa / aa) : f.d, f.dmin};
  return {static_cast<float>((xa * bb - xb * ab) / determinant),
          static_cast<float>((xb * aa - xa * ab) / determinant)};
}

template <int kSubBlocks, int kMaxScale>
AffineSuper<kSubBlocks, kMaxScale> fit_affine_super(const float* x, const float* w, int levels) {
  constexpr int kRounds = 3;
  constexpr int kCount = kSuperBlock / kSubBlocks;
  std::array<Affine, kSubBlocks> wanted;
  Affine largest;
  for (int s = 0; s < kSubBlocks; ++s) {
    const Affine a =
        fit_affine(x + s * kCount, w + s * kCount, kCount, levels, /*only_negative=*/true);
    wanted[static_cast<size_t>(s)] = a;
    largest = {std::max(largest.d, a.d), std::max(largest.m, -a.m)};
  }
  Affine start = {largest.d / kMaxScale, largest.m / kMaxScale};
  AffineSuper<kSubBlocks, kMaxScale> best;
  for (int round = 0; round < kRounds; ++round) {
    AffineSuper<kSubBlocks, kMaxScale> now;
    now.d = storable(start.d);
    now.dmin = storable(start.m);
    now.error = 0;
    for (int s = 0; s < kSubBlocks; ++s)
      choose(x, w, levels, wanted[static_cast<size_t>(s)], s, now);
    if (now.error >= best.error) break;
    best = now;
    start = refit(x, w, now);
  }
  return best;
}

using KSuper = AffineSuper<kSubs, 63>;
KSuper fit_k_super(const float* x, const float* w, int levels) {
  return fit_affine_super<kSubs, 63>(x, w, levels);
}

// The inverse of scale_min().
void pack_scales(const KSuper& f, uint8_t* out) {
  for (size_t j = 0; j < 4; ++j) {
    out[j] = static_cast<uint8_t>(f.scale[j] | ((f.scale[j + 4] >> 4) << 6));
    out[j + 4] = static_cast<uint8_t>(f.min[j] | ((f.min[j + 4] >> 4) << 6));
    out[j + 8] = static_cast<uint8_t>((f.scale[j + 4] & 15) | ((f.min[j + 4] & 15) << 4));
  }
}

void pack_nibble_pairs(const uint8_t* q, uint8_t* qs) {
  for (int pair = 0; pair < kSubs / 2; ++pair) {
    for (int l = 0; l < kSub; ++l) {
      const int low = q[pair * 2 * kSub + l] & 15;
      const int high = q[(pair * 2 + 1) * kSub + l] & 15;
      qs[pair * kSub + l] = static_cast<uint8_t>(low | (high << 4));
    }
  }
}

// Byte l of a half's 32 bytes holds elements l, 32 + l, 64 + l, 96 + l, two bits each.
void pack_two_bits(const uint8_t* q, uint8_t* qs) {
  std::memset(qs, 0, kSuperBlock / 4);
  for (int i = 0; i < kSuperBlock; ++i) {
    qs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>((q[i] & 3) << (i % 128 / 32 * 2));
  }
}

// Symmetric super-blocks of sixteen sub-blocks: levels lo..hi, scales from `lowest` to
// -`lowest` - 1.
SuperFit<kShortSubs> fit_symmetric_super(const float* x, const float* w, float lo, float hi,
                                         int lowest) {
  const auto level = [=](float v) { return round_to(v, lo, hi); };
  std::array<float, kShortSubs> wanted;
  for (int s = 0; s < kShortSubs; ++s) {
    wanted[static_cast<size_t>(s)] =
        fit_scale(x + s * kShortSub, w + s * kShortSub, kShortSub, lo, hi, level);
  }
  // Maps the extreme scale to the longer end.
  const float d = largest_of(wanted) / static_cast<float>(lowest);
  const auto levels = [&](int first, int count, float scale, float* v) {
    return double{put_levels(x + first, w + first, count, scale, level, v)};
  };
  return fit_super<kShortSubs>(x, w, d, wanted, Multiplier{0, 1, lowest, -lowest - 1}, levels);
}

}  // namespace

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ2K& b) {
  const auto f = fit_affine_super<kShortSubs, 15>(x, w, 3);
  b.d = f32_to_f16(f.d);
  b.dmin = f32_to_f16(f.dmin);
  for (size_t s = 0; s < kShortSubs; ++s) {
    b.scales[s] = static_cast<uint8_t>(f.scale[s] | (f.min[s] << 4));
  }
  pack_two_bits(f.q.data(), b.qs);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ3K& b) {
  const auto f = fit_symmetric_super(x, w, -4, 3, -32);
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (int s = 0; s < kShortSubs; ++s) {  // the inverse of q3_scale()
    const int scale = f.scale[static_cast<size_t>(s)] + 32;
    b.scales[s % 8] |= static_cast<uint8_t>((scale & 15) << (s / 8 * 4));
    b.scales[8 + s % 4] |= static_cast<uint8_t>((scale >> 4) << (s / 4 * 2));
  }
  std::array<uint8_t, kSuperBlock> q;
  for (int i = 0; i < kSuperBlock; ++i) {
    const auto at = static_cast<size_t>(i);
    q[at] = static_cast<uint8_t>(static_cast<int>(f.v[at]) + 4);
    b.hmask[i % 32] |= static_cast<uint8_t>((q[at] >> 2) << (i / 32));
  }
  pack_two_bits(q.data(), b.qs);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ4K& b) {
  const KSuper f = fit_k_super(x, w, 15);
  b.d = f32_to_f16(f.d);
  b.dmin = f32_to_f16(f.dmin);
  pack_scales(f, b.scales);
  pack_nibble_pairs(f.q.data(), b.qs);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ5K& b) {
  const KSuper f = fit_k_super(x, w, 31);
  b.d = f32_to_f16(f.d);
  b.dmin = f32_to_f16(f.dmin);
  pack_scales(f, b.scales);
  pack_nibble_pairs(f.q.data(), b.qs);
  std::memset(b.qh, 0, sizeof b.qh);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int fifth = f.q[static_cast<size_t>(i)] >> 4;
    b.qh[i % kSub] |= static_cast<uint8_t>(fifth << (i / kSub));
  }
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ6K& b) {
  const auto f = fit_symmetric_super(x, w, -32, 31, -128);
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (int s = 0; s < kShortSubs; ++s) {
    b.scales[s] = static_cast<int8_t>(f.scale[static_cast<size_t>(s)]);
  }
  for (int i = 0; i < kSuperBlock; ++i) {
    const int q = static_cast<int>(f.v[static_cast<size_t>(i)]) + 32;
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const int l = i % 32;
    b.ql[half * 64 + quarter % 2 * 32 + l] |= static_cast<uint8_t>((q & 15) << (quarter / 2 * 4));
    b.qh[half * 32 + l] |= static_cast<uint8_t>((q >> 4) << (quarter * 2));
  }
}

}  // namespace chimere::quant
