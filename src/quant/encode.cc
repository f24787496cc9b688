// Dispatch by type, and the formats whose block is not split further.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "quant/clones.h"
#include "quant/codebooks.h"
#include "quant/encoders.h"
#include "quant/fit.h"
#include "quant/quant.h"
#include "quant/super_fit.h"

namespace chimere::quant {
namespace {

constexpr int kHalf = kBlock / 2;

// `q` are 32 numbers below 32; a fifth bit goes to `qh` where the format has one.
void pack_nibbles(const uint8_t* q, uint8_t* qs) {
  for (int j = 0; j < kHalf; ++j) {
    qs[j] = static_cast<uint8_t>((q[j] & 15) | ((q[j + kHalf] & 15) << 4));
  }
}
void pack_fifth_bits(const uint8_t* q, uint8_t* qh) {
  std::memset(qh, 0, 4);
  for (int j = 0; j < kBlock; ++j) qh[j / 8] |= static_cast<uint8_t>((q[j] >> 4) << (j % 8));
}

// Levels -half..half - 1, stored with a bias of half. Returns the stored scale.
uint16_t fit_symmetric(const float* x, const float* w, int half, uint8_t* q) {
  const auto lo = static_cast<float>(-half);
  const auto hi = static_cast<float>(half - 1);
  const auto level = [&](float v) { return round_to(v, lo, hi); };
  const float d = storable(fit_scale(x, w, kBlock, lo, hi, level));
  const float id = inverse(d);
  for (int j = 0; j < kBlock; ++j) {
    q[j] = static_cast<uint8_t>(static_cast<int>(level(x[j] * id)) + half);
  }
  return f32_to_f16(d);
}

struct StoredAffine {
  uint16_t d;
  uint16_t m;
};
StoredAffine fit_min(const float* x, const float* w, int levels, uint8_t* q) {
  Affine a = fit_affine(x, w, kBlock, levels, /*only_negative=*/false);
  a = {storable(a.d), storable(a.m)};
  put_affine_levels(x, kBlock, a, levels, q);
  return {f32_to_f16(a.d), f32_to_f16(a.m)};
}

// Index of the nearest of the sixteen values: the number of midpoints below v.
size_t nearest_iq4(float v) {
  size_t i = 0;
  for (size_t k = 0; k + 1 < kIq4NlValues.size(); ++k) {
    const float middle = 0.5F * static_cast<float>(kIq4NlValues[k] + kIq4NlValues[k + 1]);
    i += v > middle ? 1 : 0;
  }
  return i;
}

// Its value, by the differences of the values whose midpoints are below v.
float iq4_level(float v) {
  auto value = static_cast<float>(kIq4NlValues.front());
  for (size_t k = 0; k + 1 < kIq4NlValues.size(); ++k) {
    const float middle = 0.5F * static_cast<float>(kIq4NlValues[k] + kIq4NlValues[k + 1]);
    value += v > middle ? static_cast<float>(kIq4NlValues[k + 1] - kIq4NlValues[k]) : 0.0F;
  }
  return value;
}

// The nearest of MXFP4's sixteen values; of two equal ones (-0 and 0) the lower code.
size_t nearest_mxfp4(float v) {
  const float magnitude = std::fabs(v);
  size_t i = 0;
  for (size_t k = 0; k < 7; ++k) {
    const float middle = 0.5F * static_cast<float>(kMxfp4Values[k] + kMxfp4Values[k + 1]);
    i += magnitude > middle ? 1 : 0;
  }
  return v < 0 && i > 0 ? i + 8 : i;
}
float mxfp4_level(float v) { return static_cast<float>(kMxfp4Values[nearest_mxfp4(v)]); }

// Weighted error of x by d * level(x / d), in double precision: MXFP4's scales span all of f32.
template <typename Level>
double scaled_error(const float* x, const float* w, int n, float d, Level level) {
  const float id = inverse(d);
  double error = 0;
  for (int i = 0; i < n; ++i) {
    const double e = double{x[i]} - double{d} * double{level(x[i] * id)};
    error += double{w[i]} * e * e;
  }
  return error;
}

// Larger than any value of a format with an f16 scale.
constexpr float kLargestInput = 1e12F;

template <typename Block, int kElements>
void encode_blocks(const float* src, void* dst, int64_t n, const float* importance) {
  auto* blocks = static_cast<Block*>(dst);
  std::array<float, kElements> weights;
  weights.fill(1.0F);
  std::array<float, kElements> clamped;
  for (int64_t i = 0; i < n / kElements; ++i) {
    if (importance != nullptr) {  // relative to the largest, so that sums in f32 do not overflow
      const float* w = importance + i * kElements;
      const float largest = *std::max_element(w, w + kElements);
      for (size_t j = 0; j < kElements; ++j) weights[j] = largest == 0.0F ? 1.0F : w[j] / largest;
    }
    const float* x = src + i * kElements;
    if constexpr (!std::is_same_v<Block, BlockMxfp4>) {
      for (size_t j = 0; j < kElements; ++j) {
        clamped[j] = std::clamp(x[j], -kLargestInput, kLargestInput);
      }
      x = clamped.data();
    }
    encode_block(x, weights.data(), blocks[i]);
  }
}

template <typename Convert>
void encode_halves(const float* src, void* dst, int64_t n, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t h = convert(src[i]);
    std::memcpy(static_cast<char*>(dst) + 2 * i, &h, sizeof h);
  }
}

Status check_inputs(const float* src, int64_t n, const float* importance) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(src[i])) {
      return invalid_argument("element " + std::to_string(i) +
                              " is infinite or NaN, which no block format can represent");
    }
    if (importance != nullptr && (!std::isfinite(importance[i]) || importance[i] < 0)) {
      return invalid_argument("the importance of element " + std::to_string(i) +
                              " is negative, infinite or NaN");
    }
  }
  return {};
}

}  // namespace

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ4_0& b) {
  uint8_t q[kBlock];
  b.d = fit_symmetric(x, w, 8, q);
  pack_nibbles(q, b.qs);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ5_0& b) {
  uint8_t q[kBlock];
  b.d = fit_symmetric(x, w, 16, q);
  pack_nibbles(q, b.qs);
  pack_fifth_bits(q, b.qh);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ4_1& b) {
  uint8_t q[kBlock];
  const StoredAffine a = fit_min(x, w, 15, q);
  b.d = a.d;
  b.m = a.m;
  pack_nibbles(q, b.qs);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ5_1& b) {
  uint8_t q[kBlock];
  const StoredAffine a = fit_min(x, w, 31, q);
  b.d = a.d;
  b.m = a.m;
  pack_nibbles(q, b.qs);
  pack_fifth_bits(q, b.qh);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockQ8_0& b) {
  const auto level = [](float v) { return round_to(v, -127, 127); };
  const float d = storable(fit_scale(x, w, kBlock, -127, 127, level));
  const float id = inverse(d);
  b.d = f32_to_f16(d);
  for (int j = 0; j < kBlock; ++j) b.qs[j] = static_cast<int8_t>(level(x[j] * id));
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq4Nl& b) {
  const float d =
      storable(fit_scale(x, w, kBlock, kIq4NlValues.front(), kIq4NlValues.back(), iq4_level));
  const float id = inverse(d);
  uint8_t q[kBlock];
  for (int j = 0; j < kBlock; ++j) q[j] = static_cast<uint8_t>(nearest_iq4(x[j] * id));
  b.d = f32_to_f16(d);
  pack_nibbles(q, b.qs);
}

