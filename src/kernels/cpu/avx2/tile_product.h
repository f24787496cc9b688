// The integer product of many activation rows with AVX2: eight weight rows are unpacked and
// transposed once into a tile that fits the first-level cache, lanes are weight rows. The integers
// of a scale group are added in 16 bits for as long as no sum can overflow (chain_quads()), so that
// a group of 32 elements of up to five bits costs 8 products, 7 sums and one float update for eight
// outputs. The partial sums of rule 4 lie in memory.
#ifndef CHIMERE_KERNELS_CPU_AVX2_TILE_PRODUCT_H_
#define CHIMERE_KERNELS_CPU_AVX2_TILE_PRODUCT_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx2/byte_products.h"
#include "kernels/cpu/integer_format.h"
#include "kernels/cpu/matmul.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// Weight rows of a tile, and how many tiles and activation rows are multiplied at a time. The sums
/// of more do not fit 16 registers; those of one tile leave a core waiting for its own results.
inline constexpr int kTileOutputs = 8;
inline constexpr int kTiles = 2;
inline constexpr int kTileActivations = 4;

/// Eight weight rows, transposed: dword i of every row in the vector at quads + 32 i, scale
/// (minimum) of group g of every row at scales + 8 g (minima + 8 g).
struct Tile {
  uint8_t* quads;
  float* scales;
  float* minima;
  uint8_t* rows;  ///< eight super-blocks and their scales before they are transposed; of all tiles
  float* sums;    ///< the partial sums; of all tiles
};
/// Bytes of `rows` and `sums`.
inline constexpr int64_t kTileBuffers =
    int64_t{kTileOutputs} * (kSuper + 2 * 64) + int64_t{kTiles} * kTileActivations * kPartials * 32;

/// The tile `number`, below kTiles.
CHIMERE_INLINE Tile tile_in(uint8_t* scratch, int64_t n_in, int number) {
  const int64_t n = padded(n_in);
  const int64_t scales = kTileOutputs * n / 16;
  Tile t;
  t.rows = scratch;
  t.sums = reinterpret_cast<float*>(t.rows + kTileOutputs * (kSuper + 2 * 64));
  t.quads =
      scratch + kTileBuffers + number * (kTileOutputs * n + 2 * scales * int64_t{sizeof(float)});
  t.scales = reinterpret_cast<float*>(t.quads + kTileOutputs * n);
  t.minima = t.scales + scales;
  return t;
}

/// Vector i: dword i of eight rows `stride` bytes apart.
CHIMERE_INLINE void transpose_8x8(const uint8_t* rows, int64_t stride, __m256i out[8]) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m256i v[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const auto* low = reinterpret_cast<const __m128i*>(rows + r * stride + 16 * half);
      const auto* high = reinterpret_cast<const __m128i*>(rows + (r + 4) * stride + 16 * half);
      v[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                     _mm_loadu_si128(high), 1);
    }
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]);
    const __m256i b = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i c = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i d = _mm256_unpackhi_epi32(v[2], v[3]);
    out[4 * half] = _mm256_unpacklo_epi64(a, b);
    out[4 * half + 1] = _mm256_unpackhi_epi64(a, b);
    out[4 * half + 2] = _mm256_unpacklo_epi64(c, d);
    out[4 * half + 3] = _mm256_unpackhi_epi64(c, d);
  }
}

/// Of a super-block, the quad that lane l of vector i of F::unpack() holds.
template <class F>
CHIMERE_INLINE constexpr int quad_of(int i, int l) {
  if constexpr (requires { F::kByEights; }) {
    return 8 * (4 * (i % 2) + l / 2) + i / 2 * 2 + l % 2;
  }
  return 8 * i + l;
}

