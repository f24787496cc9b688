// Compiled without AVX2.
#include "kernels/cpu/avx2/kernels.h"

namespace chimere::kernels::cpu::avx2 {

const MatmulKernels& matmul_kernels() {
  static constexpr MatmulKernels kKernels = {
      .round = round_activations,
      .q8_0 = product_q8_0,
      .q4_k = product_q4_k,
      .q5_k = product_q5_k,
      .q6_k = product_q6_k,
      .iq3_s = product_iq3_s,
      .iq3_s_by_fours = false,
      .f32 = product_f32,
      .f16 = product_f16,
      .bf16 = product_bf16,
      .silu_multiply = silu_multiply,
      .add_scaled = add_scaled,
  };
  return kKernels;
}

}  // namespace chimere::kernels::cpu::avx2
