#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/fresh_seed.h"
#include "quant/quant.h"

namespace chimere::quant {
namespace {

constexpr int64_t kElements = 32768;

struct Format {
  DType type;
  double relative_error;   ///< bound on rms error / rms for normally distributed weights
  double weighted = 0.98;  ///< bound on the weighted error with importance / without
};

// Each bound is about 3 % above what the search reaches, several times the sampling noise, so it
// detects a search that stops working. MXFP4 can choose only among powers of two, so importance
// changes little.
constexpr Format kFormats[] = {
    {DType::kQ8_0, 0.00512},     {DType::kQ4_0, 0.0845},   {DType::kQ4_1, 0.0735},
    {DType::kQ5_0, 0.0418},      {DType::kQ5_1, 0.0355},   {DType::kQ4_K, 0.0725},
    {DType::kQ5_K, 0.0358},      {DType::kQ6_K, 0.0172},   {DType::kIQ4_NL, 0.0758},
    {DType::kIQ3_S, 0.1335},     {DType::kQ2_K, 0.269},    {DType::kQ3_K, 0.148},
    {DType::kIQ3_XXS, 0.181},    {DType::kIQ4_XS, 0.0765}, {DType::kMXFP4, 0.1155, 1.0},
    {DType::kIQ2_XXS, 0.34},     {DType::kIQ2_XS, 0.30},   {DType::kIQ2_S, 0.28},
    {DType::kIQ1_S, 0.55},       {DType::kIQ1_M, 0.50},    {DType::kTQ1_0, 0.46, 0.99},
    {DType::kTQ2_0, 0.46, 0.99}, {DType::kIQ2_K, 0.30},    {DType::kIQ3_K, 0.16},
    {DType::kIQ4_K, 0.08},       {DType::kIQ5_K, 0.04},
};

class Encode : public ::testing::Test {
 protected:
  Encode() : random_(seed_), trace_(__FILE__, __LINE__, seed_) {}

  std::vector<float> normal(float scale) {
    std::normal_distribution<float> distribution(0, scale);
    std::vector<float> x(kElements);
    for (float& v : x) v = distribution(random_);
    return x;
  }

  static std::vector<float> round_trip(DType type, const std::vector<float>& x,
                                       const float* importance = nullptr) {
    const auto n = static_cast<int64_t>(x.size());
    std::vector<uint16_t> blocks(static_cast<size_t>(row_bytes(type, n)) / 2 + 1);
    const Status s = encode(type, x.data(), blocks.data(), n, importance);
    EXPECT_TRUE(s.ok());
    std::vector<float> y(x.size());
    decode(type, blocks.data(), y.data(), n);
    return y;
  }

  static double relative_error(const std::vector<float>& x, const std::vector<float>& y,
                               const std::vector<float>& w) {
    double e = 0;
    double s = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double d = double{x[i]} - double{y[i]};
      e += double{w[i]} * d * d;
      s += double{w[i]} * double{x[i]} * double{x[i]};
    }
    return std::sqrt(e / s);
  }

  const unsigned seed_ = fresh_seed();
  std::mt19937 random_;
  ::testing::ScopedTrace trace_;
};

TEST_F(Encode, KeepsTheErrorOfNormalWeightsSmall) {
  const std::vector<float> x = normal(0.02F);
  const std::vector<float> one(x.size(), 1.0F);
  for (const Format& f : kFormats) {
    EXPECT_LT(relative_error(x, round_trip(f.type, x), one), f.relative_error)
        << dtype_name(f.type);
  }
}

TEST_F(Encode, ImportanceLowersTheWeightedError) {
  const std::vector<float> x = normal(1.0F);
  std::lognormal_distribution<float> distribution(0, 1.5F);
  std::vector<float> w(x.size());
  for (float& v : w) v = distribution(random_);
  for (const Format& f : kFormats) {
    const double with = relative_error(x, round_trip(f.type, x, w.data()), w);
    const double without = relative_error(x, round_trip(f.type, x), w);
    EXPECT_LT(with, f.weighted * without) << dtype_name(f.type);
  }
}

TEST_F(Encode, RepresentableValuesAreRestoredAlmostExactly) {
  for (const Format& f : kFormats) {
    const std::vector<float> x = round_trip(f.type, normal(0.5F));
    const std::vector<float> one(x.size(), 1.0F);
    // The search need not find the best scales exactly, but any wrong bit costs far more than this.
    EXPECT_LT(relative_error(x, round_trip(f.type, x), one), 0.35 * f.relative_error)
        << dtype_name(f.type);
  }
}

TEST_F(Encode, EncodesExtremeInputs) {
  std::vector<std::vector<float>> inputs;
  for (const float v : {0.0F, 1.0F, -3.0F, 1e-42F, 1e-9F, 3e38F, -3e38F}) {
    inputs.emplace_back(512, v);
  }
  std::vector<float> mixed(512, 0.0F);
  mixed[7] = 3e38F;
  mixed[300] = -3e38F;
  mixed[301] = 1e-45F;
  inputs.push_back(mixed);
  std::vector<float> tiny(512, 0.0F);  // the inverse of 1e-38 is finite, a multiple of it is not
  tiny[7] = 1e-38F;
  tiny[300] = -1e-37F;
  inputs.push_back(tiny);
  for (const Format& f : kFormats) {
    for (const std::vector<float>& x : inputs) {
      for (const float y : round_trip(f.type, x)) {
        ASSERT_TRUE(std::isfinite(y)) << dtype_name(f.type) << " of " << x[0];
        if (x[0] == -3.0F || x[0] == 1.0F) {
          ASSERT_NEAR(y, x[0], 0.07F * std::fabs(x[0])) << dtype_name(f.type);
        }
      }
    }
  }
}

TEST_F(Encode, ZerosStayZeros) {
  const std::vector<float> zeros(512, 0.0F);
  for (const Format& f : kFormats)
    EXPECT_EQ(round_trip(f.type, zeros), zeros) << dtype_name(f.type);
}

TEST_F(Encode, AnElementOfWeightZeroIsIgnored) {
  // One outlier dominates a block's scale unless its weight is zero.
  std::vector<float> x = normal(1.0F);
  x.resize(256);
  std::vector<float> w(x.size(), 1.0F);
  x[5] = 500;
  w[5] = 0;
  for (const Format& f : kFormats) {
    EXPECT_LT(relative_error(x, round_trip(f.type, x, w.data()), w),
              0.5 * relative_error(x, round_trip(f.type, x), w))
        << dtype_name(f.type);
  }
}

TEST_F(Encode, TernaryWeightsAreKeptExactly) {
  std::uniform_int_distribution<int> digit(-1, 1);
  std::uniform_int_distribution<uint16_t> scale(0x0400, 0x7000);  // normal f16 numbers
  std::lognormal_distribution<float> importance(0, 1.5F);
  std::vector<float> x(kElements);
  std::vector<float> w(x.size());
  float d = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 256 == 0) d = f16_to_f32(scale(random_));
    x[i] = d * static_cast<float>(digit(random_));
    w[i] = importance(random_);
  }
  for (const DType type : {DType::kTQ1_0, DType::kTQ2_0}) {
    EXPECT_EQ(round_trip(type, x), x) << dtype_name(type);
    EXPECT_EQ(round_trip(type, x, w.data()), x) << dtype_name(type);
  }
}

