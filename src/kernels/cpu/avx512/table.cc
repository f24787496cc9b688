// Selects this processor's AVX-512 kernels. Compiled without AVX-512.
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/isa.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

template <DType... kTypes>
void set_kernels(MatmulKernels& k, ActivationOrder order, DTypeList<kTypes...> /*types*/) {
  ((k.integer[kernel_index(kTypes)] = product<kTypes>), ...);
  ((k.order[kernel_index(kTypes)] = order), ...);
}

}  // namespace

const MatmulKernels& matmul_kernels() {
  static const MatmulKernels kKernels = [] {
#ifdef CHIMERE_AVX2_KERNELS
    MatmulKernels k = avx2::matmul_kernels();
#else
    MatmulKernels k;
#endif
    k.round = round_activations;
    set_kernels(k, ActivationOrder::kNatural, NaturalTypes{});
    set_kernels(k, ActivationOrder::kByEights, EightsTypes{});
    if (cpu_features().codebooks) {
      set_kernels(k, ActivationOrder::kByFours, PermutedTypes{});
      k.unpacked_iq3_s = nullptr;
    }
    k.f32 = product_f32;
    k.f16 = product_f16;
    k.bf16 = product_bf16;
    k.activate = activate;
    k.add_scaled = add_scaled;
    k.add_low_rank = add_low_rank;
    return k;
  }();
  return kKernels;
}

}  // namespace chimere::kernels::cpu::avx512
