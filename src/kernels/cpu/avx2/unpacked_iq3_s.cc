// The product of UnpackedIq3S with AVX2: lanes are weight rows, as in a tile, but the weights of a
// few activation rows are used as they stream by.
#include "kernels/cpu/unpacked_iq3_s.h"

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/tile_product.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

struct UnpackedWeights {
  static constexpr int kGroup = 32;
  static constexpr bool kMinimum = false;
  static constexpr bool kSigned = false;
};
/// The weights q of a block, of which a weight is 2 q - 15.
struct Nibbles : UnpackedWeights {
  static constexpr bool kOddNibbles = true;
  static constexpr int kOffset = -1;
  static constexpr int kLargest = 15;
};
/// 2 q + 1, which is a weight plus 16: VNNI has no step that doubles a sum.
struct OddBytes : UnpackedWeights {
  static constexpr int kOffset = 4;
  static constexpr int kLargest = 31;
};
/// The weights of a tile.
using TileWeights = std::conditional_t<kVnni, OddBytes, Nibbles>;

CHIMERE_INLINE __m256 scales_of(const UnpackedIq3S& b, int g, __m256 d) {
  const __m256i shift = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);
  const __m256i nibbles = _mm256_set1_epi32(static_cast<int32_t>(b.scales[g]));
  const __m256i scale = _mm256_and_si256(_mm256_srlv_epi32(nibbles, shift), _mm256_set1_epi32(15));
  const __m256i odd = _mm256_add_epi32(_mm256_add_epi32(scale, scale), _mm256_set1_epi32(1));
  return _mm256_mul_ps(d, _mm256_cvtepi32_ps(odd));
}

CHIMERE_INLINE __m256 eight_d(const UnpackedIq3S& b) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b.d)));
}

/// Quads 0 to 7 of group g.
CHIMERE_INLINE void quads_of(const UnpackedIq3S& b, int g, __m256i w[8]) {
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m256i v = load_bytes(b.q[g] + 32 * j);
    w[j] = _mm256_and_si256(v, low);
    w[j + 4] = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
  }
}

/// Products of 8 weight rows with R activation rows; `sums` holds 16 R vectors.
template <int R>
[[gnu::noinline]] void dot_eight(const UnpackedIq3S* w, int64_t n, const RoundedRow* rows,
                                 float* sums, float* const* y, int64_t o, bool accumulate) {
  const RowPointers<R> x(rows, 32);
  for (int i = 0; i < kPartials * R; ++i) _mm256_store_ps(sums + 8 * i, _mm256_setzero_ps());
  for (int64_t i = 0; i < n / kSuper; ++i) {
    const UnpackedIq3S& b = w[i];
    const __m256 d = eight_d(b);
    float* const half = sums + 8 * R * (i % 2 * 8);
    for (int g = 0; g < 8; ++g) {
      __m256i q[8];
      quads_of(b, g, q);
      const __m256 s = scales_of(b, g, d);
      const int64_t group = 8 * i + g;
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const auto neg_sum = load<int32_t>(x.q[r] + x.neg_sum + 4 * group);
        // With VNNI the sum is doubled before the offset is added.
        __m256i dot = kVnni ? _mm256_setzero_si256() : offset_sum<Nibbles>(neg_sum);
        ByteSums<Nibbles> products;
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          const __m256i four = _mm256_set1_epi32(load<int32_t>(x.q[r] + 32 * group + 4 * j));
          add_products<Nibbles>(products, {q[j], q[j]}, four, j == 0, dot);
        }
        add_sums<Nibbles>(products, dot);
        if constexpr (kVnni) {
          dot = _mm256_add_epi32(_mm256_slli_epi32(dot, 1), offset_sum<Nibbles>(neg_sum));
        }
        const __m256 dx = _mm256_set1_ps(load<float>(x.q[r] + x.d + 4 * group));
        float* const sum = half + 8 * (R * g + r);
        _mm256_store_ps(sum, _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(s, dx),
                                             _mm256_load_ps(sum)));
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    __m256 s[kPartials];
    for (int p = 0; p < kPartials; ++p) s[p] = _mm256_load_ps(sums + 8 * (R * p + r));
    for (int half = kPartials / 2; half > 0; half /= 2) {
      for (int p = 0; p < half; ++p) s[p] = _mm256_add_ps(s[p], s[p + half]);
    }
    float* const out = y[r] + o;
    _mm256_storeu_ps(out, accumulate ? _mm256_add_ps(_mm256_loadu_ps(out), s[0]) : s[0]);
  }
}

void fill_tile(const UnpackedIq3S* w, int64_t n, const Tile& tile) {
  for (int64_t i = 0; i < n / kSuper; ++i) {
    const __m256 d = eight_d(w[i]);
    for (int g = 0; g < 8; ++g) {
      __m256i q[8];
      quads_of(w[i], g, q);
      const int64_t group = 8 * i + g;
      for (int j = 0; j < 8; ++j) {
        if constexpr (kVnni)
          q[j] = _mm256_or_si256(_mm256_add_epi8(q[j], q[j]), _mm256_set1_epi8(1));
        store_bytes(tile.quads + 32 * (8 * group + j), q[j]);
      }
      _mm256_store_ps(tile.scales + 8 * group, scales_of(w[i], g, d));
    }
  }
}

template <int R>
void dot_rest(int64_t left, const IntegerProduct& p, const UnpackedIq3S* w, float* sums,
              int64_t o) {
  if (left == R) {
    dot_eight<R>(w, p.n_in, p.x, sums, p.y, o, p.accumulate);
  } else if constexpr (R > 1) {
    dot_rest<R - 1>(left, p, w, sums, o);
  }
}

}  // namespace

void product_unpacked_iq3_s(const IntegerProduct& p) {
  const auto rows = [&p](int64_t o) {
    return reinterpret_cast<const UnpackedIq3S*>(p.w + o * p.w_stride);
  };
  if (p.n_rows > kTileActivations) {
    tiled_product<TileWeights>(
        p, [&](int64_t o, const Tile& tile) { fill_tile(rows(o), p.n_in, tile); });
    return;
  }
  float* const sums = tile_in(p.scratch, p.n_in, 0).sums;
  for (int64_t o = 0; o < p.n_out; o += kTileOutputs) {
    dot_rest<kTileActivations>(p.n_rows, p, rows(o), sums, o);
  }
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
