// The CUDA op set as a whole: what its steps stage on the host, with captured steps.
#include "kernels/cuda/cuda_ops.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "kernels/cuda/device_test_data.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Batch;
using kernels::test::Matrix;
using kernels::test::uniform_int;
using test::OnDevice;

/// Steps of the same key are captured and replayed; each has its own tokens and vectors.
TEST(CudaOps, EmbedsTokensAndVectorsInEveryStep) {
  kernels::test::Rng rng(fresh_seed());
  constexpr int kCols = 96;
  constexpr int kVocabulary = 10;
  constexpr int kRows = 5;
  const std::vector<float> values = kernels::test::normal_floats(rng, kVocabulary * kCols);
  const WeightView table = {DType::kF32, kVocabulary, kCols, values.data()};
  const Batch batch({{.slices = {{RowClass::kDecode, kRows}},
                      .write_slots = std::vector<int32_t>(kRows, -1),
                      .pages = {0}}});
  for (const auto& [name, device] : test::devices()) {
    ThreadPool pool(2);
    auto made = make_cuda_ops(*device, pool);
    ASSERT_TRUE(made.ok()) << made.error().message;
    Ops& ops = **made;
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
        ops.embed(table, tokens, vectors.view(), out);
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

}  // namespace
}  // namespace chimere::kernels::cuda
