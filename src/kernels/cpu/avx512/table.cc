// Which AVX-512 kernels this processor gets. Compiled without AVX-512.
#include "kernels/cpu/avx512/kernels.h"

namespace chimere::kernels::cpu::avx512 {

const MatmulKernels& matmul_kernels() {
  static const MatmulKernels kKernels = [] {
    MatmulKernels k = avx2::matmul_kernels();
    k.round = round_activations;
    k.q8_0 = product_q8_0;
    k.q4_k = product_q4_k;
    k.q5_k = product_q5_k;
    k.q6_k = product_q6_k;
    if (__builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512bitalg") != 0) {
      k.iq3_s = product_iq3_s;
      k.iq3_s_by_fours = true;
    }
    k.f32 = product_f32;
    k.f16 = product_f16;
    k.bf16 = product_bf16;
    k.silu_multiply = silu_multiply;
    k.add_scaled = add_scaled;
    return k;
  }();
  return kKernels;
}

}  // namespace chimere::kernels::cpu::avx512
