// The integer product (docs/numerics.md, rule 4) with AVX-512 VNNI, for any format F with the base
// Layout (cpu/integer_format.h) and
//
//   F::kOffset    log2 of the number added to the integers to make them unsigned, or -1
//   F::kOrder     the order in which unpack() returns elements
//   F::unpack(p, v)    256 elements at p as unsigned bytes in four vectors, or instead
//   F::unpack_two(p0, p1, v0, v1)    256 elements at p0 and 256 at p1, if that is faster
//   F::scales(p)  scales of 16 groups of 16; or of 8 groups of 32, then their 8 minima (0 without)
//   F::minima(p)  minima of 16 groups of 16, if the format has them
//
// One activation row (or a few) takes dot_rows(): weights stay in registers, lanes are scale
// groups, which is also the order of the partial sums. Many rows take tile_rows(): 16 weight rows
// are unpacked and transposed once, lanes are weight rows, and a group of 32 costs 8 VNNI
// instructions and one float update for 16 outputs. The partial sums are then visited one after the
// other.
#ifndef CHIMERE_KERNELS_CPU_AVX512_INTEGER_PRODUCT_H_
#define CHIMERE_KERNELS_CPU_AVX512_INTEGER_PRODUCT_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/integer_format.h"
#include "kernels/cpu/matmul.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

inline constexpr int kSuper = 256;
/// From this number of activation rows on, unpacking into tiles is cheaper.
inline constexpr int64_t kTileRows = 12;
inline constexpr int kMaxDotRows = 8;
inline constexpr int kMaxTileRows = 8;

CHIMERE_INLINE __m512i load_bytes(const void* p) { return _mm512_loadu_si512(p); }

template <class F>
CHIMERE_INLINE const int8_t* ordered(const RoundedRow& x) {
  return F::kOrder == ActivationOrder::kByFours    ? x.q_by_fours
         : F::kOrder == ActivationOrder::kByEights ? x.q_by_eights
                                                   : x.q;
}

/// Products of 256 weights and activations, in natural order as sums of four a lane. Otherwise
/// out[0] has the sums by fours, or those by eights of groups of 32, whose lanes 2 g and 2 g + 1
/// belong to group g; by eights of groups of 16, out[0] has the even groups and out[1] the odd.
template <class F>
CHIMERE_INLINE void multiply(const __m512i w[4], const int8_t* x, __m512i out[4]) {
  const __m512i zero = _mm512_setzero_si512();
  if constexpr (F::kOrder == ActivationOrder::kNatural) {
    for (int i = 0; i < 4; ++i) {
      out[i] = _mm512_dpbusd_epi32(zero, w[i], load_bytes(x + 64 * i));
    }
  } else {
    const __m512i a = _mm512_dpbusd_epi32(zero, w[0], load_bytes(x));
    const __m512i b = _mm512_dpbusd_epi32(zero, w[2], load_bytes(x + 128));
    out[0] = _mm512_dpbusd_epi32(a, w[1], load_bytes(x + 64));
    out[1] = _mm512_dpbusd_epi32(b, w[3], load_bytes(x + 192));
    if constexpr (F::kOrder == ActivationOrder::kByFours || F::kGroup == 32) {
      out[0] = _mm512_add_epi32(out[0], out[1]);
    }
  }
}

/// Sums of groups of 32 of 512 elements.
template <class F>
CHIMERE_INLINE __m512i group_sums_of_512(const __m512i a[4], const __m512i b[4]) {
  if constexpr (F::kOrder == ActivationOrder::kNatural) {
    return sums_of_32(a, b);
  } else {
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_add_epi32(_mm512_permutex2var_epi32(a[0], even, b[0]),
                            _mm512_permutex2var_epi32(a[0], odd, b[0]));
  }
}

/// Sums of groups of 16 of 256 elements.
template <class F>
CHIMERE_INLINE __m512i group_sums_of_256(const __m512i a[4]) {
  if constexpr (F::kOrder == ActivationOrder::kNatural) {
    return sums_of_16(a);
  } else if constexpr (F::kOrder == ActivationOrder::kByFours) {
    return a[0];
  } else {
    const __m512i even =
        _mm512_set_epi32(30, 14, 28, 12, 26, 10, 24, 8, 22, 6, 20, 4, 18, 2, 16, 0);
    const __m512i odd = _mm512_set_epi32(31, 15, 29, 13, 27, 11, 25, 9, 23, 7, 21, 5, 19, 3, 17, 1);
    return _mm512_add_epi32(_mm512_permutex2var_epi32(a[0], even, a[1]),
                            _mm512_permutex2var_epi32(a[0], odd, a[1]));
  }
}

