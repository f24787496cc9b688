// The float product (docs/numerics.md, rule 2): lane j is partial sum j.
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector/float_elements.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// Weight and activation rows computed together: as many sums as fit in registers.
constexpr int kTile = F32x16::kRegisters >= 32 ? 4 : 2;

/// O weight rows from `o` on times R activation rows from `r` on.
template <class T, int O, int R>
[[gnu::noinline]] void tile(const FloatProduct& p, int64_t o, int64_t r) {
  using Element = typename T::Element;
  F32x16 sum[O][R];
  const Element* w[O];
  const float* x[R];
  for (int a = 0; a < O; ++a) {
    w[a] = reinterpret_cast<const Element*>(p.w + (o + a) * p.w_stride);
    for (int b = 0; b < R; ++b) sum[a][b] = F32x16::set(0);
  }
  for (int b = 0; b < R; ++b) x[b] = p.x[r + b];
  int64_t i = 0;
  for (; i + kLanes <= p.n_in; i += kLanes) {
#pragma GCC unroll 4
    for (int a = 0; a < O; ++a) {
      const F32x16 weights = T::load(w[a] + i);
#pragma GCC unroll 4
      for (int b = 0; b < R; ++b) sum[a][b] = fma(weights, F32x16::load(x[b] + i), sum[a][b]);
    }
  }
  if (i < p.n_in) {
    const auto left = static_cast<int>(p.n_in - i);
    for (int a = 0; a < O; ++a) {
      Element weights[kLanes] = {};
      for (int j = 0; j < left; ++j) weights[j] = w[a][i + j];
      for (int b = 0; b < R; ++b) {
        float activations[kLanes] = {};
        for (int j = 0; j < left; ++j) activations[j] = x[b][i + j];
        const F32x16 next = fma(T::load(weights), F32x16::load(activations), sum[a][b]);
        sum[a][b] = first_lanes(left, next, sum[a][b]);
      }
    }
  }
  for (int b = 0; b < R; ++b) {
    for (int a = 0; a < O; ++a) {
      const float v = tree_sum(sum[a][b]);
      float& y = p.y[r + b][o + a];
      y = p.accumulate ? y + v : v;
    }
  }
}

template <class T, int O>
void rows(const FloatProduct& p, int64_t o) {
  int64_t r = 0;
  for (; r + kTile <= p.n_rows; r += kTile) tile<T, O, kTile>(p, o, r);
  for (; r + 2 <= p.n_rows; r += 2) tile<T, O, 2>(p, o, r);
  for (; r < p.n_rows; ++r) tile<T, O, 1>(p, o, r);
}

template <class T>
void product(const FloatProduct& p) {
  int64_t o = 0;
  for (; o + kTile <= p.n_out; o += kTile) rows<T, kTile>(p, o);
  for (; o < p.n_out; ++o) rows<T, 1>(p, o);
}

}  // namespace

void product_f32(const FloatProduct& p) { product<F32>(p); }
void product_f16(const FloatProduct& p) { product<F16>(p); }
void product_bf16(const FloatProduct& p) { product<Bf16>(p); }

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
