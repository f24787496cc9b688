// The AVX2 kernels that are not written with F32x16; avx2/table.cc lists all.
#ifndef CHIMERE_KERNELS_CPU_AVX2_KERNELS_H_
#define CHIMERE_KERNELS_CPU_AVX2_KERNELS_H_

#include "kernels/cpu/matmul.h"

namespace chimere::kernels::cpu::avx2 {

void round_activations(const float* x, int64_t n, const RoundedRow& out);
/// Defined for each of IntegerTypes.
template <DType kType>
void product(const IntegerProduct& p);

}  // namespace chimere::kernels::cpu::avx2

#endif  // CHIMERE_KERNELS_CPU_AVX2_KERNELS_H_