template <class F>
CHIMERE_INLINE __m512i add_offset(__m512i dot, const int32_t* neg_sum) {
  if constexpr (F::kOffset < 0) return dot;
  return _mm512_add_epi32(dot,
                          _mm512_slli_epi32(load_bytes(neg_sum), F::kOffset > 0 ? F::kOffset : 0));
}

template <class F>
CHIMERE_INLINE void unpack_two(const uint8_t* p0, const uint8_t* p1, __m512i v0[4], __m512i v1[4]) {
  if constexpr (requires { F::unpack_two(p0, p1, v0, v1); }) {
    F::unpack_two(p0, p1, v0, v1);
  } else {
    F::unpack(p0, v0);
    F::unpack(p1, v1);
  }
}

template <class F>
CHIMERE_INLINE void unpack_one(const uint8_t* p, __m512i v[4]) {
  if constexpr (requires { F::unpack(p, v); }) {
    F::unpack(p, v);
  } else {
    __m512i same[4];
    F::unpack_two(p, p, v, same);
  }
}

/// The next up to 16 groups of 32 (`mask`): 256 elements at p0 and, if `both`, 256 more at p1.
template <class F, int R, bool kBoth>
CHIMERE_INLINE void step_of_32(const uint8_t* p0, const uint8_t* p1, __mmask16 mask,
                               int64_t element, const RoundedRow* x, __m512 acc[R]) {
  __m512i w0[4];
  __m512i w1[4];
  const __m512 t0 = F::scales(p0);
  __m512 t1 = _mm512_setzero_ps();
  if constexpr (kBoth) {
    unpack_two<F>(p0, p1, w0, w1);
    t1 = F::scales(p1);
  } else {
    unpack_one<F>(p0, w0);
  }
  const __m512 s = _mm512_shuffle_f32x4(t0, t1, 0x44);
  const __m512 m = _mm512_shuffle_f32x4(t0, t1, 0xEE);
  for (int r = 0; r < R; ++r) {
    const int8_t* q = ordered<F>(x[r]) + element;
    const int64_t block = element / kActivationBlock;
    __m512i a[4];
    __m512i b[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                    _mm512_setzero_si512()};
    multiply<F>(w0, q, a);
    if constexpr (kBoth) multiply<F>(w1, q + kSuper, b);
    const __m512i dot = add_offset<F>(group_sums_of_512<F>(a, b), x[r].neg_sum32 + block);
    const __m512 scale = _mm512_mul_ps(s, _mm512_loadu_ps(x[r].d + block));
    acc[r] = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, acc[r], mask);
    if constexpr (F::kMinimum) {
      acc[r] = _mm512_mask3_fnmadd_ps(m, _mm512_loadu_ps(x[r].d_sum + block), acc[r], mask);
    }
  }
}

/// The next 16 groups of 16, whose weights w are unpacked from p.
template <class F, int R>
CHIMERE_INLINE void step_of_16(const uint8_t* p, const __m512i w[4], int64_t element,
                               const RoundedRow* x, __m512 acc[R]) {
  const __m512 s = F::scales(p);
  const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  for (int r = 0; r < R; ++r) {
    __m512i a[4];
    multiply<F>(w, ordered<F>(x[r]) + element, a);
    const __m512i dot = add_offset<F>(group_sums_of_256<F>(a), x[r].neg_sum16 + element / 16);
    const __m512 d = _mm512_permutexvar_ps(
        twice, _mm512_castps256_ps512(_mm256_loadu_ps(x[r].d + element / kActivationBlock)));
    acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(s, d), acc[r]);
    if constexpr (F::kMinimum) {
      // -(d · float(Σq)), so that the product with the minimum is added.
      const __m512i neg_sum = load_bytes(x[r].neg_sum16 + element / 16);
      acc[r] = _mm512_fmadd_ps(F::minima(p), _mm512_mul_ps(d, _mm512_cvtepi32_ps(neg_sum)), acc[r]);
    }
  }
}

