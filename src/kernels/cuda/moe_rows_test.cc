#include "kernels/cuda/moe_rows.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/fresh_seed.h"
#include "kernels/cuda/moe_rows_args.h"
#include "kernels/cuda/moe_test_data.h"

namespace chimere::kernels::cuda {
namespace {

using test::ExpertTypes;
using test::MoeProblem;
using test::OnDevice;
using test_data::Random;

/// Runs `p` with `multiprocessors`, which decides how the work is shared among blocks. Empty: a
/// block's rows do not fit in shared memory.
std::vector<float> rows_on(Device& device, const MoeProblem& p, int multiprocessors,
                           const std::vector<int32_t>& ids = {}) {
  const OnDevice<int32_t> row_ids(device, ids);
  bool fits = true;
  std::vector<float> got =
      p.on(device, [&](const ExpertTable& table, ConstMatrixView /*x*/, const RoundedRows& rounded,
                       const Routing& routing, const float* shared_gate, const uint32_t* codebook,
                       MatrixView y) {
        const RowSet rows = ids.empty() ? RowSet{nullptr, static_cast<int32_t>(p.rows)}
                                        : RowSet{row_ids.data(), static_cast<int32_t>(ids.size())};
        const auto plan = plan_moe_rows(table, rows.count, p.n_used, p.n_embd, multiprocessors,
                                        device.facts().shared_bytes);
        fits = plan.has_value();
        if (!fits) return;
        const OnDevice<uint8_t> scratch(
            device,
            std::vector<uint8_t>(
                static_cast<size_t>(moe_decode_scratch_bytes(table, rows.count, p.n_used)), 0xFF));
        moe_rows(device.stream(), *plan, table, rounded, rows, routing, shared_gate, p.options,
                 codebook, scratch.data(), y);
      });
  if (!fits) got.clear();
  return got;
}

/// With few multiprocessors a block has items of several rows, with many at most one item.
void expect_bits_of_ref(const MoeProblem& p) {
  const std::vector<float> want = p.by_ref();
  for (const auto& [name, device] : test::devices()) {
    for (const int multiprocessors : {1, 3, 1000}) {
      const std::vector<float> got = rows_on(*device, p, multiprocessors);
      if (got.empty() && multiprocessors == 1) continue;
      ASSERT_EQ(got.size(), want.size()) << name << ", multiprocessors " << multiprocessors;
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(std::memcmp(&want[i], &got[i], 4), 0)
            << name << ", rows " << p.rows << ", used " << p.n_used << ", multiprocessors "
            << multiprocessors << " at " << i << ": want " << want[i] << " got " << got[i];
      }
    }
  }
}

ExpertTypes all_of(DType t) { return {t, t, t}; }

TEST(CudaMoeRows, HasTheBitsOfRefForEveryMixOfTypes) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const std::pair<ExpertTypes, ExpertTypes> mixes[] = {
      {all_of(DType::kIQ3_S), all_of(DType::kQ5_K)},
      {{DType::kQ4_K, DType::kQ4_K, DType::kQ6_K}, all_of(DType::kMXFP4)},
      {{DType::kIQ2_XXS, DType::kIQ2_XXS, DType::kIQ3_XXS},
       {DType::kIQ2_S, DType::kIQ2_S, DType::kIQ1_M}},
      {{DType::kQ2_K, DType::kQ2_K, DType::kIQ4_NL}, all_of(DType::kQ8_0)}};
  for (const auto& [routed, shared] : mixes) {
    for (const int64_t rows : {3, 5}) {
      // Rings of two stages fit beside all codebooks.
      const int64_t n_ff = routed.down == DType::kIQ4_NL ? 0 : 256 * random.between(1, 2);
      MoeProblem p(random, rows, 6, static_cast<int>(random.between(1, 6)), routed, shared, 0,
                   n_ff);
      if (random.between(0, 1) == 0) p.leave_out(random);
      expect_bits_of_ref(p);
      p.unpacked = true;
      if (routed.gate == DType::kIQ3_S) expect_bits_of_ref(p);
    }
  }
}

/// The shapes of a released model, with fewer experts.
TEST(CudaMoeRows, LongRowsHaveTheBitsOfRef) {
  Random random(fresh_seed());
  MoeProblem p(random, 3, 4, 2, all_of(DType::kIQ3_S), all_of(DType::kQ5_K), 2048, 512);
  p.unpacked = true;
  expect_bits_of_ref(p);
}

/// More units of an item than stages.
TEST(CudaMoeRows, SupportsTheLargestNumberOfRanks) {
  Random random(fresh_seed());
  MoeProblem p(random, 3, 40, kMoeMostUsed, all_of(DType::kQ4_0), all_of(DType::kQ8_0), 256, 64);
  expect_bits_of_ref(p);
  p.leave_out(random);
  expect_bits_of_ref(p);
}

