#include "kernels/cpu/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace chimere::kernels {
namespace {

constexpr cpu::CompiledProducts kAll = {.avx2 = true, .avxvnni = true, .avx512vl = true};

TEST(Isa, TheBaselineRunsEverywhere) {
  EXPECT_TRUE(cpu::runs(CpuIsa::kGeneric, {}, kAll));
  EXPECT_TRUE(cpu::runs(CpuIsa::kGeneric, {}, {}));
}

TEST(Isa, Avx2NeedsAvx2) {
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx2, {}, kAll));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvx2, {.avx2 = true}, kAll));
}

TEST(Isa, AvxVnniHasTwoEncodings) {
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true}, kAll));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true, .avx_vnni = true}, kAll));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true, .avx512 = true}, kAll));
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx512, {.avx2 = true, .avx_vnni = true}, kAll));
  // Each encoding needs the kernels that are compiled with it.
  const cpu::CompiledProducts avxvnni = {.avx2 = true, .avxvnni = true};
  const cpu::CompiledProducts avx512vl = {.avx2 = true, .avx512vl = true};
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true, .avx_vnni = true}, avxvnni));
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true, .avx512 = true}, avxvnni));
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true, .avx_vnni = true}, avx512vl));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvxVnni, {.avx2 = true, .avx512 = true}, avx512vl));
}

TEST(Isa, Avx512TakesCodebooksFromAvx2WhereTheProcessorCannotPermuteBytes) {
  const cpu::CpuFeatures avx2 = {.avx2 = true};
  const cpu::CpuFeatures vnni = {.avx2 = true, .avx512 = true};
  const cpu::CpuFeatures all = {.avx2 = true, .avx512 = true, .codebooks = true};
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx512, avx2, kAll));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvx512, vnni, kAll));
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx512, vnni, {}));
  EXPECT_TRUE(cpu::runs(CpuIsa::kAvx512, all, {}));
}

TEST(Isa, ArmNeedsWhatItsKernelsUse) {
  const cpu::CpuFeatures neon = {.neon = true};
  const cpu::CpuFeatures dotprod = {.neon = true, .dotprod = true};
  EXPECT_TRUE(cpu::runs(CpuIsa::kNeon, neon, {}));
  EXPECT_FALSE(cpu::runs(CpuIsa::kDotprod, neon, {}));
  EXPECT_TRUE(cpu::runs(CpuIsa::kDotprod, dotprod, {}));
  EXPECT_FALSE(cpu::runs(CpuIsa::kI8mm, dotprod, {}));
  EXPECT_FALSE(cpu::runs(CpuIsa::kNeon, {}, {}));
  EXPECT_FALSE(cpu::runs(CpuIsa::kAvx2, dotprod, {}));
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
  const cpu::CompiledProducts products = cpu::compiled_products();
  for (const CpuIsa isa : compiled) {
    EXPECT_EQ(std::ranges::find(usable, isa) != usable.end(), cpu::runs(isa, features, products))
        << cpu_isa_name(isa);
  }
}

}  // namespace
}  // namespace chimere::kernels
