#include "kernels/cuda/moe_tile.h"

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

/// Runs `p` with `multiprocessors`, which decides how the work is shared among blocks, and blocks
/// of at most `shared_bytes`.
std::vector<float> tiles_on(Device& device, const MoeProblem& p, int multiprocessors,
                            int64_t shared_bytes, const std::vector<int32_t>& ids = {}) {
  const OnDevice<int32_t> row_ids(device, ids);
  return p.on(device, [&](const ExpertTable& table, ConstMatrixView /*x*/,
                          const RoundedRows& rounded, const Routing& routing,
                          const float* shared_gate, const uint32_t* /*codebook*/, MatrixView y) {
    const RowSet rows = ids.empty() ? RowSet{nullptr, static_cast<int32_t>(p.rows)}
                                    : RowSet{row_ids.data(), static_cast<int32_t>(ids.size())};
    const auto plan = plan_moe_tiles(table, p.n_embd, shared_bytes);
    ASSERT_TRUE(plan.has_value());
    const OnDevice<uint8_t> scratch(
        device, std::vector<uint8_t>(static_cast<size_t>(moe_tile_scratch_bytes(
                                         table, rows.count, p.n_used, p.n_embd)),
                                     0xFF));
    moe_tile(device.stream(), multiprocessors, *plan, table, rounded, rows, routing, shared_gate,
             p.options, scratch.data(), y);
  });
}

void expect_bits_of_ref(const MoeProblem& p) {
  const std::vector<float> want = p.by_ref();
  for (const auto& [name, device] : test::devices()) {
    for (const int multiprocessors : {1, 5}) {
      const std::vector<float> got =
          tiles_on(*device, p, multiprocessors, device->facts().shared_bytes);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(std::memcmp(&want[i], &got[i], 4), 0)
            << name << ", rows " << p.rows << ", used " << p.n_used << ", multiprocessors "
            << multiprocessors << " at " << i << ": want " << want[i] << " got " << got[i];
      }
    }
  }
}

ExpertTypes all_of(DType t) { return {t, t, t}; }

TEST(CudaMoeTile, HasTheBitsOfRefForEveryMixOfTypes) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const std::pair<ExpertTypes, ExpertTypes> mixes[] = {
      {all_of(DType::kQ4_0), all_of(DType::kQ4_0)},
      {{DType::kQ4_1, DType::kQ5_0, DType::kQ5_1}, all_of(DType::kQ8_0)},
      {{DType::kQ8_0, DType::kQ4_0, DType::kQ4_0}, {DType::kQ5_0, DType::kQ4_1, DType::kQ6_K}},
      {{DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}, all_of(DType::kMXFP4)}};
  for (const auto& [routed, shared] : mixes) {
    for (const int64_t rows : {1, 3, 21}) {
      MoeProblem p(random, rows, 5, static_cast<int>(random.between(1, 4)), routed, shared);
      if (random.between(0, 1) == 0) p.leave_out(random);
      expect_bits_of_ref(p);
    }
  }
}

TEST(CudaMoeTile, UnpackedWeightsHaveTheBitsOfRef) {
  Random random(fresh_seed());
  MoeProblem p(random, 2, 3, 2, all_of(DType::kIQ3_S), all_of(DType::kQ5_K));
  p.unpacked = true;
  expect_bits_of_ref(p);
}

/// The shapes of a released model, with fewer experts.
TEST(CudaMoeTile, LongRowsHaveTheBitsOfRef) {
  Random random(fresh_seed());
  for (const int64_t rows : {1, 2}) {
    expect_bits_of_ref(
        MoeProblem(random, rows, 2, 2, all_of(DType::kQ4_0), all_of(DType::kQ4_0), 2688, 1856));
  }
}

TEST(CudaMoeTile, ComputesOnlyTheRequestedRows) {
  Random random(fresh_seed());
  const MoeProblem p(random, 5, 8, 3, all_of(DType::kQ4_0), all_of(DType::kQ8_0));
  const std::vector<float> all = p.by_ref();
  const auto n = static_cast<size_t>(p.n_embd);
  for (const std::vector<int32_t>& ids : {std::vector<int32_t>{3, 0, 4}, {2}}) {
    for (const auto& [name, device] : test::devices()) {
      const std::vector<float> got = tiles_on(*device, p, 2, device->facts().shared_bytes, ids);
      for (int32_t r = 0; r < 5; ++r) {
        const bool asked = std::find(ids.begin(), ids.end(), r) != ids.end();
        const auto begin = static_cast<size_t>(r) * n;
        EXPECT_EQ(std::memcmp(got.data() + begin, (asked ? all : p.y).data() + begin, 4 * n), 0)
            << name << ", row " << r;
      }
    }
  }
}

TEST(CudaMoeTile, TakesOneStageWhereTwoDoNotFit) {
  Random random(fresh_seed());
  const MoeProblem p(random, 1, 2, 1, all_of(DType::kQ4_0), all_of(DType::kQ4_0), 1024, 1024);
  const std::vector<float> want = p.by_ref();
  for (const auto& [name, device] : test::devices()) {
    std::vector<int32_t> stages;
    for (const int64_t bytes : {40 << 10, 30 << 10, 8 << 10}) {
      p.on(*device, [&](const ExpertTable& table, ConstMatrixView, const RoundedRows&,
                        const Routing&, const float*, const uint32_t*, MatrixView) {
        const auto plan = plan_moe_tiles(table, p.n_embd, bytes);
        stages.push_back(plan ? plan->stages : 0);
      });
    }
    EXPECT_EQ(stages, (std::vector<int32_t>{2, 1, 0})) << name;
    const std::vector<float> got = tiles_on(*device, p, 2, 30 << 10);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), 4 * want.size()), 0) << name;
  }
}

TEST(CudaMoeTile, ExpertsWithoutGateOrSharedByRowsPreferTiles) {
  const auto table_of = [](Device& device, bool gated, size_t n) {
    const WeightView none;
    const WeightView matrix = {DType::kQ4_0, 64, 64};
    const std::vector<ExpertWeights> experts(n,
                                             ExpertWeights{gated ? matrix : none, matrix, matrix});
    auto table = ExpertTable::create(device, experts, nullptr);
    EXPECT_TRUE(table.ok());
    return *std::move(table);
  };
  for (const auto& [name, device] : test::devices()) {
    const ExpertTable gated = table_of(*device, true, 8);
    EXPECT_FALSE(prefers_moe_tiles(gated, 7, 2));
    EXPECT_TRUE(prefers_moe_tiles(gated, 8, 2));
    EXPECT_TRUE(prefers_moe_tiles(table_of(*device, false, 8), 1, 2));
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
