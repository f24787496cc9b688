// Device code: silu of several values side by side. A thread that computes them one after the other
// waits for most of its operations, since each depends on the one before.
#ifndef CHIMERE_KERNELS_CUDA_SILU_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_SILU_DEVICE_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/quick_division.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

/// n values of one thread, as lanes of kernels/math.h: every operation is applied to all of them
/// before the next one.
template <int n>
struct F32s {
  float v[n];

  static __device__ __forceinline__ F32s set(float x) {
    F32s r;
#pragma unroll
    for (int i = 0; i < n; ++i) r.v[i] = x;
    return r;
  }
  friend __device__ __forceinline__ F32s operator+(F32s a, F32s b) {
#pragma unroll
    for (int i = 0; i < n; ++i) a.v[i] = a.v[i] + b.v[i];
    return a;
  }
  friend __device__ __forceinline__ F32s operator-(F32s a, F32s b) {
#pragma unroll
    for (int i = 0; i < n; ++i) a.v[i] = a.v[i] - b.v[i];
    return a;
  }
  friend __device__ __forceinline__ F32s operator*(F32s a, F32s b) {
#pragma unroll
    for (int i = 0; i < n; ++i) a.v[i] = a.v[i] * b.v[i];
    return a;
  }
  friend __device__ __forceinline__ F32s fma(F32s a, F32s b, F32s c) {
#pragma unroll
    for (int i = 0; i < n; ++i) a.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return a;
  }
  friend __device__ __forceinline__ F32s max(F32s a, F32s b) {
#pragma unroll
    for (int i = 0; i < n; ++i) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
  }
  friend __device__ __forceinline__ F32s min(F32s a, F32s b) {
#pragma unroll
    for (int i = 0; i < n; ++i) a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return a;
  }
  friend __device__ __forceinline__ F32s pow2_of_biased(F32s t) {
#pragma unroll
    for (int i = 0; i < n; ++i) t.v[i] = pow2_of_biased(F32x1{t.v[i]}).v;
    return t;
  }
};

/// silu of each element, with the bits of silu().
template <int n>
__device__ __forceinline__ void silu_side_by_side(float (&x)[n]) {
  using V = F32s<n>;
  V all;
#pragma unroll
  for (int i = 0; i < n; ++i) all.v[i] = x[i];
  const V y = V::set(1.0F) + exp_lanes(V::set(0.0F) - all);
  bool quickly = true;
#pragma unroll
  for (int i = 0; i < n; ++i) quickly = quickly && divides_quickly(x[i], y.v[i]);
  if (quickly) {
#pragma unroll
    for (int i = 0; i < n; ++i) x[i] = quick_divide(x[i], y.v[i]);
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) x[i] = x[i] / y.v[i];
  }
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_SILU_DEVICE_H_