/// Copies the rest of a row, less than 256 elements, into a zeroed super-block.
template <class F>
CHIMERE_INLINE const uint8_t* padded_blocks(const uint8_t* p, int64_t elements, uint8_t* copy) {
  constexpr int64_t kElements = kSuper / F::kBlocks;
  std::memset(copy, 0, F::kBlocks * F::kBlockBytes);
  std::memcpy(copy, p, static_cast<size_t>(elements / kElements * F::kBlockBytes));
  return copy;
}

/// Prefetches `bytes` of the weights that are read soon. On Zen 4 it gains a tenth for formats
/// whose unpacking fills the reorder buffer; it costs time for Q8_0, which has little to unpack.
template <class F>
CHIMERE_INLINE void prefetch(const uint8_t* w, int64_t bytes) {
  constexpr uintptr_t kAhead = 4096;
  if constexpr (F::kBlocks > 1) return;
  // As an integer, because the address may lie past the weights, where a prefetch does nothing.
  const uintptr_t at = reinterpret_cast<uintptr_t>(w) + kAhead;
  for (uintptr_t b = 0; b < static_cast<uintptr_t>(bytes); b += 64) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    _mm_prefetch(reinterpret_cast<const char*>(at + b), _MM_HINT_T0);
  }
}

template <class F, int R>
CHIMERE_INLINE void dot_row(const uint8_t* w, int64_t n, const RoundedRow* x, float out[R]) {
  constexpr int64_t kBytes = F::kBlocks * F::kBlockBytes;
  __m512 acc[R];
  for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
  int64_t i = 0;
  if constexpr (F::kGroup == 16) {
    for (; i + 2 * kSuper <= n; i += 2 * kSuper, w += 2 * kBytes) {
      prefetch<F>(w, 2 * kBytes);
      __m512i w0[4];
      __m512i w1[4];
      unpack_two<F>(w, w + kBytes, w0, w1);
      step_of_16<F, R>(w, w0, i, x, acc);
      step_of_16<F, R>(w + kBytes, w1, i + kSuper, x, acc);
    }
    if (i < n) {
      __m512i last[4];
      unpack_one<F>(w, last);
      step_of_16<F, R>(w, last, i, x, acc);
    }
  } else {
    for (; i + 2 * kSuper <= n; i += 2 * kSuper, w += 2 * kBytes) {
      prefetch<F>(w, 2 * kBytes);
      step_of_32<F, R, true>(w, w + kBytes, 0xFFFF, i, x, acc);
    }
    uint8_t copy[kBytes];
    const auto mask = static_cast<__mmask16>((1U << ((n - i) / kActivationBlock)) - 1U);
    if (n - i > kSuper) {
      const uint8_t* p1 = padded_blocks<F>(w + kBytes, n - i - kSuper, copy);
      step_of_32<F, R, true>(w, p1, mask, i, x, acc);
    } else if (n - i == kSuper) {
      step_of_32<F, R, false>(w, nullptr, mask, i, x, acc);
    } else if (n - i > 0) {
      step_of_32<F, R, false>(padded_blocks<F>(w, n - i, copy), nullptr, mask, i, x, acc);
    }
  }
  for (int r = 0; r < R; ++r) out[r] = tree_of_16(acc[r]);
}

template <class F, int R>
[[gnu::noinline]] void dot_rows(const IntegerProduct& p, int64_t first) {
  for (int64_t o = 0; o < p.n_out; ++o) {
    float v[R];
    dot_row<F, R>(p.w + o * p.w_stride, p.n_in, p.x + first, v);
    for (int r = 0; r < R; ++r) {
      float& y = p.y[first + r][o];
      y = p.accumulate ? y + v[r] : v[r];
    }
  }
}

/// 16 weight rows, transposed: dword i of every row in the vector at quads + 64 i, scale (minimum)
/// of group g of every row at scales + 16 g (minima + 16 g).
struct Tile {
  uint8_t* quads;
  float* scales;
  float* minima;
};