template <class F>
[[gnu::noinline]] void unpack_tile(const uint8_t* const w[kTileOutputs], int64_t n,
                                   const Tile& tile) {
  constexpr int64_t kBytes = F::kBlocks * F::kBlockBytes;
  constexpr int kScaleVectors = F::kGroup == 16 ? 2 : 1;
  uint8_t* const scales = tile.rows + kTileOutputs * kSuper;
  uint8_t* const minima = scales + kTileOutputs * 64;
  for (int64_t i = 0; i < n; i += kSuper) {
    for (int r = 0; r < kTileOutputs; ++r) {
      const uint8_t* p = w[r] + i / kSuper * kBytes;
      uint8_t copy[kBytes];
      if (F::kBlocks > 1 && n - i < kSuper) p = padded_blocks<F>(p, n - i, copy);
      __m256i v[8];
      __m256 s[2];
      __m256 m[2];
      F::unpack(p, v);
      F::scales(p, s, m);
      for (int k = 0; k < 8; ++k) store_bytes(tile.rows + kSuper * r + 32 * k, v[k]);
      for (int k = 0; k < kScaleVectors; ++k) {
        store_bytes(scales + 64 * r + 32 * k, _mm256_castps_si256(s[k]));
        if constexpr (F::kMinimum) {
          store_bytes(minima + 64 * r + 32 * k, _mm256_castps_si256(m[k]));
        }
      }
    }
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      __m256i q[8];
      transpose_8x8(tile.rows + 32 * k, kSuper, q);
      for (int l = 0; l < 8; ++l) {
        store_bytes(tile.quads + 32 * (i / 4 + quad_of<F>(k, l)), stored_weights<F>(q[l]));
      }
    }
    for (int k = 0; k < kScaleVectors; ++k) {
      __m256i t[8];
      const int64_t group = i / F::kGroup + 8 * k;
      transpose_8x8(scales + 32 * k, 64, t);
      for (int l = 0; l < 8; ++l) store_bytes(tile.scales + 8 * (group + l), t[l]);
      if constexpr (F::kMinimum) {
        transpose_8x8(minima + 32 * k, 64, t);
        for (int l = 0; l < 8; ++l) store_bytes(tile.minima + 8 * (group + l), t[l]);
      }
    }
  }
}

/// The arrays of R activation rows. All rows of a product have the same distances between their
/// arrays (RoundedRow), so that R pointers are enough.
template <int R>
struct RowPointers {
  const int8_t* q[R];
  ptrdiff_t d;
  ptrdiff_t d_sum;
  ptrdiff_t neg_sum;

  CHIMERE_INLINE explicit RowPointers(const RoundedRow* x, int group) {
    const auto from_q = [x](const void* p) { return static_cast<const int8_t*>(p) - x[0].q; };
    for (int r = 0; r < R; ++r) q[r] = x[r].q;
    d = from_q(x[0].d);
    d_sum = from_q(x[0].d_sum);
    neg_sum = from_q(group == 32 ? x[0].neg_sum32 : x[0].neg_sum16);
  }
};

/// Adds group g of R activation rows and eight weight rows of each of T tiles to the partial sum
/// `sums` of each, [R][T] vectors, which begins with it if kFirst.
template <class F, int R, int T, bool kFirst>
CHIMERE_INLINE void add_group(const Tile* tiles, int64_t g, const RowPointers<R>& x, float* sums) {
  constexpr int kQuads = F::kGroup / 4;
  constexpr int kChain = chain_quads<F>() < kQuads ? chain_quads<F>() : kQuads;
  const int64_t block = g * F::kGroup / kActivationBlock;
  const auto offset = [&x, g](int r) {
    return offset_sum<F>(load<int32_t>(x.q[r] + x.neg_sum + 4 * g));
  };
  // Without VNNI the registers hold the 16-bit sums, and the offset comes last.
  __m256i dot[R][T];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const __m256i begin = kVnni ? offset(r) : _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) dot[r][t] = begin;
  }
