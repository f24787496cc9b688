// The K-quants that can be written.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/encoders.h"
#include "quant/fit.h"
#include "quant/quant.h"
#include "quant/super_fit.h"

namespace chimere::quant {
namespace {

constexpr int kSub = 32;
constexpr int kSubs = kSuperBlock / kSub;
constexpr int kMaxScale = 63;

// Q4_K and Q5_K before packing: x ~ d * scale * q - dmin * min.
struct AffineSuper {
  float d = 0;
  float dmin = 0;
  std::array<int, kSubs> scale{};
  std::array<int, kSubs> min{};
  std::array<uint8_t, kSuperBlock> q{};
  double error = std::numeric_limits<double>::max();
};

int nearest_scale(float v) { return static_cast<int>(round_to(v, 0, kMaxScale)); }

// The best integers near the wanted scale and minimum of sub-block s, and its levels.
void choose(const float* x, const float* w, int levels, Affine wanted, int s, AffineSuper& out) {
  const int scale = nearest_scale(wanted.d * inverse(out.d));
  const int min = nearest_scale(-wanted.m * inverse(out.dmin));
  double least = std::numeric_limits<double>::max();
  std::array<uint8_t, kSub> q;
  for (int a = std::max(scale - 1, 0); a <= std::min(scale + 1, kMaxScale); ++a) {
    for (int b = std::max(min - 1, 0); b <= std::min(min + 1, kMaxScale); ++b) {
      const Affine stored = {out.d * static_cast<float>(a), -(out.dmin * static_cast<float>(b))};
      const double error =
          affine_levels(x + s * kSub, w + s * kSub, kSub, stored, levels, q.data());
      if (error >= least) continue;
      least = error;
      out.scale[static_cast<size_t>(s)] = a;
      out.min[static_cast<size_t>(s)] = b;
      std::copy(q.begin(), q.end(), out.q.begin() + s * kSub);
    }
  }
  out.error += least;
}

// Least squares for d and dmin over fixed integers.
Affine refit(const float* x, const float* w, const AffineSuper& f) {
  double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
  for (size_t i = 0; i < kSuperBlock; ++i) {
    const double a = double(f.scale[i / kSub]) * f.q[i];
    const double b = -f.min[i / kSub];
    aa += w[i] * a * a;
    ab += w[i] * a * b;
    bb += w[i] * b * b;
    xa += double{w[i]} * double{x[i]} * a;
    xb += double{w[i]} * double{x[i]} * b;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant <= 0) return {aa > 0 ? static_cast<float>(xa / aa) : f.d, f.dmin};
  return {static_cast<float>((xa * bb - xb * ab) / determinant),
          static_cast<float>((xb * aa - xa * ab) / determinant)};
}

AffineSuper fit_affine_super(const float* x, const float* w, int levels) {
  constexpr int kRounds = 3;
  std::array<Affine, kSubs> wanted;
  Affine largest;
  for (int s = 0; s < kSubs; ++s) {
    const Affine a = fit_affine(x + s * kSub, w + s * kSub, kSub, levels, /*only_negative=*/true);
    wanted[static_cast<size_t>(s)] = a;
    largest = {std::max(largest.d, a.d), std::max(largest.m, -a.m)};
  }
  Affine start = {largest.d / kMaxScale, largest.m / kMaxScale};
  AffineSuper best;
  for (int round = 0; round < kRounds; ++round) {
    AffineSuper now;
    now.d = storable(start.d);
    now.dmin = storable(start.m);
    now.error = 0;
    for (int s = 0; s < kSubs; ++s) choose(x, w, levels, wanted[static_cast<size_t>(s)], s, now);
    if (now.error >= best.error) break;
    best = now;
    start = refit(x, w, now);
  }
  return best;
}

// The inverse of scale_min().
void pack_scales(const AffineSuper& f, uint8_t* out) {
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

}  // namespace

void encode_block(const float* x, const float* w, BlockQ4K& b) {
  const AffineSuper f = fit_affine_super(x, w, 15);
  b.d = f32_to_f16(f.d);
  b.dmin = f32_to_f16(f.dmin);
  pack_scales(f, b.scales);
  pack_nibble_pairs(f.q.data(), b.qs);
}

void encode_block(const float* x, const float* w, BlockQ5K& b) {
  const AffineSuper f = fit_affine_super(x, w, 31);
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

void encode_block(const float* x, const float* w, BlockQ6K& b) {
  constexpr int kSubs6 = 16;
  constexpr int kSub6 = 16;
  const auto level = [](float v) { return round_to(v, -32, 31); };
  std::array<float, kSubs6> wanted;
  for (int s = 0; s < kSubs6; ++s) {
    wanted[static_cast<size_t>(s)] = fit_scale(x + s * kSub6, w + s * kSub6, kSub6, -32, 31, level);
  }
  // The extreme scale goes to -128, the longer end of int8.
  const float d = largest_of(wanted) / -128.0F;
  const auto levels = [&](int first, int count, float scale, float* v) {
    const float id = inverse(scale);
    double error = 0;
    for (int i = 0; i < count; ++i) {
      v[i] = level(x[first + i] * id);
      const double e = double{x[first + i]} - double{scale} * double{v[i]};
      error += double{w[first + i]} * e * e;
    }
    return error;
  };
  const auto f = fit_super<kSubs6>(x, w, d, wanted, Multiplier{0, 1, -128, 127}, levels);
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (int s = 0; s < kSubs6; ++s)
    b.scales[s] = static_cast<int8_t>(f.scale[static_cast<size_t>(s)]);
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
