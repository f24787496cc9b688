#include "kernels/cuda/linear_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/fresh_seed.h"
#include "kernels/cuda/linear_decode_args.h"
#include "kernels/cuda/linear_test_data.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

using test::LinearProblem;
using test::OnDevice;
using test_data::Random;

/// Multiprocessors of the emulated GPU.
constexpr int kEmulated = 4;

/// Rounds x and computes the rows `ids` (all if empty), on a GPU of `multiprocessors` (0: the
/// device's number).
std::vector<std::vector<float>> decode_on(Device& device, const LinearProblem& p,
                                          const std::vector<int32_t>& ids = {},
                                          int multiprocessors = 0) {
  const OnDevice<uint32_t> codebook(device, codebook_words());
  const test::RoundedOnDevice rounded(device, p.rows, p.n_in);
  const OnDevice<int32_t> row_ids(device, ids);
  return p.on(device, [&](ConstMatrixView x, std::span<const LinearJob> jobs) {
    if (p.n_in % kActivationBlock == 0) round_rows(device.stream(), x, rounded.rows());
    const RowSet rows = ids.empty() ? RowSet{nullptr, static_cast<int32_t>(p.rows)}
                                    : RowSet{row_ids.data(), static_cast<int32_t>(ids.size())};
    LinearDevice on = device.facts();
    if (multiprocessors > 0) on.multiprocessors = multiprocessors;
    linear_decode(device.stream(), on, x, rounded.rows(), rows, codebook.data(), jobs);
  });
}

void expect_bits_of_ref(const LinearProblem& p, int multiprocessors = 0) {
  const auto want = p.by_ref();
  for (const auto& [name, device] : test::devices()) {
    const auto got = decode_on(*device, p, {}, multiprocessors);
    for (size_t j = 0; j < got.size(); ++j) {
      for (size_t i = 0; i < got[j].size(); ++i) {
        ASSERT_EQ(std::memcmp(&want[j][i], &got[j][i], 4), 0)
            << dtype_name(p.jobs[j].type) << " on " << name << ", rows " << p.rows << " n_in "
            << p.n_in << " n_out " << p.jobs[j].n_out << " at " << i << ": want " << want[j][i]
            << " got " << got[j][i];
      }
    }
  }
}

class CudaLinearDecode : public testing::TestWithParam<DType> {};

