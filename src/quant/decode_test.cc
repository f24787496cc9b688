#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <vector>

#include "base/fresh_seed.h"
#include "quant/blocks.h"
#include "quant/quant.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace chimere::quant {
namespace {

TEST(Decode, EqualsTheReferenceDecoderBitForBit) {
  std::ifstream file(CHIMERE_GOLDEN_DIR "/block_decode.txt");
  ASSERT_TRUE(file.good());
  std::map<DType, int> seen;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::string name;
    std::string hex;
    ASSERT_TRUE(fields >> name >> hex);
    const auto type = parse_dtype(name);
    ASSERT_TRUE(type.has_value()) << name;
    const DTypeInfo& info = dtype_info(*type);
    ASSERT_EQ(hex.size(), 2U * static_cast<size_t>(info.block_bytes));
    // 16-bit words, for the same alignment as in a file.
    std::vector<uint16_t> storage(hex.size() / 4 + 1);
    auto* block = reinterpret_cast<uint8_t*>(storage.data());
    for (size_t i = 0; i < hex.size() / 2; ++i) {
      block[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    }
    std::vector<float> got(static_cast<size_t>(info.block_elements));
    decode(*type, block, got.data(), info.block_elements);
    for (size_t i = 0; i < got.size(); ++i) {
      uint32_t expected = 0;
      ASSERT_TRUE(fields >> std::hex >> expected);
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), expected) << name << " element " << i;
    }
    ++seen[*type];
  }
  for (const char* name :
       {"q4_0",   "q4_1",  "q5_0",  "q5_1",    "q8_0",   "q2_K",  "q3_K",    "q4_K",  "q5_K",
        "q6_K",   "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl",
        "iq4_xs", "mxfp4", "tq1_0", "tq2_0",   "iq2_k",  "iq3_k", "iq4_k",   "iq5_k"}) {
    EXPECT_GE(seen[*parse_dtype(name)], 2) << name;
  }
}

TEST(Decode, WidensNumbers) {
  float out[2];
  const double d[2] = {0.1, -4};
  decode(DType::kF64, d, out, 2);
  EXPECT_EQ(out[0], 0.1F);
  EXPECT_EQ(out[1], -4.0F);
  const int8_t i[2] = {-128, 7};
  decode(DType::kI8, i, out, 2);
  EXPECT_EQ(out[0], -128.0F);
  const uint16_t b[2] = {0x3f80, 0xc000};
  decode(DType::kBF16, b, out, 2);
  EXPECT_EQ(out[0], 1.0F);
  EXPECT_EQ(out[1], -2.0F);
}

// An independent definition of the format: sign, exponent and mantissa by formula.
double f16_by_formula(int h) {
  const int exponent = (h >> 10) & 31;
  const int mantissa = h & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(F16, WidensEveryValueAndRoundsBack) {
  for (int h = 0; h < 65536; ++h) {
    const auto bits = static_cast<uint16_t>(h);
    const float f = f16_to_f32(bits);
    if ((h & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(f), (h & 0x3ff) != 0);
      EXPECT_EQ(std::signbit(f), (h & 0x8000) != 0);
    } else {
      ASSERT_EQ(static_cast<double>(f), f16_by_formula(h)) << h;
      ASSERT_EQ(f32_to_f16(f), bits) << h;
    }
  }
}

TEST(F16, RoundsHalfwayCasesToEven) {
  for (int h = 0; h < 0x7bff; ++h) {
    const double low = f16_by_formula(h);
    const double high = f16_by_formula(h + 1);
    const auto middle = static_cast<float>((low + high) / 2);  // exact in f32
    const int even = h % 2 == 0 ? h : h + 1;
    ASSERT_EQ(f32_to_f16(middle), even);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9F)), h + 1);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), h);
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000);
  }
  EXPECT_EQ(f32_to_f16(65519.0F), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xfc00);
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(INFINITY), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001U)))));
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint16_t hardware_f16(float f) { return _cvtss_sh(f, 0); }
__attribute__((target("f16c"))) float hardware_f32(uint16_t h) { return _cvtsh_ss(h); }

TEST(F16, AgreesWithTheProcessorsInstructions) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "no AVX2 here, hence perhaps no F16C";
  for (int h = 0; h < 65536; ++h) {
    const auto bits = static_cast<uint16_t>(h);
    ASSERT_EQ(std::bit_cast<uint32_t>(f16_to_f32(bits)),
              std::bit_cast<uint32_t>(hardware_f32(bits)));
  }
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_EQ(f32_to_f16(f), hardware_f16(f)) << std::bit_cast<uint32_t>(f);
  }
}
#endif

}  // namespace
}  // namespace chimere::quant
