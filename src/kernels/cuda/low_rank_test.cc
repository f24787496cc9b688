// Adapters on a GPU: the bits of the oracle, in captured steps too.
#include "kernels/cuda/low_rank.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device_test_data.h"
#include "kernels/low_rank_test_data.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Batch;
using test::OnDevice;
using test_data::LowRankMemory;
using test_data::LowRankTarget;
using test_data::Random;
using test_data::RandomUses;

constexpr int kRows = 5;
constexpr int64_t kIn = 96;
constexpr int64_t kOut = 300;
constexpr int64_t kPart = 20;  // rows of the second target, from row 11 on

/// Decode rows of one sequence that store nothing.
Batch rows_of_one_sequence() {
  return Batch({{.slices = {{RowClass::kDecode, kRows}},
                 .write_slots = std::vector<int32_t>(kRows, -1),
                 .pages = {0}}});
}

struct Step {
  std::vector<float> x;
  std::vector<float> stream;  ///< y of the first job before
  std::vector<int32_t> wanted;
};

/// Computes a step: x has the wanted rows; `first` and `second` are the jobs' outputs.
void compute(Ops& ops, const Batch& batch, const Step& step, const RowAdapters& adapters,
             const std::vector<WeightView>& weights, const float* x, float* first, float* second) {
  const auto n = static_cast<int64_t>(step.wanted.size());
  const LinearJob jobs[] = {{weights[0], {first, n, kOut, kOut}, /*accumulate=*/true, 0.5F},
                            {weights[1].rows_from(11, kPart), {second, n, kPart, kPart}}};
  const std::vector<int32_t> tokens(kRows, 0);
  StepInputs inputs;
  inputs.batch = batch.view();
  inputs.tokens = tokens;
  inputs.wanted_rows = step.wanted;
  inputs.adapters = adapters;
  const Operand operand = {ConstMatrixView(x, n, kIn, kIn), StepRows::kWanted};
  const auto done = ops.run_step(inputs, {}, [&] { ops.linear(operand, jobs); });
  ASSERT_TRUE(done.ok()) << done.error().message;
}

TEST(CudaLowRank, LinearHasTheBitsOfRef) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const std::vector<LowRankTarget> targets = {{kOut, kIn}, {40, kIn}};
  const auto first = random.weights(DType::kQ8_0, kOut, kIn);
  const auto second = random.weights(DType::kF16, 40, kIn);
  const std::vector<WeightView> weights = {{DType::kQ8_0, kOut, kIn, first.data(), 0},
                                           {DType::kF16, 40, kIn, second.data(), 1}};
  LowRankMemory memory;
  std::vector<LowRankAdapter> adapters;
  for (int a = 0; a < 3; ++a) adapters.push_back(random_adapter(random, targets, memory));
  const auto ref = make_ref_ops();
  for (const LowRankAdapter& a : adapters) ASSERT_TRUE(ref->place_adapter(a).ok());
  const Batch batch = rows_of_one_sequence();
  for (const auto& [name, device] : test::devices()) {
    ThreadPool pool(2);
    auto made = make_cuda_ops(*device, pool);
    ASSERT_TRUE(made.ok()) << made.error().message;
    Ops& ops = **made;
    EXPECT_FALSE(ops.adapts_experts());
    std::vector<WeightView> placed;
    for (const WeightView& w : weights) placed.push_back(*ops.place(w));
    EXPECT_EQ(placed[1].target, 1);
    for (size_t a = 0; a < adapters.size(); ++a) {
      EXPECT_EQ(*ops.place_adapter(adapters[a]), static_cast<int32_t>(a));
    }
    const OnDevice<float> x(*device, std::vector<float>(kRows * kIn));
    const OnDevice<float> y(*device, std::vector<float>(kRows * kOut));
    const OnDevice<float> part(*device, std::vector<float>(kRows * kPart));
    // The same key again and again, which is captured and replayed; then other rows.
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE(testing::Message() << name << ", round " << round);
      Step step;
      step.wanted = round < 4 ? std::vector<int32_t>{0, 1, 2, 3, 4} : std::vector<int32_t>{1, 4};
      const auto n = static_cast<int64_t>(step.wanted.size());
      step.x = random.activations(n, kIn);
      step.stream = random.activations(n, kOut);
      const RandomUses uses(random, kRows, 3);
      std::vector<float> want = step.stream;
      std::vector<float> want_part(static_cast<size_t>(n * kPart));
      compute(*ref, batch, step, uses.view(), weights, step.x.data(), want.data(),
              want_part.data());
      test::ok_or_end(device->write(x.data(), step.x.data(), step.x.size() * sizeof(float)));
      test::ok_or_end(
          device->write(y.data(), step.stream.data(), step.stream.size() * sizeof(float)));
      compute(ops, batch, step, uses.view(), placed, x.data(), y.data(), part.data());
      std::vector<float> got = y.read();
      std::vector<float> got_part = part.read();
      got.resize(want.size());
      got_part.resize(want_part.size());
      EXPECT_TRUE(kernels::test::same_bits(got, want));
      EXPECT_TRUE(kernels::test::same_bits(got_part, want_part));
      if (round != 2) continue;
      // Another adapter under the same number: captured steps must not use the old one.
      ops.drop_adapter(1);
      ref->drop_adapter(1);
      const LowRankAdapter other = random_adapter(random, targets, memory);
      EXPECT_EQ(*ops.place_adapter(other), 1);
      ASSERT_EQ(*ref->place_adapter(other), 1);
    }
    ref->drop_adapter(1);
    ASSERT_EQ(*ref->place_adapter(adapters[1]), 1);
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