TEST(CudaMoeRows, ComputesOnlyTheRequestedRows) {
  Random random(fresh_seed());
  const MoeProblem p(random, 5, 8, 3, all_of(DType::kIQ4_XS), all_of(DType::kQ8_0));
  const std::vector<float> all = p.by_ref();
  const std::vector<int32_t> ids = {3, 0, 4};
  const auto n = static_cast<size_t>(p.n_embd);
  for (const auto& [name, device] : test::devices()) {
    const std::vector<float> got = rows_on(*device, p, 2, ids);
    for (int32_t r = 0; r < 5; ++r) {
      const bool asked = std::find(ids.begin(), ids.end(), r) != ids.end();
      const auto begin = static_cast<size_t>(r) * n;
      EXPECT_EQ(std::memcmp(got.data() + begin, (asked ? all : p.y).data() + begin, 4 * n), 0)
          << name << ", row " << r;
    }
  }
}

TEST(CudaMoeRows, IsTwoLaunches) {
  Random random(fresh_seed());
  const MoeProblem p(random, 4, 8, 3, all_of(DType::kQ8_0), all_of(DType::kQ8_0));
  for (const auto& [name, device] : test::devices()) {
    const int64_t before = device->stream().counts().launches;
    rows_on(*device, p, 1000);
    EXPECT_EQ(device->stream().counts().launches - before, 3) << "including the rounding of x";
  }
}

/// For two rows, float types, different types of gate and up, and rows of which two stages do not
/// fit.
TEST(CudaMoeRows, LeavesTheRestToMoeDecode) {
  const auto plans = [](Device& device, const ExpertTypes& types, int64_t rows, int64_t n_embd) {
    const ExpertWeights expert = {
        {types.gate, 64, n_embd}, {types.up, 64, n_embd}, {types.down, n_embd, 64}};
    auto table = ExpertTable::create(device, std::vector<ExpertWeights>(4, expert), nullptr);
    EXPECT_TRUE(table.ok());
    return plan_moe_rows(*table, rows, 2, n_embd, 100, 100 << 10).has_value();
  };
  for (const auto& [name, device] : test::devices()) {
    const ExpertTypes same = all_of(DType::kQ8_0);
    EXPECT_TRUE(plans(*device, same, 3, 256)) << name;
    EXPECT_FALSE(plans(*device, same, 2, 256)) << name;
    EXPECT_FALSE(plans(*device, same, 3, 4096)) << name;
    EXPECT_FALSE(plans(*device, {DType::kQ8_0, DType::kQ4_0, DType::kQ8_0}, 3, 256)) << name;
    EXPECT_FALSE(plans(*device, {DType::kQ8_0, DType::kQ8_0, DType::kF32}, 3, 256)) << name;
  }
}

/// 35B-A3B on a GPU of 132 multiprocessors: two blocks of each launch on each.
TEST(CudaMoeRows, ReleasedShapesTakeTwoStagesAndMore) {
  for (const auto& [name, device] : test::devices()) {
    const auto expert = [](DType t) {
      return ExpertWeights{{t, 512, 2048}, {t, 512, 2048}, {t, 2048, 512}};
    };
    const ExpertWeights shared = expert(DType::kQ5_K);
    const auto table = ExpertTable::create(
        *device, std::vector<ExpertWeights>(256, expert(DType::kIQ3_S_UNPACKED)), &shared);
    ASSERT_TRUE(table.ok());
    for (const int64_t rows : {3, 4, 8, 32}) {
      const auto plan = plan_moe_rows(*table, rows, 8, 2048, 132, 227 << 10);
      ASSERT_TRUE(plan.has_value()) << name << ", rows " << rows;
      EXPECT_EQ(plan->gate_up.routed.stages, 2);
      EXPECT_EQ(plan->gate_up.blocks, kMoeRowsGateUpBlocks * 132);
      EXPECT_EQ(plan->down.routed.stages, 2) << "rows " << rows;
      EXPECT_EQ(plan->down.routed.outputs, kMoeRowsDownOutputs);
      EXPECT_EQ(plan->down.blocks, rows * std::min(64, kMoeRowsDownBlocks * 132 / int(rows)));
      EXPECT_EQ(plan->gate_up.routed.items, rows * 8 * 512 / kMoeHiddenTile);
      EXPECT_EQ(plan->gate_up.shared.items, rows * 512 / kMoeHiddenTile);
      EXPECT_LE(plan->down.shared_bytes, (227 << 10) / kMoeRowsDownBlocks);
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
