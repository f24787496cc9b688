// The float product (docs/numerics.md, rule 2) with AVX-512: lane j is partial sum j.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

struct F32 {
  static constexpr int64_t kBytes = 4;
  CHIMERE_INLINE static __m512 load(const uint8_t* p) { return _mm512_loadu_ps(p); }
  CHIMERE_INLINE static __m512 load(const uint8_t* p, __mmask16 m) {
    return _mm512_maskz_loadu_ps(m, p);
  }
};

struct F16 {
  static constexpr int64_t kBytes = 2;
  CHIMERE_INLINE static __m512 load(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  CHIMERE_INLINE static __m512 load(const uint8_t* p, __mmask16 m) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p));
  }
};

struct Bf16 {
  static constexpr int64_t kBytes = 2;
  CHIMERE_INLINE static __m512 widen(__m256i h) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
  }
  CHIMERE_INLINE static __m512 load(const uint8_t* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  CHIMERE_INLINE static __m512 load(const uint8_t* p, __mmask16 m) {
    return widen(_mm256_maskz_loadu_epi16(m, p));
  }
};

/// O weight rows from `o` on times R activation rows from `r` on.
template <class T, int O, int R>
[[gnu::noinline]] void block(const FloatProduct& p, int64_t o, int64_t r) {
  __m512 acc[O][R];
  const uint8_t* w[O];
  const float* x[R];
  for (int a = 0; a < O; ++a) {
    w[a] = p.w + (o + a) * p.w_stride;
    for (int b = 0; b < R; ++b) acc[a][b] = _mm512_setzero_ps();
  }
  for (int b = 0; b < R; ++b) x[b] = p.x[r + b];
  int64_t i = 0;
  for (; i + 16 <= p.n_in; i += 16) {
    for (int a = 0; a < O; ++a) {
      const __m512 weights = T::load(w[a] + T::kBytes * i);
      for (int b = 0; b < R; ++b) {
        acc[a][b] = _mm512_fmadd_ps(weights, _mm512_loadu_ps(x[b] + i), acc[a][b]);
      }
    }
  }
  if (i < p.n_in) {
    const auto mask = static_cast<__mmask16>((1U << (p.n_in - i)) - 1U);
    for (int a = 0; a < O; ++a) {
      const __m512 weights = T::load(w[a] + T::kBytes * i, mask);
      for (int b = 0; b < R; ++b) {
        const __m512 activations = _mm512_maskz_loadu_ps(mask, x[b] + i);
        acc[a][b] = _mm512_mask3_fmadd_ps(weights, activations, acc[a][b], mask);
      }
    }
  }
  for (int b = 0; b < R; ++b) {
    for (int a = 0; a < O; ++a) {
      const float v = tree_of_16(acc[a][b]);
      float& y = p.y[r + b][o + a];
      y = p.accumulate ? y + v : v;
    }
  }
}

template <class T, int O>
void rows(const FloatProduct& p, int64_t o) {
  int64_t r = 0;
  for (; r + 4 <= p.n_rows; r += 4) block<T, O, 4>(p, o, r);
  for (; r < p.n_rows; ++r) block<T, O, 1>(p, o, r);
}

template <class T>
void product(const FloatProduct& p) {
  int64_t o = 0;
  for (; o + 4 <= p.n_out; o += 4) rows<T, 4>(p, o);
  for (; o < p.n_out; ++o) rows<T, 1>(p, o);
}

}  // namespace

void product_f32(const FloatProduct& p) { product<F32>(p); }
void product_f16(const FloatProduct& p) { product<F16>(p); }
void product_bf16(const FloatProduct& p) { product<Bf16>(p); }

}  // namespace chimere::kernels::cpu::avx512
