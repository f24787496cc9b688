// Rounds activations of prefill rows to f16, each row as a whole (docs/numerics.md, rule 9).
#include "kernels/cuda/half_rows_args.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/ptx/float16.h"

namespace chimere::kernels::cuda {

CHIMERE_KERNEL(half_rows, kHalfRowsThreads, HalfRowsArgs, args) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int index = static_cast<int>(blockIdx.x) * (kHalfRowsThreads / kWarp) +
                    static_cast<int>(threadIdx.x) / kWarp;
  if (index >= args.rows) return;
  const int row = args.row_ids == nullptr ? index : args.row_ids[index];
  const int n = index < args.other_from ? args.n : args.other_n;
  const float* x = args.x + row * args.x_stride;
  // Infinities and NaNs have larger bit patterns than any number.
  uint32_t bits = 0;
  const auto largest = [&](float v) { bits = max(bits, __float_as_uint(fabsf(v))); };
  // n is a multiple of 32, so rows that begin at multiples of 16 bytes are read four by four.
  const bool quads =
      args.x_stride % 4 == 0 && reinterpret_cast<uintptr_t>(args.x) % sizeof(float4) == 0;
  if (quads) {
#pragma unroll 8
    for (int i = 4 * lane; i < n; i += 4 * kWarp) {
      const float4 v = *reinterpret_cast<const float4*>(x + i);
      largest(v.x);
      largest(v.y);
      largest(v.z);
      largest(v.w);
    }
  } else {
#pragma unroll 16
    for (int i = lane; i < n; i += kWarp) largest(x[i]);
  }
  for (int h = 16; h > 0; h /= 2) bits = max(bits, __shfl_xor_sync(kFullWarp, bits, h));
  // Scale the largest magnitude to between 2^14 and 2^15.
  float scale = 0;
  float unit = 0;
  if (bits >= 0x7F800000U) {
    unit = __uint_as_float(0x7FC00000U);
  } else if (__uint_as_float(bits) >= 0x1p-100F) {
    const int exponent = static_cast<int>(bits >> 23U) - 127;
    scale = __uint_as_float(static_cast<uint32_t>(14 - exponent + 127) << 23U);
    unit = __uint_as_float(static_cast<uint32_t>(exponent - 14 - 6 + 127) << 23U);
  }
  static_assert(kHalfWeightUnit == 64, "2^6");
  uint16_t* to = args.to.x + static_cast<int64_t>(row) * args.pitch;
  const bool some = scale != 0;
  const auto rounded = [&](float v) -> uint32_t { return some ? round_f16(v * scale) : 0; };
  if (quads) {
#pragma unroll 8
    for (int i = 4 * lane; i < n; i += 4 * kWarp) {
      const float4 v = *reinterpret_cast<const float4*>(x + i);
      *reinterpret_cast<uint2*>(to + i) =
          make_uint2(rounded(v.x) | rounded(v.y) << 16U, rounded(v.z) | rounded(v.w) << 16U);
    }
  } else {
#pragma unroll 16
    for (int i = lane; i < n; i += kWarp) to[i] = static_cast<uint16_t>(rounded(x[i]));
  }
  if (lane == 0) args.to.unit[row] = unit;
}

}  // namespace chimere::kernels::cuda
