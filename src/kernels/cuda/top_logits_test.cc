#include "kernels/cuda/top_logits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/fresh_seed.h"
#include "kernels/cuda/device_test_data.h"
#include "kernels/cuda/top_logits_args.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Matrix;
using kernels::test::Rng;
using kernels::test::same_bits;
using kernels::test::uniform_int;
using test::DeviceMatrix;
using test::OnDevice;

/// `masks`: empty: all tokens.
void expect_same_top(const Matrix& logits, int32_t count, const std::vector<uint32_t>& masks = {}) {
  const auto places = static_cast<size_t>(logits.rows * count);
  std::vector<TopLogit> want(places);
  ref::top_logits(logits.view(), masks, {want.data(), logits.rows, count});
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix x(*device, logits);
    const OnDevice<TopLogit> top(*device, std::vector<TopLogit>(places));
    const auto scratch_bytes =
        static_cast<size_t>(top_logits_scratch_bytes(logits.rows, logits.cols, count));
    const OnDevice<uint8_t> scratch(*device, std::vector<uint8_t>(scratch_bytes));
    const OnDevice<uint32_t> sets(*device, masks);
    top_logits(device->stream(), x.view(), masks.empty() ? nullptr : sets.data(),
               {top.data(), logits.rows, count}, scratch.data());
    const std::vector<TopLogit> got = top.read();
    for (size_t i = 0; i < places; ++i) {
      ASSERT_EQ(got[i].id, want[i].id) << name << ", place " << i << " of " << count;
      ASSERT_TRUE(same_bits(&got[i].value, &want[i].value, 1)) << name << ", place " << i;
    }
  }
}

TEST(CudaTopLogits, HaveTheBitsOfRef) {
  const auto seed = fresh_seed();
  SCOPED_TRACE(seed);
  Rng rng(seed);
  expect_same_top(Matrix(rng, 3, 1, 4), 1);
  expect_same_top(Matrix(rng, 3, 5, 4), 32);
  expect_same_top(Matrix(rng, 2, 64, 4), 1);
  expect_same_top(Matrix(rng, 2, kMaxTopTile, 4), 2);
  expect_same_top(Matrix(rng, 2, kMaxTopTile + 1, 4), 20);
  expect_same_top(Matrix(rng, 1, 9 * kMaxTopTile + 7, 4), 1);
  expect_same_top(Matrix(rng, 1, 9 * kMaxTopTile + 7, 4), 64);
  expect_same_top(Matrix(rng, 2, 9 * kMaxTopTile + 7, 4), 32);
  expect_same_top(Matrix(rng, 1, 300 * kMaxTopTile - 5, 4), 31);  // three launches
}

/// The largest count: the keys that the first launch leaves take two more launches.
TEST(CudaTopLogits, SupportTheLargestCount) {
  Rng rng(3);
  expect_same_top(Matrix(rng, 1, 20 * kMaxTopTile, 4), kMaxTopLogits);
}

TEST(CudaTopLogits, EqualLogitsAreOrderedById) {
  const auto seed = fresh_seed();
  SCOPED_TRACE(seed);
  Rng rng(seed);
  for (const int32_t count : {1, 20}) {
    Matrix coarse(rng, 2, kMaxTopTile + 300, 4);
    for (float& x : coarse.data) x = std::rint(x / 3);
    expect_same_top(coarse, count);
    expect_same_top(Matrix(2, 100, 1.5F), count);
    Matrix zeros(1, 300, -1);
    for (size_t i = 10; i < 40; ++i) zeros.data[i] = i % 3 == 0 ? 0.0F : -0.0F;
    expect_same_top(zeros, count);
  }
}

TEST(CudaTopLogits, MaskedLogitsAndNonNumbers) {
  Rng rng(5);
  for (const int32_t count : {1, 20}) {
    Matrix logits(rng, 4, kMaxTopTile + 300, 4);
    for (int64_t i = 0; i < logits.cols; ++i) {
      if (i % 200 != 0) logits.data[static_cast<size_t>(i)] = -INFINITY;  // few remain in row 0
      logits.data[static_cast<size_t>(logits.stride + i)] = -INFINITY;    // none in row 1
    }
    logits.data[static_cast<size_t>(2 * logits.stride + 2100)] = -NAN;
    logits.data[static_cast<size_t>(3 * logits.stride + 5)] = INFINITY;
    expect_same_top(logits, count);
  }
}

TEST(CudaTopLogits, OnlyTokensOfTheSetAreConsidered) {
  const auto seed = fresh_seed();
  SCOPED_TRACE(seed);
  Rng rng(seed);
  for (const int32_t count : {1, 20, 40}) {
    Matrix logits(rng, 5, 3 * kMaxTopTile + uniform_int(rng, 0, 40), 4);
    logits.data[static_cast<size_t>(4 * logits.stride + 77)] = INFINITY;  // outside the set
    const auto words = static_cast<size_t>(mask_words(logits.cols));
    std::vector<uint32_t> masks(5 * words);
    for (size_t i = 0; i < words; ++i) {
      masks[i] = static_cast<uint32_t>(rng());                               // half of the tokens
      masks[words + i] = uniform_int(rng, 0, 30) == 0 ? 1U << (i % 32) : 0;  // few
      masks[2 * words + i] = ~uint32_t{0};                                   // all, row 3: none
    }
    expect_same_top(logits, count, masks);
  }
}

TEST(CudaTopLogits, SelectedLogitsAreMovedOut) {
  const auto seed = fresh_seed();
  SCOPED_TRACE(seed);
  Rng rng(seed);
  const Matrix logits(rng, 3, kMaxTopTile + 500, 4);
  const int32_t count = uniform_int(rng, 1, 700);
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < logits.rows; ++r) {
    std::vector<int32_t> row;
    for (int32_t id = 0; id < logits.cols; ++id) {
      if (uniform_int(rng, 0, 5) == 0) row.push_back(id);
    }
    row.resize(static_cast<size_t>(count), -1);
    ids.insert(ids.end(), row.begin(), row.end());
  }
  Matrix left = logits;
  std::vector<float> want(ids.size());
  make_ref_ops()->gather_logits(left.view(), ids, {want.data(), logits.rows, count});
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix x(*device, logits);
    const OnDevice<int32_t> on_device(*device, ids);
    const OnDevice<float> selected(*device, std::vector<float>(ids.size()));
    gather_logits(device->stream(), x.view(), on_device.data(),
                  {selected.data(), logits.rows, count});
    EXPECT_EQ(selected.read(), want) << name;
    EXPECT_EQ(x.read(), left.data) << name;
  }
  // Gathered values equal the row's, which are masked afterwards.
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto r = static_cast<int64_t>(i) / count;
    if (ids[i] < 0) {
      EXPECT_EQ(want[i], -INFINITY);
      continue;
    }
    EXPECT_EQ(want[i], logits.view().row(r)[ids[i]]);
    EXPECT_EQ(left.view().row(r)[ids[i]], -INFINITY);
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