void encode_block(const float* x, const float* w, BlockMxfp4& b) {
  // The scale is a power of two: tries those around the one that maps the extreme element to the
  // largest value. That value times the largest scale used is finite.
  constexpr float kLargest = 12;
  constexpr int kLargestScale = 252;
  const float e = std::fabs(extreme(x, w, kBlock));
  int exponent = 0;
  std::frexp(e / kLargest, &exponent);
  double least = std::numeric_limits<double>::max();
  b.e = 0;
  for (int candidate = exponent + 126; candidate <= exponent + 129; ++candidate) {
    const auto stored = static_cast<uint8_t>(std::clamp(candidate, 0, kLargestScale));
    const double error = scaled_error(x, w, kBlock, half_e8m0(stored), mxfp4_level);
    if (error >= least) continue;
    least = error;
    b.e = stored;
  }
  const float id = inverse(half_e8m0(b.e));
  uint8_t q[kBlock];
  for (int j = 0; j < kBlock; ++j) q[j] = static_cast<uint8_t>(nearest_mxfp4(x[j] * id));
  pack_nibbles(q, b.qs);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq4Xs& b) {
  constexpr int kSubs = kSuperBlock / kBlock;
  std::array<float, kSubs> wanted;
  for (int s = 0; s < kSubs; ++s) {
    wanted[static_cast<size_t>(s)] =
        fit_scale(x + s * kBlock, w + s * kBlock, kBlock, kIq4NlValues.front(), kIq4NlValues.back(),
                  iq4_level);
  }
  // Maps the extreme scale to -32, the longer end.
  const auto levels = [&](int first, int count, float scale, float* v) {
    return double{put_levels(x + first, w + first, count, scale, iq4_level, v)};
  };
  const auto f = fit_super<kSubs>(x, w, largest_of(wanted) / -32.0F, wanted,
                                  Multiplier{0, 1, -32, 31}, levels);
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (int s = 0; s < kSubs; ++s) {
    const int scale = f.scale[static_cast<size_t>(s)] + 32;
    b.scales_l[s / 2] |= static_cast<uint8_t>((scale & 15) << (s % 2 * 4));
    b.scales_h = static_cast<uint16_t>(b.scales_h | (scale >> 4) << (2 * s));
    const float* v = f.v.data() + s * kBlock;
    uint8_t q[kBlock];
    for (int j = 0; j < kBlock; ++j) q[j] = static_cast<uint8_t>(nearest_iq4(v[j]));
    pack_nibbles(q, b.qs + s * kBlock / 2);
  }
}

