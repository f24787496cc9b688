// The CUDA op set as a whole: what its steps stage on the host, with captured steps.
#include "kernels/cuda/cuda_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "kernels/cuda/device_test_data.h"
#include "quant/quant.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Batch;
using kernels::test::Matrix;
using kernels::test::uniform_int;
using test::DeviceMatrix;
using test::OnDevice;

/// Decode rows of one sequence that store nothing.
Batch decode_rows(int rows) {
  return Batch({{.slices = {{RowClass::kDecode, rows}},
                 .write_slots = std::vector<int32_t>(static_cast<size_t>(rows), -1),
                 .pages = {0}}});
}

/// Steps of the same key are captured and replayed; each has its own tokens and vectors.
TEST(CudaOps, EmbedsTokensAndVectorsInEveryStep) {
  kernels::test::Rng rng(fresh_seed());
  constexpr int kCols = 96;
  constexpr int kVocabulary = 10;
  constexpr int kRows = 5;
  const std::vector<float> values = kernels::test::normal_floats(rng, kVocabulary * kCols);
  const Batch batch = decode_rows(kRows);
  for (const auto& [name, device] : test::devices()) {
    ThreadPool pool(2);
    auto made = make_cuda_ops(*device, pool);
    ASSERT_TRUE(made.ok()) << made.error().message;
    Ops& ops = **made;
    std::vector<float> in_file = values;
    const auto table = ops.place_table({DType::kF32, kVocabulary, kCols, in_file.data()});
    ASSERT_TRUE(table.ok());
    EXPECT_TRUE(ops.supports_overlap());
    ASSERT_FALSE(ops.reads_host_weights());
    std::ranges::fill(in_file, 7.0F);  // not read any more
    const OnDevice<float> y(*device, std::vector<float>(kRows * kCols));
    const MatrixView out = {y.data(), kRows, kCols, kCols};
    for (int step = 0; step < 4; ++step) {
      std::vector<int32_t> tokens;
      for (int r = 0; r < kRows; ++r) tokens.push_back(uniform_int(rng, -1, kVocabulary / 3));
      const Matrix vectors(rng, std::ranges::count(tokens, -1), kCols);
      StepInputs inputs;
      inputs.batch = batch.view();
      inputs.tokens = tokens;
      inputs.vectors = vectors.view();
      StepOutputs outputs;
      outputs.logits = out;
      const auto result = ops.run_step(inputs, outputs, [&] {
        ops.embed(**table, tokens, vectors.view(), out);
        ops.scale(out, 0.5F);
      });
      ASSERT_TRUE(result.ok()) << result.error().message;
      int64_t next = 0;
      for (int r = 0; r < kRows; ++r) {
        const float* want =
            tokens[r] < 0 ? vectors.row(next++) : values.data() + int64_t{tokens[r]} * kCols;
        for (int i = 0; i < kCols; ++i) {
          ASSERT_EQ(result->logits.row(r)[i], want[i] * 0.5F) << name << ", step " << step;
        }
      }
    }
  }
}

/// Quantised weights in the memory of ops.
struct Weights {
  Weights(kernels::test::Rng& rng, Ops& ops, int64_t n_out, int64_t n_in) {
    const std::vector<float> values = kernels::test::normal_floats(rng, n_out * n_in);
    on_host = {DType::kQ8_0, n_out, n_in, nullptr};
    bytes.resize(static_cast<size_t>(on_host.bytes()));
    for (int64_t o = 0; o < n_out; ++o) {
      EXPECT_TRUE(quant::encode(on_host.type, values.data() + o * n_in,
                                bytes.data() + o * row_bytes(on_host.type, n_in), n_in)
                      .ok());
    }
    on_host.data = bytes.data();
    placed = std::move(ops.place(on_host)).value();
  }

  std::vector<uint8_t> bytes;
  WeightView on_host;
  WeightView placed;
};

