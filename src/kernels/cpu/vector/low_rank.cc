// The second factor of adapters (docs/numerics.md, "Adapters"): each lane is an output, whose sum
// over the rank is one chain. Bytes: B once for each tile of rows.
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector/float_elements.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// 16 kVectors outputs from `o` on, of R rows from `r` on.
template <class T, int kVectors, int R>
CHIMERE_INLINE void low_rank_block(const LowRankProduct& p, int64_t o, int64_t r) {
  using Element = typename T::Element;
  F32x16 sum[R][kVectors];
  const float* u[R];
  for (int b = 0; b < R; ++b) {
    u[b] = p.u[r + b];
    for (int v = 0; v < kVectors; ++v) sum[b][v] = F32x16::set(0);
  }
  const uint8_t* at = p.b + o * static_cast<int64_t>(sizeof(Element));
  for (int64_t j = 0; j < p.rank; ++j, at += p.b_stride) {
    const auto* const weights = reinterpret_cast<const Element*>(at);
    F32x16 factor[R];
    for (int b = 0; b < R; ++b) factor[b] = F32x16::set(u[b][j]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const F32x16 w = T::load(weights + v * kLanes);
#pragma GCC unroll 4
      for (int b = 0; b < R; ++b) sum[b][v] = fma(w, factor[b], sum[b][v]);
    }
  }
  const F32x16 scale = F32x16::set(p.scale);
  for (int b = 0; b < R; ++b) {
    float* const y = p.y[r + b] + o;
    for (int v = 0; v < kVectors; ++v) {
      fma(scale, sum[b][v], F32x16::load(y + v * kLanes)).store(y + v * kLanes);
    }
  }
}

/// The last outputs, fewer than 16.
template <class T>
void low_rank_tail(const LowRankProduct& p, int64_t o) {
  using Element = typename T::Element;
  const auto left = static_cast<int>(p.n_out - o);
  for (int64_t r = 0; r < p.n_rows; ++r) {
    F32x16 sum = F32x16::set(0);
    const uint8_t* at = p.b + o * static_cast<int64_t>(sizeof(Element));
    for (int64_t j = 0; j < p.rank; ++j, at += p.b_stride) {
      Element weights[kLanes] = {};
      for (int i = 0; i < left; ++i) weights[i] = reinterpret_cast<const Element*>(at)[i];
      sum = fma(T::load(weights), F32x16::set(p.u[r][j]), sum);
    }
    float out[kLanes];
    sum.store(out);
    float* const y = p.y[r] + o;
    for (int i = 0; i < left; ++i) y[i] = __builtin_fmaf(p.scale, out[i], y[i]);
  }
}

template <class T, int kVectors>
[[gnu::noinline]] void low_rank_rows(const LowRankProduct& p, int64_t o) {
  // Independent chains hide the latency of an addition.
  constexpr int kRows = F32x16::kRegisters >= 32 ? 3 : 1;
  int64_t r = 0;
  for (; r + kRows <= p.n_rows; r += kRows) low_rank_block<T, kVectors, kRows>(p, o, r);
  for (; r < p.n_rows; ++r) low_rank_block<T, kVectors, 1>(p, o, r);
}

template <class T>
void low_rank_product(const LowRankProduct& p) {
  constexpr int kVectors = F32x16::kRegisters >= 32 ? 8 : F32x16::kRegisters / 2;
  int64_t o = 0;
  for (; o + kVectors * kLanes <= p.n_out; o += kVectors * kLanes) low_rank_rows<T, kVectors>(p, o);
  for (; o + kLanes <= p.n_out; o += kLanes) low_rank_rows<T, 1>(p, o);
  if (o < p.n_out) low_rank_tail<T>(p, o);
}

}  // namespace

void add_low_rank(const LowRankProduct& p) {
  if (p.type == DType::kF32) return low_rank_product<F32>(p);
  if (p.type == DType::kF16) return low_rank_product<F16>(p);
  low_rank_product<Bf16>(p);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