template <class F>
[[gnu::noinline]] void unpack_tile(const uint8_t* const w[16], int64_t n, uint8_t* buffer,
                                   const Tile& tile) {
  constexpr int64_t kBytes = F::kBlocks * F::kBlockBytes;
  constexpr int kGroups = kSuper / F::kGroup;
  for (int64_t i = 0; i < n; i += kSuper) {
    __m512i scales[16];
    __m512i minima[16];  // of groups of 16
    for (int r = 0; r < 16; ++r) {
      const uint8_t* p = w[r] + i / kSuper * kBytes;
      uint8_t copy[kBytes];
      if (F::kBlocks > 1 && n - i < kSuper) p = padded_blocks<F>(p, n - i, copy);
      __m512i v[4];
      unpack_one<F>(p, v);
      for (int k = 0; k < 4; ++k) _mm512_store_si512(buffer + 256 * r + 64 * k, v[k]);
      scales[r] = _mm512_castps_si512(F::scales(p));
      if constexpr (F::kMinimum && F::kGroup == 16) minima[r] = _mm512_castps_si512(F::minima(p));
    }
    for (int k = 0; k < 4; ++k) {
      __m512i q[16];
      for (int r = 0; r < 16; ++r) q[r] = _mm512_load_si512(buffer + 256 * r + 64 * k);
      transpose_16x16(q);
      for (int j = 0; j < 16; ++j) {
        _mm512_store_si512(tile.quads + 64 * (i / 4 + 16 * k + j), q[j]);
      }
    }
    transpose_16x16(scales);
    const int64_t g = i / F::kGroup;
    for (int j = 0; j < kGroups; ++j) _mm512_store_si512(tile.scales + 16 * (g + j), scales[j]);
    if constexpr (F::kMinimum && F::kGroup == 16) {
      transpose_16x16(minima);
      for (int j = 0; j < 16; ++j) _mm512_store_si512(tile.minima + 16 * (g + j), minima[j]);
    } else if constexpr (F::kMinimum) {
      for (int j = 0; j < 8; ++j) _mm512_store_si512(tile.minima + 16 * (g + j), scales[8 + j]);
    }
  }
}

/// The dword, counted from the start of the row, of quad j of group g.
template <class F>
CHIMERE_INLINE int64_t quad_index(int64_t g, int j) {
  if constexpr (F::kOrder == ActivationOrder::kNatural) return g * (F::kGroup / 4) + j;
  if constexpr (F::kGroup == 32) return g / 8 * 64 + 16 * (j / 2) + 2 * (g % 8) + j % 2;
  if constexpr (F::kOrder == ActivationOrder::kByFours) return g / 16 * 64 + 16 * j + g % 16;
  return g / 16 * 64 + 16 * (2 * (g % 2) + j / 2) + g % 16 / 2 * 2 + j % 2;
}

template <class F, int R>
CHIMERE_INLINE void partial_sum(const Tile& tile, int64_t first, int64_t n_groups,
                                const RoundedRow* x, __m512 acc[R]) {
  for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
  for (int64_t g = first; g < n_groups; g += kPartials) {
    const int64_t block = g * F::kGroup / kActivationBlock;
    __m512i dot[R];
    for (int r = 0; r < R; ++r) {
      dot[r] = _mm512_setzero_si512();
      if constexpr (F::kOffset >= 0) {
        const int32_t* neg_sum = F::kGroup == 32 ? x[r].neg_sum32 : x[r].neg_sum16;
        dot[r] = _mm512_slli_epi32(_mm512_set1_epi32(neg_sum[g]), F::kOffset);
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < F::kGroup / 4; ++j) {
      const int64_t quad = quad_index<F>(g, j);
      const __m512i w = _mm512_load_si512(tile.quads + 64 * quad);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        int32_t four;
        std::memcpy(&four, ordered<F>(x[r]) + 4 * quad, 4);
        dot[r] = _mm512_dpbusd_epi32(dot[r], w, _mm512_set1_epi32(four));
      }
    }
    const __m512 s = _mm512_load_ps(tile.scales + 16 * g);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512 scale = _mm512_mul_ps(s, _mm512_set1_ps(x[r].d[block]));
      acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), scale, acc[r]);
    }
    if constexpr (F::kMinimum) {
      const __m512 m = _mm512_load_ps(tile.minima + 16 * g);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const float d_sum = F::kGroup == 32
                                ? x[r].d_sum[block]
                                : -(x[r].d[block] * static_cast<float>(x[r].neg_sum16[g]));
        acc[r] = _mm512_fnmadd_ps(m, _mm512_set1_ps(d_sum), acc[r]);
      }
    }
  }
}