/// Experts with and without gates, activations and a scale, on the device and on the host; the
/// shared expert with and without a gate of its own.
TEST(CudaOps, MoeOptionsHaveTheBitsOfRefWhereverExpertsAre) {
  kernels::test::Rng rng(fresh_seed());
  constexpr int kEmbd = 64;
  constexpr int kFf = 32;
  constexpr int kRows = 3;
  const Matrix x(rng, kRows, kEmbd);
  const Matrix y(rng, kRows, kEmbd);
  const std::vector<float> shared_gate = kernels::test::normal_floats(rng, kRows);
  const std::vector<int32_t> ids = {0, 2, 3, 1, 1, 0};
  const std::vector<float> weights = kernels::test::normal_floats(rng, 6, 0.3F);
  const Batch batch = decode_rows(kRows);
  for (int combination = 0; combination < 12; ++combination) {
    const bool gated = combination % 2 == 0;
    const bool gates_shared = combination / 2 % 2 == 0;
    const MoeOptions options = {static_cast<Activation>(combination / 4), 0.22F};
    std::vector<std::vector<float>> values;
    const auto matrix = [&](int64_t n_out, int64_t n_in) {
      values.push_back(kernels::test::normal_floats(rng, n_out * n_in, 0.2F));
      return WeightView{DType::kF32, n_out, n_in, values.back().data()};
    };
    const auto expert = [&](bool has_gate) {
      return ExpertWeights{has_gate ? matrix(kFf, kEmbd) : WeightView(), matrix(kFf, kEmbd),
                           matrix(kEmbd, kFf)};
    };
    std::vector<ExpertWeights> routed;
    std::deque<std::vector<float>> biases;
    const auto bias = [&](int n) {
      return biases.emplace_back(kernels::test::normal_floats(rng, n, 0.5F)).data();
    };
    for (int e = 0; e < 4; ++e) {
      routed.push_back(expert(gated));
      if (gates_shared) continue;
      if (gated) routed.back().gate_bias = bias(kFf);
      routed.back().up_bias = bias(kFf);
      routed.back().down_bias = bias(kEmbd);
    }
    const ExpertWeights shared = expert(!gated);
    Matrix want = y;
    const auto ref = make_ref_ops();
    const auto of_ref = ref->place_experts(routed, shared, ExpertPlacement::kDevice);
    ASSERT_TRUE(of_ref.ok());
    auto ref_ids = ids;
    auto ref_weights = weights;
    ref->moe_ffn(x.view(), **of_ref, {2, ref_ids.data(), ref_weights.data()},
                 gates_shared ? shared_gate.data() : nullptr, options, want.view());
    for (const auto& [name, device] : test::devices()) {
      for (const ExpertPlacement where : {ExpertPlacement::kDevice, ExpertPlacement::kHost}) {
        ThreadPool pool(2);
        auto made = make_cuda_ops(*device, pool);
        ASSERT_TRUE(made.ok()) << made.error().message;
        Ops& ops = **made;
        const auto placed = ops.place_experts(routed, shared, where);
        ASSERT_TRUE(placed.ok()) << placed.error().message;
        const DeviceMatrix on_x(*device, x);
        const DeviceMatrix on_y(*device, y);
        const OnDevice<float> gate(*device, shared_gate);
        const OnDevice<int32_t> on_ids(*device, ids);
        const OnDevice<float> on_weights(*device, weights);
        StepInputs inputs;
        inputs.batch = batch.view();
        StepOutputs outputs;
        outputs.logits = on_y.view();
        const auto result = ops.run_step(inputs, outputs, [&] {
          ops.moe_ffn({on_x.view(), StepRows::kAll}, **placed,
                      {2, on_ids.data(), on_weights.data()}, gates_shared ? gate.data() : nullptr,
                      options, on_y.view());
        });
        ASSERT_TRUE(result.ok()) << result.error().message;
        for (int r = 0; r < kRows; ++r) {
          EXPECT_TRUE(kernels::test::same_bits(result->logits.row(r), want.row(r), kEmbd))
              << name << ", combination " << combination << ", placement "
              << static_cast<int>(where) << ", row " << r;
        }
      }
    }
  }
}

