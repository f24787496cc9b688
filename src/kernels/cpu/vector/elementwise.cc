// Elementwise steps of the expert feed-forward network.
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/simd.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

void silu_multiply(float* gate, const float* up, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    (silu_lanes(F32x16::load(gate + i)) * F32x16::load(up + i)).store(gate + i);
  }
  for (; i < n; ++i) gate[i] = silu(gate[i]) * up[i];
}

void add_scaled(float* total, float weight, const float* out, int64_t n) {
  const F32x16 w = F32x16::set(weight);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    fma(w, F32x16::load(out + i), F32x16::load(total + i)).store(total + i);
  }
  for (; i < n; ++i) total[i] = __builtin_fmaf(weight, out[i], total[i]);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
