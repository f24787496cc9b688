// The AVX2 kernels that are not written with F32x16; avx2/table.cc lists all. The integer products
// are compiled three times: for AVX2, and with the byte dot products of AVX-VNNI and of AVX-512.
#ifndef CHIMERE_KERNELS_CPU_AVX2_KERNELS_H_
#define CHIMERE_KERNELS_CPU_AVX2_KERNELS_H_

#include "kernels/cpu/matmul.h"

namespace chimere::kernels::cpu::avx2 {
void round_activations(const float* x, int64_t n, const RoundedRow& out);
/// Defined for each of IntegerTypes, here and below.
template <DType kType>
void product(const IntegerProduct& p);
void product_unpacked_iq3_s(const IntegerProduct& p);
}  // namespace chimere::kernels::cpu::avx2

namespace chimere::kernels::cpu::avxvnni {
template <DType kType>
void product(const IntegerProduct& p);
void product_unpacked_iq3_s(const IntegerProduct& p);
}  // namespace chimere::kernels::cpu::avxvnni

namespace chimere::kernels::cpu::avx512vl {
template <DType kType>
void product(const IntegerProduct& p);
void product_unpacked_iq3_s(const IntegerProduct& p);
}  // namespace chimere::kernels::cpu::avx512vl

#endif  // CHIMERE_KERNELS_CPU_AVX2_KERNELS_H_