bool can_encode(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ1_S:
    case DType::kIQ1_M:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
    case DType::kIQ2_K:
    case DType::kIQ3_K:
    case DType::kIQ4_K:
    case DType::kIQ5_K:
    case DType::kMXFP4:
      return true;
    default:
      return false;
  }
}

Status encode(DType type, const float* src, void* dst, int64_t n, const float* importance) {
  const DTypeInfo& info = dtype_info(type);
  if (!can_encode(type)) {
    return unsupported("weights cannot be encoded as " + std::string(info.name) +
                       "; choose a type that can be encoded, such as q4_K");
  }
  if (n < 0 || n % info.block_elements != 0) {
    return invalid_argument(std::to_string(n) + " elements are not a whole number of blocks of " +
                            std::string(info.name));
  }
  if (info.quantised) CHIMERE_CHECK_OK(check_inputs(src, n, importance));
  switch (type) {
    case DType::kF32:
      std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      break;
    case DType::kF16:
      encode_halves(src, dst, n, f32_to_f16);
      break;
    case DType::kBF16:
      encode_halves(src, dst, n, f32_to_bf16);
      break;
    case DType::kQ4_0:
      encode_blocks<BlockQ4_0, kBlock>(src, dst, n, importance);
      break;
    case DType::kQ4_1:
      encode_blocks<BlockQ4_1, kBlock>(src, dst, n, importance);
      break;
    case DType::kQ5_0:
      encode_blocks<BlockQ5_0, kBlock>(src, dst, n, importance);
      break;
    case DType::kQ5_1:
      encode_blocks<BlockQ5_1, kBlock>(src, dst, n, importance);
      break;
    case DType::kQ8_0:
      encode_blocks<BlockQ8_0, kBlock>(src, dst, n, importance);
      break;
    case DType::kIQ4_NL:
      encode_blocks<BlockIq4Nl, kBlock>(src, dst, n, importance);
      break;
    case DType::kMXFP4:
      encode_blocks<BlockMxfp4, kBlock>(src, dst, n, importance);
      break;
    case DType::kQ2_K:
      encode_blocks<BlockQ2K, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kQ3_K:
      encode_blocks<BlockQ3K, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kQ4_K:
      encode_blocks<BlockQ4K, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kQ5_K:
      encode_blocks<BlockQ5K, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kQ6_K:
      encode_blocks<BlockQ6K, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ4_XS:
      encode_blocks<BlockIq4Xs, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ3_XXS:
      encode_blocks<BlockIq3Xxs, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ3_S:
      encode_blocks<BlockIq3S, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ2_XXS:
      encode_blocks<BlockIq2Xxs, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ2_XS:
      encode_blocks<BlockIq2Xs, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ2_S:
      encode_blocks<BlockIq2S, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ1_S:
      encode_blocks<BlockIq1S, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ1_M:
      encode_blocks<BlockIq1M, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kTQ1_0:
      encode_blocks<BlockTq10, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kTQ2_0:
      encode_blocks<BlockTq20, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ2_K:
      encode_blocks<BlockIq2K, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ3_K:
      encode_blocks<BlockIq3K, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ4_K:
      encode_blocks<BlockIq4K, kSuperBlock>(src, dst, n, importance);
      break;
    case DType::kIQ5_K:
      encode_blocks<BlockIq5K, kSuperBlock>(src, dst, n, importance);
      break;
    default:
      break;  // excluded by can_encode()
  }
  return {};
}

}  // namespace chimere::quant