TEST_P(CudaLinearDecode, HasTheBitsOfRef) {
  const DType type = GetParam();
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const int64_t unit = std::max(32, dtype_info(type).block_elements);
  for (const int64_t rows : {1, 2, 7, 8, 11, 19, 35}) {
    expect_bits_of_ref(LinearProblem(random, rows, unit * random.between(1, 5), {type}, 40));
  }
  // More tiles than the GPU has multiprocessors: blocks of eight warps instead of sixteen, which
  // take several tiles.
  for (const int64_t rows : {2, 8}) {
    expect_bits_of_ref(LinearProblem(random, rows, unit * random.between(1, 5), {type}, 120, 40),
                       1);
  }
  // Whole passes over the partial sums (multiply_by_matrices()), of both kernels.
  for (const int64_t n_in : {512, 1024, 1536}) {
    expect_bits_of_ref(LinearProblem(random, 8, n_in, {type}, 40));
    expect_bits_of_ref(LinearProblem(random, 5, n_in, {type}, 120, 40), 1);
    expect_bits_of_ref(LinearProblem(random, 7, n_in, {type}, 96, 49), 1);
    // Two row tiles, the second of them full or not.
    expect_bits_of_ref(LinearProblem(random, 16, n_in, {type}, 40));
    expect_bits_of_ref(LinearProblem(random, 13, n_in, {type}, 120, 40), 1);
    expect_bits_of_ref(LinearProblem(random, 9, n_in, {type}, 96, 49), 1);
  }
  // More groups than a half warp has in flight, and tails of every length.
  for (const int64_t blocks : {int64_t{1}, int64_t{3}, 64 * 32 / unit, 64 * 32 / unit + 1}) {
    expect_bits_of_ref(LinearProblem(random, 1, unit * blocks, {type}, 20));
  }
  // Weight rows with a tail of groups.
  expect_bits_of_ref(LinearProblem(random, 2, unit * (512 / unit + 1), {type}, 20));
  // Enough outputs for half warps on the emulator; the smaller problems above use whole warps.
  for (const int64_t blocks : {int64_t{1}, 64 * 32 / unit + 1}) {
    const LinearProblem p(random, 1, unit * blocks, {type}, 140, 130);
    ASSERT_FALSE(plan_linear_decode(p.jobs[0].n_out, 1, kEmulated).by_warps);
    ASSERT_TRUE(plan_linear_decode(40, 1, kEmulated).by_warps);
    expect_bits_of_ref(p);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaLinearDecode, testing::ValuesIn(test_data::all_weight_types()),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST(CudaLinear, BlocksTakeTilesOfSeveralTypes) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  using Types = std::vector<DType>;
  // With and without types that read the sums of x's blocks.
  for (const Types& types : {Types{DType::kQ5_K, DType::kQ6_K, DType::kQ8_0, DType::kQ4_K},
                             Types{DType::kQ5_K, DType::kQ2_K, DType::kQ6_K},
                             Types{DType::kQ2_K, DType::kQ8_0, DType::kQ6_K}}) {
    for (const int64_t n_in : {512, 2048}) {
      expect_bits_of_ref(LinearProblem(random, 6, n_in, types, 72), 1);
      expect_bits_of_ref(LinearProblem(random, 6, n_in, types, 24, 17), 1);
      expect_bits_of_ref(LinearProblem(random, 6, n_in, types, 24), 64);
      expect_bits_of_ref(LinearProblem(random, 15, n_in, types, 72), 1);
      expect_bits_of_ref(LinearProblem(random, 10, n_in, types, 24), 64);
    }
  }
}

TEST(CudaLinear, ManyJobsOfOneKindShareOneLaunch) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const auto& all = test_data::all_weight_types();
  for (const int64_t rows : {1, 5}) {
    for (const int64_t count : {2, 8, 10}) {
      std::vector<DType> types;
      for (int64_t j = 0; j < count; ++j) {
        types.push_back(
            all[static_cast<size_t>(random.between(0, static_cast<int64_t>(all.size()) - 1))]);
      }
      const LinearProblem p(random, rows, 512, types, 60);
      expect_bits_of_ref(p);
      for (const auto& [name, device] : test::devices()) {
        const int64_t before = device->stream().counts().launches;
        decode_on(*device, p);
        const int64_t integers = std::ranges::count_if(
            p.jobs, [](const auto& job) { return takes_integer_dot(job.type); });
        auto launches = [](int64_t jobs) { return (jobs + kMaxLinearJobs - 1) / kMaxLinearJobs; };
        EXPECT_EQ(device->stream().counts().launches - before,
                  1 + launches(integers) + launches(count - integers));
      }
    }
  }
}

/// Tiles of several jobs for few blocks; of jobs with different codebooks, one for each block.
TEST(CudaLinear, BlocksTakeSeveralTiles) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const std::vector<DType> mixes[] = {{DType::kQ5_K, DType::kQ5_K, DType::kQ8_0},
                                      {DType::kQ6_K, DType::kQ4_1},
                                      {DType::kIQ3_S, DType::kIQ3_S},
                                      {DType::kQ4_K, DType::kIQ3_S}};
  for (const auto& types : mixes) {
    for (const int64_t rows : {2, 8}) {
      for (const int64_t n_in : {256, 2048}) {
        expect_bits_of_ref(LinearProblem(random, rows, n_in, types, 140, 70), 1);
      }
    }
  }
}

TEST(CudaLinear, WeightRowsTooLongForATile) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (const DType type : {DType::kQ8_0, DType::kQ6_K}) {
    expect_bits_of_ref(LinearProblem(random, 3, 8192, {type}, 3));
  }
}

/// A block's rows of x and of weights take more memory than some GPUs have.
TEST(CudaLinear, LongRowsOfSeveralColumns) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (const int64_t rows : {5, 12}) {
    for (const int64_t n_in : {4096, 6144, 10240}) {
      expect_bits_of_ref(LinearProblem(random, rows, n_in, {DType::kQ4_K}, 40));
    }
  }
}

TEST(CudaLinear, FloatRowsOfAnyLength) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (const int64_t n : {1, 4, 7, 10, 13, 15, 16, 17, 19, 32, 70, 2048, 2049, 4100}) {
    expect_bits_of_ref(LinearProblem(random, random.between(1, 11), n,
                                     {DType::kF32, DType::kF16, DType::kBF16}, 11));
  }
  for (const int64_t n : {2688, 4096, 4100}) {
    expect_bits_of_ref(LinearProblem(random, random.between(1, 2), n,
                                     {DType::kF32, DType::kF16, DType::kBF16}, 11));
  }
  for (const int64_t n : {1, 15, 64, 512, 513, 1030}) {
    expect_bits_of_ref(LinearProblem(random, random.between(9, 20), n,
                                     {DType::kF32, DType::kF16, DType::kBF16}, 11));
  }
}