#pragma GCC unroll 8
  for (int j = 0; j < kQuads; j += kChain) {
    ByteSums<F> products[R][T];
#pragma GCC unroll 8
    for (int k = j; k < j + kChain; ++k) {
      ByteWeights q[T];
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t)
        q[t] = weights_of<F>(load_bytes(tiles[t].quads + 32 * (kQuads * g + k)));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m256i four = _mm256_set1_epi32(load<int32_t>(x.q[r] + 4 * (kQuads * g + k)));
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t) {
          add_products<F>(products[r][t], q[t], four, k == j, dot[r][t]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) add_sums<F>(products[r][t], dot[r][t]);
    }
  }
  __m256 s[T];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) s[t] = _mm256_load_ps(tiles[t].scales + 8 * g);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const __m256i end = kVnni ? _mm256_setzero_si256() : offset(r);
    const __m256 d = _mm256_set1_ps(load<float>(x.q[r] + x.d + 4 * block));
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      float* const sum = sums + 8 * (T * r + t);
      __m256 v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(dot[r][t], end)),
                                 _mm256_mul_ps(s[t], d),
                                 kFirst ? _mm256_setzero_ps() : _mm256_load_ps(sum));
      if constexpr (F::kMinimum) {
        const float d_sum = F::kGroup == 32
                                ? load<float>(x.q[r] + x.d_sum + 4 * block)
                                : -(load<float>(x.q[r] + x.d + 4 * block) *
                                    static_cast<float>(load<int32_t>(x.q[r] + x.neg_sum + 4 * g)));
        v = _mm256_fnmadd_ps(_mm256_load_ps(tiles[t].minima + 8 * g), _mm256_set1_ps(d_sum), v);
      }
      _mm256_store_ps(sum, v);
    }
  }
}

/// The weights of the next tiles, which come into the second-level cache while this one is
/// multiplied: eight rows of unpacking are too short for the processor to see them coming.
class NextWeights {
 public:
  /// `steps`: how often step() will be called.
  CHIMERE_INLINE NextWeights(const uint8_t* begin, int64_t bytes, int64_t steps)
      : at_(begin), end_(begin + bytes), step_((bytes / steps + kLine) / kLine * kLine) {}
  CHIMERE_INLINE void step() {
    const uint8_t* const stop = end_ - at_ < step_ ? end_ : at_ + step_;
    for (; at_ < stop; at_ += kLine) _mm_prefetch(at_, _MM_HINT_T1);
  }

 private:
  static constexpr int64_t kLine = 64;
  const uint8_t* at_;
  const uint8_t* end_;
  int64_t step_;
};

/// Multiplies R activation rows with T tiles. Outputs from n_out on are not stored.
template <class F, int R, int T>
[[gnu::noinline]] void tile_rows(const Tile* tiles, int64_t n_in, const RoundedRow* rows,
                                 float* const* y, int64_t o, int64_t n_out, bool accumulate,
                                 NextWeights& next) {
  const int64_t n_groups = n_in / F::kGroup;
  const RowPointers<R> x(rows, F::kGroup);
  float* const sums = tiles[0].sums;
  const int64_t n_first = n_groups < kPartials ? n_groups : kPartials;
  for (int64_t g = 0; g < n_first; ++g) {
    if (g % 8 == 0) next.step();
    add_group<F, R, T, true>(tiles, g, x, sums + 8 * R * T * g);
  }
  for (int64_t i = n_first * R * T; i < kPartials * R * T; ++i) {
    _mm256_store_ps(sums + 8 * i, _mm256_setzero_ps());
  }
  for (int64_t g = kPartials; g < n_groups; ++g) {
    if (g % 8 == 0) next.step();
    add_group<F, R, T, false>(tiles, g, x, sums + 8 * R * T * (g % kPartials));
  }
  for (int i = 0; i < R * T; ++i) {
    __m256 s[kPartials];
    for (int p = 0; p < kPartials; ++p) s[p] = _mm256_load_ps(sums + 8 * (p * R * T + i));
    for (int half = kPartials / 2; half > 0; half /= 2) {
      for (int p = 0; p < half; ++p) s[p] = _mm256_add_ps(s[p], s[p + half]);
    }
    const int first = kTileOutputs * (i % T);
    float* const out = y[i / T] + o + first;
    if (n_out - first >= kTileOutputs) {
      _mm256_storeu_ps(out, accumulate ? _mm256_add_ps(_mm256_loadu_ps(out), s[0]) : s[0]);
      continue;
    }
    float v[kTileOutputs];
    _mm256_storeu_ps(v, s[0]);
    for (int64_t k = 0; k < n_out - first; ++k) out[k] = accumulate ? out[k] + v[k] : v[k];
  }
}