TEST_F(Encode, NoTernaryScaleHasASmallerError) {
  constexpr int kScales = 500;  // the last one is the largest magnitude, which llama.cpp takes
  std::lognormal_distribution<float> importance(0, 1.5F);
  for (int block = 0; block < 20; ++block) {
    std::vector<float> x = normal(0.02F);
    x.resize(256);
    std::vector<float> w(x.size());
    for (float& v : w) v = block % 2 == 0 ? 1.0F : importance(random_);
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::fabs(v));
    double least = 1;
    for (int s = 1; s <= kScales; ++s) {
      const float d = largest * static_cast<float>(s) / kScales;
      std::vector<float> y(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        y[i] = d * std::clamp(std::nearbyint(x[i] / d), -1.0F, 1.0F);
      }
      least = std::min(least, relative_error(x, y, w));
    }
    for (const DType type : {DType::kTQ1_0, DType::kTQ2_0}) {
      const double error = relative_error(x, round_trip(type, x, w.data()), w);
      EXPECT_LE(error, 1.00001 * least) << dtype_name(type);  // the stored scale is rounded to f16
      EXPECT_GT(error, 0.99 * least) << dtype_name(type);
    }
  }
}

TEST_F(Encode, TernaryBytesAreThoseOfTheFormatsPage) {
  std::vector<float> x(256, 0.0F);
  x[0] = 1;
  x[64] = -1;
  x[96] = -1;
  uint8_t tq1[54];
  ASSERT_TRUE(encode(DType::kTQ1_0, x.data(), tq1, 256).ok());
  EXPECT_EQ(tq1[0], 0xC9);  // digits 2, 1, 0, 0, 1 of elements 0, 32, .. 128
  EXPECT_EQ(tq1[1], 0x80);  // five digits of 1
  EXPECT_EQ(tq1[52] | tq1[53] << 8, 0x3C00);
  uint8_t tq2[66];
  ASSERT_TRUE(encode(DType::kTQ2_0, x.data(), tq2, 256).ok());
  EXPECT_EQ(tq2[0], 0x06);
  EXPECT_EQ(tq2[1], 0x55);
  EXPECT_EQ(tq2[64] | tq2[65] << 8, 0x3C00);
}

TEST_F(Encode, PlainTypesRoundEachElement) {
  const std::vector<float> x = normal(2.0F);
  EXPECT_EQ(round_trip(DType::kF32, x), x);
  const std::vector<float> half = round_trip(DType::kF16, x);
  const std::vector<float> brain = round_trip(DType::kBF16, x);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(half[i], f16_to_f32(f32_to_f16(x[i])));
    ASSERT_EQ(brain[i], bf16_to_f32(f32_to_bf16(x[i])));
  }
}

TEST_F(Encode, RefusesInvalidInputs) {
  std::vector<float> x(256, 1.0F);
  std::vector<uint16_t> out(1024);
  EXPECT_EQ(encode(DType::kI32, x.data(), out.data(), 256).error().code, Error::Code::kUnsupported);
  EXPECT_EQ(encode(DType::kQ8_0, x.data(), out.data(), 33).error().code,
            Error::Code::kInvalidArgument);
  x[3] = NAN;
  EXPECT_FALSE(encode(DType::kQ4_K, x.data(), out.data(), 256).ok());
  x[3] = INFINITY;
  EXPECT_FALSE(encode(DType::kQ4_K, x.data(), out.data(), 256).ok());
  x[3] = 1;
  std::vector<float> w(256, 1.0F);
  w[200] = -1;
  EXPECT_FALSE(encode(DType::kQ4_K, x.data(), out.data(), 256, w.data()).ok());
}

}  // namespace
}  // namespace chimere::quant
