// The NEON kernels that are not written with F32x16; neon/table.cc lists all. The integer products
// are compiled three times: for any 64-bit ARM processor, with byte dot products (dotprod), and
// with byte matrix products too (i8mm).
#ifndef CHIMERE_KERNELS_CPU_NEON_KERNELS_H_
#define CHIMERE_KERNELS_CPU_NEON_KERNELS_H_

#include "kernels/cpu/matmul.h"

namespace chimere::kernels::cpu::neon {
void round_activations(const float* x, int64_t n, const RoundedRow& out);
/// Defined for each of IntegerTypes, here and below.
template <DType kType>
void product(const IntegerProduct& p);
}  // namespace chimere::kernels::cpu::neon

namespace chimere::kernels::cpu::dotprod {
template <DType kType>
void product(const IntegerProduct& p);
}  // namespace chimere::kernels::cpu::dotprod

namespace chimere::kernels::cpu::i8mm {
template <DType kType>
void product(const IntegerProduct& p);
}  // namespace chimere::kernels::cpu::i8mm

#endif  // CHIMERE_KERNELS_CPU_NEON_KERNELS_H_
