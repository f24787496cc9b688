#include "kernels/api.h"

namespace chimere::kernels {

CpuIsa best_cpu_isa() {
#ifdef CHIMERE_X86_KERNELS
  // Every processor with AVX2 and FMA converts f16 too (F16C is older than both).
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CpuIsa::kGeneric;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    return CpuIsa::kAvx512;
  }
  return CpuIsa::kAvx2;
#else
  return CpuIsa::kGeneric;
#endif
}

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
