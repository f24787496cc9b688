// Small matrix products in which every element is one chain of fused multiply-adds.
#ifndef CHIMERE_KERNELS_CPU_VECTOR_CHAIN_PRODUCT_H_
#define CHIMERE_KERNELS_CPU_VECTOR_CHAIN_PRODUCT_H_

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

/// c[i][j] = fma(a[i][l], b[l][j], c[i][j]) for l = 0 .. length - 1 in order.
struct ChainProduct {
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  int rows = 0;
  int columns = 0;  ///< a multiple of 16
  int length = 0;
};

/// kRows x 16 kTiles elements of c, in registers.
template <int kRows, int kTiles>
CHIMERE_INLINE void chain_block(const ChainProduct& p, int row, int column) {
  F32x16 sum[kRows][kTiles];
  const float* a = p.a + row * p.a_stride;
  const float* b = p.b + column;
  float* c = p.c + row * p.c_stride + column;
  for (int i = 0; i < kRows; ++i) {
    for (int t = 0; t < kTiles; ++t) sum[i][t] = F32x16::load(c + i * p.c_stride + t * kLanes);
  }
  for (int l = 0; l < p.length; ++l) {
    F32x16 x[kTiles];
    for (int t = 0; t < kTiles; ++t) x[t] = F32x16::load(b + l * p.b_stride + t * kLanes);
    for (int i = 0; i < kRows; ++i) {
      const F32x16 factor = F32x16::set(a[i * p.a_stride + l]);
      for (int t = 0; t < kTiles; ++t) sum[i][t] = fma(factor, x[t], sum[i][t]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int t = 0; t < kTiles; ++t) sum[i][t].store(c + i * p.c_stride + t * kLanes);
  }
}

/// As many rows at a time as registers hold the sums of.
template <int kTiles>
CHIMERE_INLINE void chain_columns(const ChainProduct& p, int column) {
  constexpr int kMost = F32x16::kRegisters >= 32 ? 4 : 6;
  constexpr int kSome = 4;
  int row = 0;
  for (; row + kMost <= p.rows; row += kMost) chain_block<kMost, kTiles>(p, row, column);
  for (; row + kSome <= p.rows; row += kSome) chain_block<kSome, kTiles>(p, row, column);
  for (; row < p.rows; ++row) chain_block<1, kTiles>(p, row, column);
}

/// From this many rows on, and up to this length, 16 columns of b are copied so that they lie side
/// by side: with a stride of a power of two they would share a few sets of the first-level cache.
inline constexpr int kCopyRows = 16;
inline constexpr int kCopyLength = 256;

/// How many columns of c are computed in one pass over b.
inline constexpr int kChainColumns = (F32x16::kRegisters >= 32 ? 4 : 1) * kLanes;

CHIMERE_INLINE void chain_product(const ChainProduct& p) {
  constexpr int kTiles = kChainColumns / kLanes;
  int column = 0;
  if (kTiles == 1 && p.rows >= kCopyRows && p.length <= kCopyLength) {
    alignas(64) float copy[kCopyLength * kLanes];
    for (; column < p.columns; column += kLanes) {
      for (int l = 0; l < p.length; ++l) {
        F32x16::load(p.b + l * p.b_stride + column).store(copy + l * kLanes);
      }
      ChainProduct strip = p;
      strip.b = copy;
      strip.b_stride = kLanes;
      strip.c = p.c + column;
      strip.columns = kLanes;
      chain_columns<1>(strip, 0);
    }
    return;
  }
  for (; column + kTiles * kLanes <= p.columns; column += kTiles * kLanes) {
    chain_columns<kTiles>(p, column);
  }
  for (; column < p.columns; column += kLanes) chain_columns<1>(p, column);
}

/// n is a multiple of 16 here and in add_rows().
CHIMERE_INLINE void clear(float* x, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) F32x16::set(0).store(x + i);
}

/// y[0, n) = fma(x, factor, y) for each j in [begin, end) in order: factor[j], row j of x.
CHIMERE_INLINE void add_rows(const float* x, int n, const float* factor, int begin, int end,
                             float* y) {
  for (int j = begin; j < end; ++j) {
    for (int c = 0; c < n; c += kLanes) {
      fma(F32x16::set(factor[j]), F32x16::load(x + static_cast<int64_t>(j) * n + c),
          F32x16::load(y + c))
          .store(y + c);
    }
  }
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_VECTOR_CHAIN_PRODUCT_H_
