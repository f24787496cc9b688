// The AVX-512 kernels; avx512/table.cc lists them.
#ifndef CHIMERE_KERNELS_CPU_AVX512_KERNELS_H_
#define CHIMERE_KERNELS_CPU_AVX512_KERNELS_H_

#include "kernels/cpu/matmul.h"

namespace chimere::kernels::cpu::avx512 {

void round_activations(const float* x, int64_t n, const RoundedRow& out);

/// Types whose kernel needs only AVX-512 VNNI, grouped by the order of activations that it reads.
using NaturalTypes = DTypeList<DType::kQ8_0, DType::kTQ1_0, DType::kTQ2_0, DType::kIQ2_K,
                               DType::kIQ3_K, DType::kIQ4_K, DType::kIQ5_K>;
using EightsTypes = DTypeList<DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kMXFP4,
                              DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                              DType::kIQ4_NL, DType::kIQ4_XS>;
/// Types whose codebook is looked up by byte permutations, which need VBMI, BITALG and GFNI too.
/// They read RoundedRow::q_by_fours.
using PermutedTypes = DTypeList<DType::kIQ1_S, DType::kIQ1_M, DType::kIQ2_XXS, DType::kIQ2_XS,
                                DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S>;

/// Defined for each type of these lists.
template <DType kType>
void product(const IntegerProduct& p);

}  // namespace chimere::kernels::cpu::avx512

#endif  // CHIMERE_KERNELS_CPU_AVX512_KERNELS_H_
