#include "kernels/cpu/isa.h"

#include <algorithm>
#include <iterator>

#include "base/system.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace chimere::kernels {
namespace {

constexpr CpuIsa kCompiled[] = {
    CpuIsa::kGeneric,
#ifdef CHIMERE_AVX2_KERNELS
    CpuIsa::kAvx2,
#endif
#if defined(CHIMERE_AVXVNNI_KERNELS) || defined(CHIMERE_AVX512VL_KERNELS)
    CpuIsa::kAvxVnni,
#endif
#ifdef CHIMERE_AVX512_KERNELS
    CpuIsa::kAvx512,
#endif
#ifdef CHIMERE_NEON_KERNELS
    CpuIsa::kNeon,    CpuIsa::kDotprod, CpuIsa::kI8mm,
#endif
};

#if defined(__x86_64__)
/// clang 16's __builtin_cpu_supports() does not know AVX-VNNI: leaf 7, subleaf 1, bit 4 of eax.
bool has_avx_vnni() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1U) != 0;
}
#endif

}  // namespace

namespace cpu {

CpuFeatures cpu_features() {
  CpuFeatures cpu;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // Every processor with AVX2 and FMA also has F16C, which is older than both.
  cpu.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  cpu.avx_vnni = cpu.avx2 && has_avx_vnni();
  cpu.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni");
  cpu.codebooks = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bitalg") &&
                  __builtin_cpu_supports("gfni");
#elif defined(__aarch64__)
  const ArmFeatures arm = arm_features();
  cpu.neon = true;
  cpu.dotprod = arm.dotprod;
  cpu.i8mm = arm.dotprod && arm.i8mm;
#endif
  return cpu;
}

CompiledProducts compiled_products() {
  CompiledProducts compiled;
#ifdef CHIMERE_AVX2_KERNELS
  compiled.avx2 = true;
#endif
#ifdef CHIMERE_AVXVNNI_KERNELS
  compiled.avxvnni = true;
#endif
#ifdef CHIMERE_AVX512VL_KERNELS
  compiled.avx512vl = true;
#endif
  return compiled;
}

bool runs(CpuIsa isa, const CpuFeatures& cpu, const CompiledProducts& compiled) {
  switch (isa) {
    case CpuIsa::kAvx512:
      return cpu.avx2 && cpu.avx512 && (cpu.codebooks || compiled.avx2);
    case CpuIsa::kAvxVnni:
      return cpu.avx2 && ((cpu.avx_vnni && compiled.avxvnni) || (cpu.avx512 && compiled.avx512vl));
    case CpuIsa::kAvx2:
      return cpu.avx2;
    case CpuIsa::kNeon:
      return cpu.neon;
    case CpuIsa::kDotprod:
      return cpu.dotprod;
    case CpuIsa::kI8mm:
      return cpu.i8mm;
    default:
      return true;
  }
}

}  // namespace cpu

std::span<const CpuIsa> compiled_cpu_isas() { return kCompiled; }

std::vector<CpuIsa> usable_cpu_isas() {
  const cpu::CpuFeatures features = cpu::cpu_features();
  const cpu::CompiledProducts compiled = cpu::compiled_products();
  std::vector<CpuIsa> usable;
  for (const CpuIsa isa : kCompiled) {
    if (cpu::runs(isa, features, compiled)) usable.push_back(isa);
  }
  return usable;
}

CpuIsa best_cpu_isa() { return usable_cpu_isas().back(); }

const char* cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvxVnni:
      return "avx-vnni";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kNeon:
      return "neon";
    case CpuIsa::kDotprod:
      return "neon-dotprod";
    case CpuIsa::kI8mm:
      return "neon-i8mm";
    default:
      return "generic";
  }
}

}  // namespace chimere::kernels
