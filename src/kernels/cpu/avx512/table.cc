// Which AVX-512 kernels this processor gets. Compiled without AVX-512.
#include "kernels/cpu/avx512/kernels.h"

namespace chimere::kernels::cpu {

const MatmulKernels& avx512_matmul_kernels() {
  static const MatmulKernels kKernels = [] {
    MatmulKernels k = avx2_matmul_kernels();
    k.round = avx512::round_activations;
    k.q8_0 = avx512::product_q8_0;
    k.q4_k = avx512::product_q4_k;
    k.q5_k = avx512::product_q5_k;
    k.q6_k = avx512::product_q6_k;
    if (__builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512bitalg") != 0) {
      k.iq3_s = avx512::product_iq3_s;
      k.iq3_s_by_fours = true;
    }
    k.f32 = avx512::product_f32;
    k.f16 = avx512::product_f16;
    k.bf16 = avx512::product_bf16;
    return k;
  }();
  return kKernels;
}

}  // namespace chimere::kernels::cpu
