// Compiled without AVX2.
#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/isa.h"

namespace chimere::kernels::cpu::avx2 {
namespace {

template <DType... kTypes>
MatmulKernels make_kernels(DTypeList<kTypes...> /*types*/) {
  MatmulKernels k;
  k.round = round_activations;
  ((k.integer[kernel_index(kTypes)] = product<kTypes>), ...);
  ((k.order[kernel_index(kTypes)] = ActivationOrder::kByEights), ...);
  k.unpacked_iq3_s = product_unpacked_iq3_s;
  k.f32 = product_f32;
  k.f16 = product_f16;
  k.bf16 = product_bf16;
  k.activate = activate;
  k.add_scaled = add_scaled;
  k.add_low_rank = add_low_rank;
  return k;
}

#if defined(CHIMERE_AVXVNNI_KERNELS) || defined(CHIMERE_AVX512VL_KERNELS)
/// The AVX2 kernels, with byte dot products in the encoding that this processor has.
template <DType... kTypes>
MatmulKernels make_vnni_kernels(DTypeList<kTypes...> types) {
  MatmulKernels k = make_kernels(types);
#ifdef CHIMERE_AVXVNNI_KERNELS
  if (cpu_features().avx_vnni) {
    ((k.integer[kernel_index(kTypes)] = avxvnni::product<kTypes>), ...);
    k.unpacked_iq3_s = avxvnni::product_unpacked_iq3_s;
    return k;
  }
#endif
#ifdef CHIMERE_AVX512VL_KERNELS
  ((k.integer[kernel_index(kTypes)] = avx512vl::product<kTypes>), ...);
  k.unpacked_iq3_s = avx512vl::product_unpacked_iq3_s;
#endif
  return k;
}
#endif

}  // namespace

const MatmulKernels& matmul_kernels() {
  static const MatmulKernels kKernels = make_kernels(IntegerTypes{});
  return kKernels;
}

#if defined(CHIMERE_AVXVNNI_KERNELS) || defined(CHIMERE_AVX512VL_KERNELS)
const MatmulKernels& vnni_matmul_kernels() {
  static const MatmulKernels kKernels = make_vnni_kernels(IntegerTypes{});
  return kKernels;
}
#endif

}  // namespace chimere::kernels::cpu::avx2
