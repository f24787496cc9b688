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
#pragma unroll 16
  for (int i = lane; i < n; i += kWarp) bits = max(bits, __float_as_uint(fabsf(x[i])));
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
#pragma unroll 16
  for (int i = lane; i < n; i += kWarp) to[i] = some ? round_f16(x[i] * scale) : uint16_t{0};
  if (lane == 0) args.to.unit[row] = unit;
}

}  // namespace chimere::kernels::cuda
