#include "kernels/cuda/moe_decode.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/fresh_seed.h"
#include "kernels/cuda/moe_test_data.h"

namespace chimere::kernels::cuda {
namespace {

using test::ExpertTypes;
using test::MoeProblem;
using test::OnDevice;
using test_data::Random;

/// Launches for a GPU with `multiprocessors`: with many, blocks warm the instruction cache.
std::vector<float> decode_on(Device& device, const MoeProblem& p,
                             const std::vector<int32_t>& ids = {}, int multiprocessors = 1000) {
  const OnDevice<int32_t> row_ids(device, ids);
  return p.on(device, [&](const ExpertTable& table, ConstMatrixView x, const RoundedRows& rounded,
                          const Routing& routing, const float* shared_gate,
                          const uint32_t* codebook, MatrixView y) {
    const RowSet rows = ids.empty() ? RowSet{nullptr, static_cast<int32_t>(p.rows)}
                                    : RowSet{row_ids.data(), static_cast<int32_t>(ids.size())};
    const OnDevice<uint8_t> scratch(
        device,
        std::vector<uint8_t>(
            static_cast<size_t>(moe_decode_scratch_bytes(table, rows.count, p.n_used)), 0xFF));
    moe_decode(device.stream(), multiprocessors, table, x, rounded, rows, routing, shared_gate,
               p.options, codebook, scratch.data(), y);
  });
}

void expect_bits_of_ref(const MoeProblem& p) {
  const std::vector<float> want = p.by_ref();
  for (const auto& [name, device] : test::devices()) {
    for (const int multiprocessors : {1, 1000}) {
      const std::vector<float> got = decode_on(*device, p, {}, multiprocessors);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(std::memcmp(&want[i], &got[i], 4), 0)
            << name << ", rows " << p.rows << ", used " << p.n_used << ", multiprocessors "
            << multiprocessors << " at " << i << ": want " << want[i] << " got " << got[i];
      }
    }
  }
}

ExpertTypes all_of(DType t) { return {t, t, t}; }

TEST(CudaMoeDecode, HasTheBitsOfRefForEveryMixOfTypes) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const std::pair<ExpertTypes, ExpertTypes> mixes[] = {
      {all_of(DType::kIQ3_S), all_of(DType::kQ5_K)},
      {all_of(DType::kF32), all_of(DType::kBF16)},
      {{DType::kF16, DType::kF16, DType::kQ8_0}, {DType::kQ8_0, DType::kQ8_0, DType::kF32}},
      {{DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}, {DType::kIQ2_S, DType::kIQ1_M, DType::kIQ2_XS}},
      {{DType::kIQ2_XXS, DType::kIQ2_XXS, DType::kIQ3_XXS},
       {DType::kQ8_0, DType::kF32, DType::kQ3_K}},
      {{DType::kQ2_K, DType::kQ2_K, DType::kIQ4_NL}, all_of(DType::kMXFP4)}};
  for (const auto& [routed, shared] : mixes) {
    for (const int64_t rows : {1, 3}) {
      MoeProblem p(random, rows, 6, static_cast<int>(random.between(1, 6)), routed, shared);
      if (rows > 1) p.leave_out(random);
      expect_bits_of_ref(p);
      p.unpacked = true;
      if (routed.gate == DType::kIQ3_S) expect_bits_of_ref(p);
    }
  }
}

TEST(CudaMoeDecode, SupportsTheLargestNumberOfRanks) {
  Random random(fresh_seed());
  expect_bits_of_ref(
      MoeProblem(random, 1, 40, kMoeMostUsed, all_of(DType::kQ4_0), all_of(DType::kQ8_0)));
}

/// A warp stages its rows in several steps, or reads them from device memory.
TEST(CudaMoeDecode, RowsBeyondSharedMemoryHaveTheBitsOfRef) {
  Random random(fresh_seed());
  const std::pair<int64_t, int64_t> shapes[] = {{2048, 64},  {4096, 32},  {16384, 32},
                                                {256, 2048}, {256, 4096}, {256, 32768}};
  for (const auto& [n_embd, n_ff] : shapes) {
    SCOPED_TRACE(testing::Message() << "n_embd " << n_embd << ", n_ff " << n_ff);
    expect_bits_of_ref(
        MoeProblem(random, 2, 3, 2, all_of(DType::kQ8_0), all_of(DType::kQ4_0), n_embd, n_ff));
  }
  expect_bits_of_ref(
      MoeProblem(random, 1, 2, 2, all_of(DType::kIQ3_S), all_of(DType::kQ8_0), 4096, 512));
}

TEST(CudaMoeDecode, ComputesOnlyTheRequestedRows) {
  Random random(fresh_seed());
  const MoeProblem p(random, 5, 8, 3, all_of(DType::kIQ4_XS), all_of(DType::kQ8_0));
  const std::vector<float> all = p.by_ref();
  const std::vector<int32_t> ids = {3, 0, 4};
  const auto n = static_cast<size_t>(p.n_embd);
  for (const auto& [name, device] : test::devices()) {
    const std::vector<float> got = decode_on(*device, p, ids);
    for (int32_t r = 0; r < 5; ++r) {
      const bool asked = std::find(ids.begin(), ids.end(), r) != ids.end();
      const auto begin = static_cast<size_t>(r) * n;
      EXPECT_EQ(std::memcmp(got.data() + begin, (asked ? all : p.y).data() + begin, 4 * n), 0)
          << name << ", row " << r;
    }
  }
}

TEST(CudaMoeDecode, IsTwoLaunchesForAnyNumberOfRows) {
  Random random(fresh_seed());
  for (const int64_t rows : {1, 4}) {
    const MoeProblem p(random, rows, 8, 3, all_of(DType::kQ8_0), all_of(DType::kQ8_0));
    for (const auto& [name, device] : test::devices()) {
      const int64_t before = device->stream().counts().launches;
      decode_on(*device, p);
      EXPECT_EQ(device->stream().counts().launches - before, 3) << "including the rounding of x";
    }
  }
}

TEST(CudaMoeDecode, ExpertsThatDifferAreAnError) {
  const auto expert = [](DType type, int64_t n_ff) {
    return ExpertWeights{{type, n_ff, 256}, {type, n_ff, 256}, {type, 256, n_ff}};
  };
  for (const auto& [name, device] : test::devices()) {
    for (const ExpertWeights& other : {expert(DType::kQ4_0, 64), expert(DType::kQ8_0, 32)}) {
      const ExpertWeights both[] = {expert(DType::kQ8_0, 64), other};
      const auto table = ExpertTable::create(*device, both, nullptr);
      ASSERT_FALSE(table.ok());
      EXPECT_EQ(table.error().code, Error::Code::kUnsupported);
    }
    const std::vector<ExpertWeights> many(kMoeMostExperts + 1, expert(DType::kQ8_0, 32));
    EXPECT_FALSE(ExpertTable::create(*device, many, nullptr).ok());
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