/// Multiplies R activation rows with the tile; `sums` must hold 8 R vectors.
template <class F, int R>
[[gnu::noinline]] void tile_rows(const Tile& tile, int64_t n_in, const RoundedRow* x, float* sums,
                                 float* const* y, int64_t o, __mmask16 outputs, bool accumulate) {
  const int64_t n_groups = n_in / F::kGroup;
  RoundedRow rows[R];
  for (int r = 0; r < R; ++r) rows[r] = x[r];
  for (int p = 0; p < kPartials / 2; ++p) {
    __m512 low[R];
    __m512 high[R];
    partial_sum<F, R>(tile, p, n_groups, rows, low);
    for (int r = 0; r < R; ++r) _mm512_store_ps(sums + 16 * (p * R + r), low[r]);
    partial_sum<F, R>(tile, p + kPartials / 2, n_groups, rows, high);
    for (int r = 0; r < R; ++r) {
      float* sum = sums + 16 * (p * R + r);
      _mm512_store_ps(sum, _mm512_add_ps(_mm512_load_ps(sum), high[r]));
    }
  }
  for (int r = 0; r < R; ++r) {
    __m512 s[kPartials / 2];
    for (int p = 0; p < kPartials / 2; ++p) s[p] = _mm512_load_ps(sums + 16 * (p * R + r));
    for (int half = kPartials / 4; half > 0; half /= 2) {
      for (int p = 0; p < half; ++p) s[p] = _mm512_add_ps(s[p], s[p + half]);
    }
    float* out = y[r] + o;
    const __m512 v = accumulate ? _mm512_add_ps(_mm512_maskz_loadu_ps(outputs, out), s[0]) : s[0];
    _mm512_mask_storeu_ps(out, outputs, v);
  }
}

template <class F, int R>
void tile_rest(int64_t left, const Tile& tile, const IntegerProduct& p, int64_t row, float* sums,
               int64_t o, __mmask16 outputs) {
  if (left == R) {
    tile_rows<F, R>(tile, p.n_in, p.x + row, sums, p.y + row, o, outputs, p.accumulate);
  } else if constexpr (R > 1) {
    tile_rest<F, R - 1>(left, tile, p, row, sums, o, outputs);
  }
}

template <class F>
void tiled_product(const IntegerProduct& p) {
  const int64_t n = padded(p.n_in);
  Tile tile;
  tile.quads = p.scratch;
  tile.scales = reinterpret_cast<float*>(p.scratch + 16 * n);
  tile.minima = tile.scales + n;
  uint8_t* buffer = reinterpret_cast<uint8_t*>(tile.minima + n);
  auto* sums = reinterpret_cast<float*>(buffer + 16 * kSuper);
  for (int64_t o = 0; o < p.n_out; o += 16) {
    const int64_t n_out = p.n_out - o < 16 ? p.n_out - o : 16;
    const uint8_t* w[16];
    // Missing rows repeat the last one; their results are not stored.
    for (int64_t r = 0; r < 16; ++r) w[r] = p.w + (o + (r < n_out ? r : n_out - 1)) * p.w_stride;
    const auto outputs = static_cast<__mmask16>((1U << n_out) - 1U);
    unpack_tile<F>(w, p.n_in, buffer, tile);
    int64_t row = 0;
    for (; row + kMaxTileRows <= p.n_rows; row += kMaxTileRows) {
      tile_rows<F, kMaxTileRows>(tile, p.n_in, p.x + row, sums, p.y + row, o, outputs,
                                 p.accumulate);
    }
    if (row < p.n_rows) {
      tile_rest<F, kMaxTileRows - 1>(p.n_rows - row, tile, p, row, sums, o, outputs);
    }
  }
}

template <class F, int R>
void dot_rest(int64_t left, const IntegerProduct& p, int64_t row) {
  if (left == R) {
    dot_rows<F, R>(p, row);
  } else if constexpr (R > 1) {
    dot_rest<F, R - 1>(left, p, row);
  }
}

template <class F>
void integer_product(const IntegerProduct& p) {
  if (p.n_rows >= kTileRows) return tiled_product<F>(p);
  int64_t row = 0;
  for (; row + kMaxDotRows <= p.n_rows; row += kMaxDotRows) dot_rows<F, kMaxDotRows>(p, row);
  dot_rest<F, kMaxDotRows - 1>(p.n_rows - row, p, row);
}

}  // namespace
}  // namespace chimere::kernels::cpu::avx512

#endif  // CHIMERE_KERNELS_CPU_AVX512_INTEGER_PRODUCT_H_