/// Computes the rows `ids`, and no others.
void expect_only(const LinearProblem& p, const std::vector<int32_t>& ids) {
  const auto all = p.by_ref();
  for (const auto& [name, device] : test::devices()) {
    const auto got = decode_on(*device, p, ids);
    for (size_t j = 0; j < p.jobs.size(); ++j) {
      const auto stride = static_cast<size_t>(p.jobs[j].n_out + 3);
      for (int32_t r = 0; r < p.rows; ++r) {
        const bool asked = std::find(ids.begin(), ids.end(), r) != ids.end();
        const float* want = (asked ? all[j] : p.jobs[j].y).data() + static_cast<size_t>(r) * stride;
        EXPECT_EQ(std::memcmp(got[j].data() + static_cast<size_t>(r) * stride, want, 4 * stride), 0)
            << name << ", row " << r;
      }
    }
  }
}

TEST(CudaLinear, ComputesOnlyTheRequestedRows) {
  Random random(fresh_seed());
  expect_only(LinearProblem(random, 9, 256, {DType::kQ4_K, DType::kF32}, 30), {7, 0, 4, 5, 2});
  expect_only(LinearProblem(random, 14, 1024, {DType::kQ4_K, DType::kF32}, 30),
              {11, 7, 0, 4, 5, 2, 12, 9, 1, 3});
}

TEST(CudaLinear, ARowWithANanOrInfinityIsNanAndAffectsNoOther) {
  Random random(fresh_seed());
  for (const DType type : {DType::kQ8_0, DType::kQ4_K, DType::kQ6_K, DType::kIQ3_S}) {
    LinearProblem p(random, 6, 512, {type}, 20);
    p.jobs[0].accumulate = false;
    const auto clean = p.by_ref();
    p.x[static_cast<size_t>(2 * p.x_stride + 100)] = std::numeric_limits<float>::quiet_NaN();
    p.x[static_cast<size_t>(5 * p.x_stride + 500)] = -std::numeric_limits<float>::infinity();
    for (const auto& [name, device] : test::devices()) {
      const auto got = decode_on(*device, p);
      for (int64_t r = 0; r < p.rows; ++r) {
        for (int64_t o = 0; o < p.jobs[0].n_out; ++o) {
          const auto i = static_cast<size_t>(r * (p.jobs[0].n_out + 3) + o);
          if (r == 2 || r == 5) {
            EXPECT_TRUE(std::isnan(got[0][i])) << dtype_name(type) << " on " << name;
          } else {
            EXPECT_EQ(got[0][i], clean[0][i]) << dtype_name(type) << " on " << name;
          }
        }
      }
    }
  }
}

/// Packed bytes over bytes in the file, at most. TQ1_0's five weights a byte become two bits each;
/// each scale of IQ2_K and IQ3_K is a byte that also names its table.
double most_growth(DType type) {
  switch (type) {
    case DType::kTQ1_0:
      return 1.23;
    case DType::kIQ2_K:
      return 1.11;
    case DType::kIQ3_K:
      return 1.06;
    default:
      return 1.04;
  }
}

TEST(CudaLinear, PackedMatricesAreAsLargeAsInTheFile) {
  for (const DType type : test_data::all_weight_types()) {
    const auto packed = static_cast<double>(packed_row_bytes(type, 2048));
    const auto file = static_cast<double>(row_bytes(type, 2048));
    EXPECT_LE(packed, file * most_growth(type)) << dtype_name(type);
    EXPECT_GE(packed, file) << dtype_name(type);
  }
}

TEST(CudaLinear, PlansDependOnTheProblemOnly) {
  EXPECT_EQ(plan_linear_decode(8192, 1, 132).rows, 1);
  EXPECT_EQ(plan_linear_decode(8192, 3, 132).rows, 8);
  EXPECT_EQ(plan_linear_decode(8192, 32, 132).rows, 8);
  EXPECT_EQ(plan_linear_decode(2048, 1, 132).passes, 1);
  EXPECT_EQ(plan_linear_decode(248320, 1, 132).passes, 4);
  EXPECT_TRUE(plan_linear_decode(2048, 1, 132).by_warps);
  EXPECT_FALSE(plan_linear_decode(8192, 1, 132).by_warps);
  EXPECT_FALSE(plan_linear_decode(2048, 2, 132).by_warps);
}

}  // namespace
}  // namespace chimere::kernels::cuda
