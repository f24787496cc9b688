// Selects this processor's NEON kernels. Compiled for any 64-bit ARM processor.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/neon/kernels.h"

namespace chimere::kernels::cpu::neon {
namespace {

template <DType... kTypes>
MatmulKernels make_kernels(CpuIsa isa, DTypeList<kTypes...> /*types*/) {
  MatmulKernels k;
  k.round = round_activations;
  if (isa == CpuIsa::kI8mm) {
    ((k.integer[kernel_index(kTypes)] = i8mm::product<kTypes>), ...);
  } else if (isa == CpuIsa::kDotprod) {
    ((k.integer[kernel_index(kTypes)] = dotprod::product<kTypes>), ...);
  } else {
    ((k.integer[kernel_index(kTypes)] = product<kTypes>), ...);
  }
  k.f32 = product_f32;
  k.f16 = product_f16;
  k.bf16 = product_bf16;
  k.activate = activate;
  k.add_scaled = add_scaled;
  k.add_low_rank = add_low_rank;
  return k;
}

}  // namespace

const MatmulKernels& matmul_kernels(CpuIsa isa) {
  static const MatmulKernels kNeon = make_kernels(CpuIsa::kNeon, IntegerTypes{});
  static const MatmulKernels kDotprod = make_kernels(CpuIsa::kDotprod, IntegerTypes{});
  static const MatmulKernels kI8mm = make_kernels(CpuIsa::kI8mm, IntegerTypes{});
  return isa == CpuIsa::kI8mm ? kI8mm : isa == CpuIsa::kDotprod ? kDotprod : kNeon;
}

}  // namespace chimere::kernels::cpu::neon
