// Elementary functions, written once for any number of lanes: scalar and vector code of any
// instruction set give the same bits, because each step below is one IEEE operation per lane.
//
// V is a type of f32 lanes with: V::set(float); + - * /; fma(a, b, c) = a b + c rounded once;
// max(a, b) = a > b ? a : b and min(a, b) = a < b ? a : b (b if either is NaN); pow2_of_biased
// (below). Everything here is forced inline, so that code compiled for one instruction set stays in
// its file.
#ifndef CHIMERE_KERNELS_MATH_H_
#define CHIMERE_KERNELS_MATH_H_

#include <cstdint>

#ifdef __CUDACC__  // also device code: kernels/cuda/language.h
#define CHIMERE_INLINE __host__ __device__ __forceinline__
#else
#define CHIMERE_INLINE [[gnu::always_inline]] inline
#endif

namespace chimere::kernels {

/// Adding 1.5 * 2^23 to a float of magnitude below 2^22 rounds it to an integer (nearest even),
/// which then stands in the low bits of the sum.
inline constexpr float kRoundBias = 12582912.0F;

/// One f32 lane, for scalar code.
struct F32x1 {
  float v;

  CHIMERE_INLINE static F32x1 set(float x) { return {x}; }
  CHIMERE_INLINE friend F32x1 operator+(F32x1 a, F32x1 b) { return {a.v + b.v}; }
  CHIMERE_INLINE friend F32x1 operator-(F32x1 a, F32x1 b) { return {a.v - b.v}; }
  CHIMERE_INLINE friend F32x1 operator*(F32x1 a, F32x1 b) { return {a.v * b.v}; }
  CHIMERE_INLINE friend F32x1 operator/(F32x1 a, F32x1 b) { return {a.v / b.v}; }
  CHIMERE_INLINE friend F32x1 fma(F32x1 a, F32x1 b, F32x1 c) {
#ifdef __CUDA_ARCH__
    return {fmaf(a.v, b.v, c.v)};
#else
    return {__builtin_fmaf(a.v, b.v, c.v)};
#endif
  }
  CHIMERE_INLINE friend F32x1 max(F32x1 a, F32x1 b) { return a.v > b.v ? a : b; }
  CHIMERE_INLINE friend F32x1 min(F32x1 a, F32x1 b) { return a.v < b.v ? a : b; }
  /// 2^n of t = kRoundBias + n, for n in [-126, 127].
  CHIMERE_INLINE friend F32x1 pow2_of_biased(F32x1 t) {
    const auto bits = __builtin_bit_cast(uint32_t, t.v);
    return {__builtin_bit_cast(float, (bits << 23U) + 0x3F800000U)};
  }
};

/// e^x, within 1.1 units in the last place; 0 below -104, infinity above 88.73; exp(0) is
/// exactly 1. x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r² q(r), where q is the minimax
/// polynomial of degree 4 (relative error 3.2e-9); 2^n is applied in two factors, so that subnormal
/// results are rounded once.
template <class V>
CHIMERE_INLINE V exp_lanes(V x) {
  x = min(V::set(89.0F), max(V::set(-104.0F), x));
  const V bias = V::set(kRoundBias);
  const V n = fma(x, V::set(0x1.715476p+0F), bias) - bias;
  V r = fma(n, V::set(-0x1.62e430p-1F), x);
  r = fma(n, V::set(0x1.05c610p-29F), r);
  V q = fma(r, V::set(0x1.6db47ep-10F), V::set(0x1.123b92p-7F));
  q = fma(q, r, V::set(0x1.55545ep-5F));
  q = fma(q, r, V::set(0x1.55548ep-3F));
  q = fma(q, r, V::set(0.5F));
  const V p = V::set(1.0F) + fma(r * r, q, r);
  const V half = fma(n, V::set(0.5F), bias);
  const V rest = (n - (half - bias)) + bias;
  return (p * pow2_of_biased(half)) * pow2_of_biased(rest);
}

/// 1 / (1 + e^-x)
template <class V>
CHIMERE_INLINE V sigmoid_lanes(V x) {
  return V::set(1.0F) / (V::set(1.0F) + exp_lanes(V::set(0.0F) - x));
}

/// x / (1 + e^-x)
template <class V>
CHIMERE_INLINE V silu_lanes(V x) {
  return x / (V::set(1.0F) + exp_lanes(V::set(0.0F) - x));
}

/// log(1 + e^x) = max(0, x) + log1p(u), u = e^-|x| in [0, 1]. With s = u / (2 + u), log1p(u) is
/// 2 artanh(s) = 2 s + s t q(t), t = s² in [0, 1/9], q minimax of degree 4 (relative
/// error 1.2e-10).
template <class V>
CHIMERE_INLINE V softplus_lanes(V x) {
  const V zero = V::set(0.0F);
  const V u = exp_lanes(min(x, zero - x));
  const V s = u / (V::set(2.0F) + u);
  const V t = s * s;
  V q = fma(t, V::set(0x1.f1aee2p-3F), V::set(0x1.b6d6a4p-3F));
  q = fma(q, t, V::set(0x1.250972p-2F));
  q = fma(q, t, V::set(0x1.9996a8p-2F));
  q = fma(q, t, V::set(0x1.555558p-1F));
  return max(zero, x) + fma(s * t, q, s + s);
}

CHIMERE_INLINE float exp_f32(float x) { return exp_lanes(F32x1{x}).v; }
CHIMERE_INLINE float sigmoid(float x) { return sigmoid_lanes(F32x1{x}).v; }
CHIMERE_INLINE float silu(float x) { return silu_lanes(F32x1{x}).v; }
CHIMERE_INLINE float softplus(float x) { return softplus_lanes(F32x1{x}).v; }

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_MATH_H_
