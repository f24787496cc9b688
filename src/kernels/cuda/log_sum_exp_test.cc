#include "kernels/cuda/log_sum_exp.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/fresh_seed.h"
#include "kernels/cuda/device_test_data.h"
#include "kernels/exp_rule.h"
#include "kernels/log_sum_exp.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Matrix;
using kernels::test::Rng;
using test::DeviceMatrix;
using test::OnDevice;

uint64_t bits_of(double x) { return std::bit_cast<uint64_t>(x); }

void expect_same_sums(const Matrix& logits) {
  const auto rows = static_cast<size_t>(logits.rows);
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix x(*device, logits);
    const OnDevice<LogSumExp> sums(*device, std::vector<LogSumExp>(rows));
    const auto bytes = static_cast<size_t>(log_sum_exp_scratch_bytes(logits.rows, logits.cols));
    const OnDevice<uint8_t> scratch(*device, std::vector<uint8_t>(bytes));
    log_sum_exp(device->stream(), x.view(), sums.data(), scratch.data());
    const std::vector<LogSumExp> got = sums.read();
    for (size_t r = 0; r < rows; ++r) {
      const LogSumExp want =
          row_log_sum_exp(logits.view().row(static_cast<int64_t>(r)), logits.cols);
      EXPECT_EQ(bits_of(got[r].e), bits_of(want.e)) << name << ", row " << r;
      EXPECT_EQ(bits_of(got[r].xe), bits_of(want.xe)) << name << ", row " << r;
      EXPECT_EQ(got[r].largest, want.largest) << name << ", row " << r;
    }
  }
}

TEST(CudaLogSumExp, HasTheBitsOfTheDefinition) {
  const auto seed = fresh_seed();
  SCOPED_TRACE(seed);
  Rng rng(seed);
  expect_same_sums(Matrix(rng, 3, 1, 4));
  expect_same_sums(Matrix(rng, 3, 40, 4));
  expect_same_sums(Matrix(rng, 2, kExpPiece, 10));
  expect_same_sums(Matrix(rng, 2, kExpPiece + 1, 10));
  expect_same_sums(Matrix(rng, 2, 17 * kExpPiece + 9, 0.1F));
  expect_same_sums(Matrix(rng, 1, (kExpLanesOfRow + 3) * kExpPiece - 5, 30));
}

TEST(CudaLogSumExp, MaskedLogitsAddNothing) {
  Rng rng(6);
  Matrix logits(rng, 4, 9 * kExpPiece + 7, 4);
  for (int64_t i = 0; i < logits.cols; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto stride = static_cast<size_t>(logits.stride);
    if (i / kExpPiece % 2 == 0) logits.data[at] = -INFINITY;  // whole pieces of row 0
    if (i % 700 != 0) logits.data[stride + at] = -INFINITY;   // few remain in row 1
    logits.data[2 * stride + at] = -INFINITY;                 // none in row 2
    if (i == 5) logits.data[3 * stride + at] = 1e4F;          // far larger than the others
  }
  expect_same_sums(logits);
}

}  // namespace
}  // namespace chimere::kernels::cuda