TEST(CudaOps, ConvertsAnOperandOnceAndAgainWhenAnotherTookItsPlace) {
  kernels::test::Rng rng(fresh_seed());
  constexpr int kCols = 96;
  constexpr int kOut = 40;
  constexpr int kRows = 5;
  const Matrix a(rng, kRows, kCols);
  const Matrix b(rng, kRows, kCols);
  const Batch batch = decode_rows(kRows);
  for (const auto& [name, device] : test::devices()) {
    ThreadPool pool(1);
    auto made = make_cuda_ops(*device, pool);
    ASSERT_TRUE(made.ok()) << made.error().message;
    Ops& ops = **made;
    const Weights w(rng, ops, kOut, kCols);
    const DeviceMatrix on_a(*device, a);
    const DeviceMatrix on_b(*device, b);
    const OnDevice<float> y(*device, std::vector<float>(4 * kRows * kOut));
    const MatrixView out = {y.data(), 4 * kRows, kOut, kOut};
    StepInputs inputs;
    inputs.batch = batch.view();
    StepOutputs outputs;
    outputs.logits = out;
    const auto product = [&](const Operand& x, int place) {
      const LinearJob job[] = {{w.placed, out.rows_from(int64_t{place} * kRows, kRows)}};
      const int64_t before = device->stream().counts().launches;
      ops.linear(x, job);
      return device->stream().counts().launches - before;
    };
    int64_t first = 0;
    int64_t second = 0;
    int64_t third = 0;
    const auto pass = [&] {
      const Operand of_a = ops.prepare(on_a.view(), StepRows::kAll);
      first = product(of_a, 0);
      second = product(of_a, 1);
      product(ops.prepare(on_b.view(), StepRows::kAll), 2);
      third = product(of_a, 3);
    };
    Matrix want_a(kRows, kOut, 0);
    Matrix want_b(kRows, kOut, 0);
    const LinearJob job_a[] = {{w.on_host, want_a.view()}};
    const LinearJob job_b[] = {{w.on_host, want_b.view()}};
    make_ref_ops()->linear(a.view(), job_a);
    make_ref_ops()->linear(b.view(), job_b);
    for (int step = 0; step < 3; ++step) {  // run, captured, replayed
      const auto result = ops.run_step(inputs, outputs, pass);
      ASSERT_TRUE(result.ok()) << result.error().message;
      for (int place = 0; place < 4; ++place) {
        const Matrix& want = place == 2 ? want_b : want_a;
        for (int r = 0; r < kRows; ++r) {
          EXPECT_TRUE(
              kernels::test::same_bits(result->logits.row(place * kRows + r), want.row(r), kOut))
              << name << ", step " << step << ", product " << place;
        }
      }
      if (step > 0) continue;
      EXPECT_EQ(second, first - 1) << "rounded again";
      EXPECT_EQ(third, first);
    }
  }
}

TEST(CudaOps, RefusesAnOperandWithOtherRowsThanItSays) {
  kernels::test::Rng rng(fresh_seed());
  const Batch batch = decode_rows(5);
  const std::vector<int32_t> wanted = {4};
  const auto& device = test::devices().front().device;
  ThreadPool pool(1);
  auto made = make_cuda_ops(*device, pool);
  ASSERT_TRUE(made.ok()) << made.error().message;
  Ops& ops = **made;
  const Weights w(rng, ops, 32, 32);
  const OnDevice<float> x(*device, std::vector<float>(5 * 32));
  const OnDevice<float> y(*device, std::vector<float>(5 * 32));
  StepInputs inputs;
  inputs.batch = batch.view();
  inputs.wanted_rows = wanted;
  const auto run = [&](int64_t rows, StepRows of) {
    const LinearJob job[] = {{w.placed, {y.data(), rows, 32, 32}}};
    return ops
        .run_step(inputs, {},
                  [&] {
                    ops.linear({ConstMatrixView(x.data(), rows, 32, 32), of}, job);
                  })
        .ok();
  };
  EXPECT_TRUE(run(5, StepRows::kAll));
  EXPECT_FALSE(run(1, StepRows::kAll));
  EXPECT_FALSE(run(5, StepRows::kWanted)) << "a captured pass that failed was replayed";
  ++inputs.pass;
  EXPECT_TRUE(run(1, StepRows::kWanted));
}

TEST(CudaOps, ReadsTablesThatItCannotDecodeInHostMemory) {
  const auto& device = test::devices().front().device;
  ThreadPool pool(1);
  auto made = make_cuda_ops(*device, pool);
  ASSERT_TRUE(made.ok()) << made.error().message;
  WeightView table = {DType::kIQ3_S, 4, 256, nullptr};
  const std::vector<uint8_t> bytes(static_cast<size_t>(table.bytes()));
  table.data = bytes.data();
  ASSERT_TRUE((*made)->place_table(table).ok());
  EXPECT_TRUE((*made)->reads_host_weights());
  EXPECT_FALSE((*made)->supports_overlap());
}

}  // namespace
}  // namespace chimere::kernels::cuda