template <class F, int R, int T>
void tile_rest(int64_t left, const Tile* tiles, const IntegerProduct& p, int64_t row, int64_t o,
               int64_t n_out, NextWeights& next) {
  if (left == R) {
    tile_rows<F, R, T>(tiles, p.n_in, p.x + row, p.y + row, o, n_out, p.accumulate, next);
  } else if constexpr (R > 1) {
    tile_rest<F, R - 1, T>(left, tiles, p, row, o, n_out, next);
  }
}

/// Multiplies all activation rows with the T tiles of the weight rows from o on.
template <class F, int T>
CHIMERE_INLINE void multiply_tiles(const Tile* tiles, const IntegerProduct& p, int64_t o) {
  constexpr int R = kTileActivations;
  const int64_t n_out = p.n_out - o;
  const int64_t left = n_out - T * kTileOutputs;
  const int64_t wanted = left <= 0 ? kTiles * kTileOutputs
                                   : (left < kTiles * kTileOutputs ? left : kTiles * kTileOutputs);
  NextWeights next(left > 0 ? p.w + (o + T * kTileOutputs) * p.w_stride : p.next_w,
                   left > 0 || p.next_w != nullptr ? wanted * p.w_stride : 0,
                   (p.n_rows + R - 1) / R * ((p.n_in / F::kGroup + 7) / 8));
  int64_t row = 0;
  for (; row + R <= p.n_rows; row += R) {
    tile_rows<F, R, T>(tiles, p.n_in, p.x + row, p.y + row, o, n_out, p.accumulate, next);
  }
  if (row < p.n_rows) tile_rest<F, R - 1, T>(p.n_rows - row, tiles, p, row, o, n_out, next);
}

/// All products: `fill(o, tile)` makes the tile of the weight rows from o on.
template <class F, class Fill>
CHIMERE_INLINE void tiled_product(const IntegerProduct& p, const Fill& fill) {
  Tile tiles[kTiles];
  for (int t = 0; t < kTiles; ++t) tiles[t] = tile_in(p.scratch, p.n_in, t);
  int64_t o = 0;
  for (; o + kTileOutputs < p.n_out; o += kTiles * kTileOutputs) {
    for (int t = 0; t < kTiles; ++t) fill(o + t * kTileOutputs, tiles[t]);
    multiply_tiles<F, kTiles>(tiles, p, o);
  }
  if (o < p.n_out) {
    fill(o, tiles[0]);
    multiply_tiles<F, 1>(tiles, p, o);
  }
}

template <class F>
void tiled_product(const IntegerProduct& p) {
  tiled_product<F>(p, [&p](int64_t o, const Tile& tile) {
    const int64_t n_out = p.n_out - o;
    const uint8_t* w[kTileOutputs];
    // Missing rows repeat the last one; their results are not stored.
    for (int64_t r = 0; r < kTileOutputs; ++r) {
      w[r] = p.w + (o + (r < n_out ? r : n_out - 1)) * p.w_stride;
    }
    unpack_tile<F>(w, p.n_in, tile);
  });
}

}  // namespace
}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_AVX2_TILE_PRODUCT_H_
