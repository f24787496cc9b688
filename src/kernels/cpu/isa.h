// Which instruction sets a program is compiled for, and which of them a processor runs.
#ifndef CHIMERE_KERNELS_CPU_ISA_H_
#define CHIMERE_KERNELS_CPU_ISA_H_

#include <span>
#include <vector>

#include "kernels/api.h"

namespace chimere::kernels {

/// Those that this program is compiled for (CHIMERE_CPU_ISAS), slowest first; kGeneric always.
std::span<const CpuIsa> compiled_cpu_isas();
/// Those of them that this processor runs; best_cpu_isa() is the last.
std::vector<CpuIsa> usable_cpu_isas();

}  // namespace chimere::kernels

namespace chimere::kernels::cpu {

/// What a processor has, as far as the kernels ask.
struct CpuFeatures {
  bool avx2 = false;       ///< AVX2 and FMA
  bool avx512 = false;     ///< F, BW, DQ, VL and VNNI
  bool codebooks = false;  ///< VBMI, BITALG and GFNI: codebooks by byte permutations
};
CpuFeatures cpu_features();

/// Whether a processor runs the kernels of `isa`. Those of kAvx512 take the codebooks' products
/// from kAvx2 on processors without byte permutations; `with_avx2`: these are compiled too.
bool runs(CpuIsa isa, const CpuFeatures& cpu, bool with_avx2);

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_ISA_H_
