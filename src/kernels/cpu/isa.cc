#include "kernels/cpu/isa.h"

#include <algorithm>
#include <iterator>

namespace chimere::kernels {
namespace {

constexpr CpuIsa kCompiled[] = {
    CpuIsa::kGeneric,
#ifdef CHIMERE_AVX2_KERNELS
    CpuIsa::kAvx2,
#endif
#ifdef CHIMERE_AVX512_KERNELS
    CpuIsa::kAvx512,
#endif
};

}  // namespace

namespace cpu {

CpuFeatures cpu_features() {
  CpuFeatures cpu;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // Every processor with AVX2 and FMA also has F16C, which is older than both.
  cpu.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  cpu.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni");
  cpu.codebooks = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bitalg") &&
                  __builtin_cpu_supports("gfni");
#endif
  return cpu;
}

bool runs(CpuIsa isa, const CpuFeatures& cpu, bool with_avx2) {
  switch (isa) {
    case CpuIsa::kAvx512:
      return cpu.avx2 && cpu.avx512 && (cpu.codebooks || with_avx2);
    case CpuIsa::kAvx2:
      return cpu.avx2;
    default:
      return true;
  }
}

}  // namespace cpu

std::span<const CpuIsa> compiled_cpu_isas() { return kCompiled; }

std::vector<CpuIsa> usable_cpu_isas() {
  const cpu::CpuFeatures features = cpu::cpu_features();
  const bool with_avx2 = std::ranges::find(kCompiled, CpuIsa::kAvx2) != std::end(kCompiled);
  std::vector<CpuIsa> usable;
  for (const CpuIsa isa : kCompiled) {
    if (cpu::runs(isa, features, with_avx2)) usable.push_back(isa);
  }
  return usable;
}

CpuIsa best_cpu_isa() { return usable_cpu_isas().back(); }

const char* cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx2:
      return "avx2";
    default:
      return "generic";
  }
}

}  // namespace chimere::kernels
