#include "kernels/cuda/rows.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/cuda/device_test_data.h"
#include "kernels/ref/moe.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Matrix;
using test::DeviceMatrix;
using test::OnDevice;

TEST(CudaRows, SelectsRows) {
  kernels::test::Rng rng(std::random_device{}());
  const Matrix x(rng, 6, 300);
  const std::vector<int32_t> ids = {5, 0, 0, 3};
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix source(*device, x);
    const DeviceMatrix y(*device, Matrix(4, 300, 0));
    const OnDevice<int32_t> chosen(*device, ids);
    select_rows(device->stream(), source.view(), chosen.data(), y.view());
    const std::vector<float> rows = y.read();
    for (size_t i = 0; i < ids.size(); ++i) {
      const float* row = rows.data() + static_cast<int64_t>(i) * y.view().stride;
      EXPECT_TRUE(kernels::test::same_bits(row, x.row(ids[i]), x.cols)) << name << ", row " << i;
    }
  }
}

TEST(CudaRows, SiluMultiplyHasTheBitsOfRef) {
  kernels::test::Rng rng(std::random_device{}());
  const Matrix gate(rng, 3, 700, 4);
  const Matrix up(rng, 3, 700, 4);
  Matrix expected = gate;
  ref::silu_multiply(expected.view(), up.view());
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix g(*device, gate);
    const DeviceMatrix u(*device, up);
    silu_multiply(device->stream(), g.view(), u.view());
    EXPECT_TRUE(kernels::test::same_bits(g.read(), expected.data)) << name;
  }
}

void expect_same_route(const Matrix& logits, int n_used) {
  const auto n = static_cast<size_t>(logits.rows * n_used);
  std::vector<int32_t> ids(n);
  std::vector<float> weights(n);
  ref::route(logits.view(), {n_used, ids.data(), weights.data()});
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix x(*device, logits);
    const OnDevice<int32_t> got_ids(*device, std::vector<int32_t>(n, -1));
    const OnDevice<float> got_weights(*device, std::vector<float>(n));
    route(device->stream(), x.view(), {n_used, got_ids.data(), got_weights.data()});
    EXPECT_EQ(got_ids.read(), ids) << name;
    EXPECT_TRUE(kernels::test::same_bits(got_weights.read(), weights)) << name;
  }
}

TEST(CudaRows, RouteHasTheBitsOfRef) {
  kernels::test::Rng rng(std::random_device{}());
  expect_same_route(Matrix(rng, 9, 256, 3), 8);
  expect_same_route(Matrix(rng, 2, 40, 3), 32);
  expect_same_route(Matrix(rng, 3, 500, 3), 10);
  expect_same_route(Matrix(rng, 3, 5, 3), 2);
}

TEST(CudaRows, RouteGivesTiesToTheLowerId) {
  Matrix equal(2, 100, 1.5F);
  equal.data[70] = 2;
  expect_same_route(equal, 8);
  Matrix zeros(1, 300, 0);
  for (size_t i = 0; i < zeros.data.size(); i += 3) zeros.data[i] = -0.0F;
  expect_same_route(zeros, 5);
  Matrix infinite(1, 64, -std::numeric_limits<float>::infinity());
  infinite.data[40] = 0;
  expect_same_route(infinite, 4);
}

TEST(CudaRows, KeepTopPHasTheBitsOfRef) {
  kernels::test::Rng rng(std::random_device{}());
  constexpr int kRows = 300;  // more than a block's
  constexpr int kUsed = 8;
  const Matrix logits(rng, kRows, 40, 2);
  std::vector<int32_t> ids(kRows * kUsed);
  std::vector<float> weights(kRows * kUsed);
  ref::route(logits.view(), {kUsed, ids.data(), weights.data()});
  // All rows are step rows, or every third one is a chunk's.
  for (const int chunk_every : {kRows + 1, 3}) {
    std::vector<RowClass> classes;
    std::vector<int32_t> step;
    for (int r = 0; r < kRows; ++r) {
      const bool chunk = r % chunk_every == chunk_every - 1;
      classes.push_back(chunk ? RowClass::kChunk : RowClass::kStep);
      if (!chunk) step.push_back(r);
    }
    auto want_ids = ids;
    auto want_weights = weights;
    ExpertUse want = {};
    make_ref_ops()->keep_top_p({kUsed, want_ids.data(), want_weights.data()}, classes, 0.7F, &want);
    EXPECT_LT(want.experts, want.rows * kUsed);
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<int32_t> got_ids(*device, ids);
      const OnDevice<float> got_weights(*device, weights);
      const OnDevice<ExpertUse> use(*device, std::vector<ExpertUse>(1));
      const OnDevice<int32_t> row_ids(*device, step);
      const bool all = step.size() == kRows;
      const RowSet rows = {all ? nullptr : row_ids.data(), static_cast<int32_t>(step.size())};
      keep_top_p(device->stream(), {kUsed, got_ids.data(), got_weights.data()}, rows, 0.7F,
                 use.data());
      EXPECT_EQ(got_ids.read(), want_ids) << name;
      EXPECT_TRUE(kernels::test::same_bits(got_weights.read(), want_weights)) << name;
      EXPECT_EQ(use.read()[0].rows, want.rows) << name;
      EXPECT_EQ(use.read()[0].experts, want.experts) << name;
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
