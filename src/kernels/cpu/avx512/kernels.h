// The AVX-512 kernels; avx512/table.cc lists them. IQ3_S needs VBMI and BITALG as well.
#ifndef CHIMERE_KERNELS_CPU_AVX512_KERNELS_H_
#define CHIMERE_KERNELS_CPU_AVX512_KERNELS_H_

#include "kernels/cpu/matmul.h"

namespace chimere::kernels::cpu::avx512 {

void round_activations(const float* x, int64_t n, const RoundedRow& out);
void product_q8_0(const IntegerProduct& p);
void product_q4_k(const IntegerProduct& p);
void product_q5_k(const IntegerProduct& p);
void product_q6_k(const IntegerProduct& p);
void product_iq3_s(const IntegerProduct& p);

}  // namespace chimere::kernels::cpu::avx512

#endif  // CHIMERE_KERNELS_CPU_AVX512_KERNELS_H_
