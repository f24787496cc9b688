// Which instruction sets the program is compiled for, and which of them a processor supports.
#ifndef CHIMERE_KERNELS_CPU_ISA_H_
#define CHIMERE_KERNELS_CPU_ISA_H_

#include <span>
#include <vector>

#include "kernels/api.h"

namespace chimere::kernels {

/// Those that this program is compiled for (CHIMERE_CPU_ISAS), slowest first; kGeneric always.
std::span<const CpuIsa> compiled_cpu_isas();
/// Those that this processor supports; the last one is best_cpu_isa().
std::vector<CpuIsa> usable_cpu_isas();

}  // namespace chimere::kernels

namespace chimere::kernels::cpu {

/// The processor features that kernels need.
struct CpuFeatures {
  bool avx2 = false;       ///< AVX2 and FMA
  bool avx_vnni = false;   ///< AVX-VNNI: byte dot products of 256 bits without AVX-512
  bool avx512 = false;     ///< F, BW, DQ, VL and VNNI
  bool codebooks = false;  ///< VBMI, BITALG and GFNI: codebooks by byte permutations
  bool neon = false;       ///< every 64-bit ARM processor
  bool dotprod = false;    ///< byte dot products of ARMv8.2
  bool i8mm = false;       ///< byte matrix products of ARMv8.6
};
CpuFeatures cpu_features();

/// The sets of integer products for AVX2 that a program is compiled with.
struct CompiledProducts {
  bool avx2 = false;
  bool avxvnni = false;   ///< byte dot products in the encoding of AVX-VNNI
  bool avx512vl = false;  ///< the same in the encoding of AVX-512
};
CompiledProducts compiled_products();

/// Whether a processor supports the kernels of `isa`. kAvxVnni exists in two encodings, AVX-VNNI's
/// and AVX-512's, so that it can be measured on processors with more. On processors without byte
/// permutations, kAvx512 takes the codebook formats' products from kAvx2.
bool runs(CpuIsa isa, const CpuFeatures& cpu, const CompiledProducts& compiled);

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_ISA_H_
