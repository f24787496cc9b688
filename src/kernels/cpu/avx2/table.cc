// Compiled without AVX2.
#include "kernels/cpu/avx2/kernels.h"

namespace chimere::kernels::cpu::avx2 {
namespace {

template <DType... kTypes>
MatmulKernels make_kernels(DTypeList<kTypes...> /*types*/) {
  MatmulKernels k;
  k.round = round_activations;
  ((k.integer[kernel_index(kTypes)] = product<kTypes>), ...);
  k.f32 = product_f32;
  k.f16 = product_f16;
  k.bf16 = product_bf16;
  k.activate = activate;
  k.add_scaled = add_scaled;
  return k;
}

}  // namespace

const MatmulKernels& matmul_kernels() {
  static const MatmulKernels kKernels = make_kernels(IntegerTypes{});
  return kKernels;
}

}  // namespace chimere::kernels::cpu::avx2
