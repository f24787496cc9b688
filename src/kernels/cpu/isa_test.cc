#include "kernels/cpu/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace chimere::kernels {
namespace {

TEST(Isa, TheBaselineRunsEverywhere) {
  EXPECT_TRUE(cpu::runs(CpuIsa::kGeneric, {}, true));
  EXPECT_TRUE(cpu::runs(CpuIsa::kGeneric, {}, false));
}

TEST(Isa, Avx2NeedsAvx2) {
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx2, {}, true));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvx2, {.avx2 = true}, true));
}

TEST(Isa, AvxVnniHasTwoEncodings) {
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true}, true));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true, .avx_vnni = true}, true));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true, .avx512 = true}, true));
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx512, {.avx2 = true, .avx_vnni = true}, true));
}

TEST(Isa, Avx512TakesCodebooksFromAvx2WhereTheProcessorCannotPermuteBytes) {
  const cpu::CpuFeatures avx2 = {.avx2 = true};
  const cpu::CpuFeatures vnni = {.avx2 = true, .avx512 = true};
  const cpu::CpuFeatures all = {.avx2 = true, .avx512 = true, .codebooks = true};
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx512, avx2, true));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvx512, vnni, true));
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx512, vnni, false));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvx512, all, false));
}

TEST(Isa, ArmNeedsWhatItsKernelsUse) {
  const cpu::CpuFeatures neon = {.neon = true};
  const cpu::CpuFeatures dotprod = {.neon = true, .dotprod = true};
  EXPECT_TRUE(cpu::runs(CpuIsa::kNeon, neon, false));
  EXPECT_FALSE(cpu::runs(CpuIsa::kDotprod, neon, false));
  EXPECT_TRUE(cpu::runs(CpuIsa::kDotprod, dotprod, false));
  EXPECT_FALSE(cpu::runs(CpuIsa::kI8mm, dotprod, false));
  EXPECT_FALSE(cpu::runs(CpuIsa::kNeon, {}, false));
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx2, dotprod, false));
}

TEST(Isa, TheBestIsTheLastCompiledOneThatThisProcessorRuns) {
  const auto compiled = compiled_cpu_isas();
  const std::vector<CpuIsa> usable = usable_cpu_isas();
  ASSERT_FALSE(compiled.empty());
  EXPECT_EQ(compiled.front(), CpuIsa::kGeneric);
  EXPECT_TRUE(std::ranges::is_sorted(compiled));
  ASSERT_FALSE(usable.empty());
  EXPECT_TRUE(std::ranges::includes(compiled, usable));
  EXPECT_EQ(best_cpu_isa(), usable.back());
  const cpu::CpuFeatures features = cpu::cpu_features();
  const bool with_avx2 = std::ranges::find(compiled, CpuIsa::kAvx2) != compiled.end();
  for (const CpuIsa isa : compiled) {
    EXPECT_EQ(std::ranges::find(usable, isa) != usable.end(), cpu::runs(isa, features, with_avx2))
        << cpu_isa_name(isa);
  }
}

}  // namespace
}  // namespace chimere::kernels
