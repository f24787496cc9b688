#include "kernels/cpu/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/linear_test_data.h"
#include "kernels/dot_rule.h"
#include "kernels/ref/linear.h"

namespace chimere::kernels {
namespace {

using test_data::Random;

struct Problem {
  int64_t rows = 0;
  int64_t n_in = 0;
  int64_t x_stride = 0;
  std::vector<float> x;
  struct Job {
    DType type;
    int64_t n_out;
    bool accumulate;
    float scale;
    std::vector<uint8_t> w;
    std::vector<float> y;  ///< initial, [rows, n_out + 3]
  };
  std::vector<Job> jobs;

  ConstMatrixView view() const { return {x.data(), rows, n_in, x_stride}; }

  std::vector<LinearJob> linear_jobs(std::vector<std::vector<float>>& y) const {
    std::vector<LinearJob> v;
    for (size_t j = 0; j < jobs.size(); ++j) {
      const Job& job = jobs[j];
      y.push_back(job.y);
      v.push_back({WeightView{job.type, job.n_out, n_in, job.w.data()},
                   MatrixView{y.back().data(), rows, job.n_out, job.n_out + 3}, job.accumulate,
                   job.scale});
    }
    return v;
  }

  std::vector<std::vector<float>> reference() const {
    std::vector<std::vector<float>> y;
    y.reserve(jobs.size());
    ref::linear(view(), linear_jobs(y));
    return y;
  }
};

Problem make_problem(Random& random, int64_t rows, int64_t n_in, const std::vector<DType>& types,
                     int64_t max_out) {
  Problem p;
  p.rows = rows;
  p.n_in = n_in;
  p.x_stride = n_in + random.between(0, 5);
  p.x = random.activations(rows, p.x_stride);
  for (const DType t : types) {
    const int64_t n_out = random.between(1, max_out);
    const bool accumulate = random.between(0, 1) == 1;
    const float scale = random.between(0, 2) > 0 ? 1.0F : -0.22F;
    p.jobs.push_back({t, n_out, accumulate, scale, random.weights(t, n_out, n_in),
                      random.activations(rows, n_out + 3)});
  }
  return p;
}

void expect_same_bits(const Problem& p, const std::vector<std::vector<float>>& want,
                      cpu::LinearEngine& engine, const char* isa, int threads) {
  std::vector<std::vector<float>> got;
  got.reserve(p.jobs.size());
  const auto jobs = p.linear_jobs(got);
  engine.linear(p.view(), jobs);
  for (size_t j = 0; j < jobs.size(); ++j) {
    ASSERT_EQ(want[j].size(), got[j].size());
    for (size_t i = 0; i < got[j].size(); ++i) {
      ASSERT_EQ(std::memcmp(&want[j][i], &got[j][i], 4), 0)
          << dtype_name(p.jobs[j].type) << " " << isa << " threads " << threads << " rows "
          << p.rows << " n_in " << p.n_in << " n_out " << p.jobs[j].n_out << " at " << i
          << ": want " << want[j][i] << " got " << got[j][i];
    }
  }
}

class LinearOfType : public testing::TestWithParam<DType> {};

TEST_P(LinearOfType, EveryIsaAndThreadCountGivesTheOraclesBits) {
  const DType type = GetParam();
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const int64_t unit = std::max(32, dtype_info(type).block_elements);
  const bool fast = takes_integer_dot(type) || !dtype_info(type).quantised;
  std::vector<int64_t> row_counts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 70};
  if (fast) row_counts.insert(row_counts.end(), {random.between(10, 20), random.between(20, 69)});
  std::vector<Problem> problems;
  for (const int64_t rows : row_counts) {
    problems.push_back(
        make_problem(random, rows, unit * random.between(1, 4), {type}, rows > 16 ? 20 : 70));
  }
  for (int64_t blocks = 1; blocks <= 20; ++blocks) {
    problems.push_back(make_problem(random, random.between(1, 9), unit * blocks, {type}, 18));
  }
  std::vector<std::vector<std::vector<float>>> want;
  for (const Problem& p : problems) want.push_back(p.reference());
  for (const CpuIsa isa : usable_cpu_isas()) {
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      cpu::LinearEngine engine(pool, isa);
      for (size_t i = 0; i < problems.size(); ++i) {
        expect_same_bits(problems[i], want[i], engine, cpu_isa_name(isa), threads);
      }
    }
  }
}

/// Compares the oracle with a product in double precision of quant::decode()d weights. Rounding an
/// activation moves it by at most half a step, d / 2 = amax / 254, so the result by at most Σ |w| d
/// / 2; f32 sums of n terms err by at most n eps Σ |w x|. For types with float activations only the
/// second bound applies.
TEST_P(LinearOfType, OracleIsCloseToTheExactProduct) {
  const DType type = GetParam();
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const int64_t n = 256 * random.between(1, 4);
  Problem p = make_problem(random, 3, n, {type}, 9);
  p.jobs[0].accumulate = false;
  p.jobs[0].scale = 1;
  const auto y = p.reference();
  const int64_t n_out = p.jobs[0].n_out;
  std::vector<float> w(static_cast<size_t>(n));
  for (int64_t o = 0; o < n_out; ++o) {
    const WeightView view{type, n_out, n, p.jobs[0].w.data()};
    quant::decode(type, view.row(o), w.data(), n);
    for (int64_t r = 0; r < p.rows; ++r) {
      const float* x = p.view().row(r);
      double exact = 0;
      double bound = 0;
      for (int64_t b = 0; b < n; b += 32) {
        double amax = 0;
        for (int64_t i = b; i < b + 32; ++i)
          amax = std::max(amax, std::fabs(static_cast<double>(x[i])));
        for (int64_t i = b; i < b + 32; ++i) {
          const double wi = w[static_cast<size_t>(i)];
          exact += wi * x[i];
          bound += std::fabs(wi) * amax * static_cast<double>(n) * 1.2e-7;
          if (takes_integer_dot(type)) bound += std::fabs(wi) * amax / 254 * (1 + 1e-5);
        }
      }
      EXPECT_LE(std::fabs(y[0][static_cast<size_t>(r * (n_out + 3) + o)] - exact), bound + 1e-30);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LinearOfType, testing::ValuesIn(test_data::all_weight_types()),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST(Linear, ManyJobsShareOneInput) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 10; ++round) {
    std::vector<DType> types;
    const auto& all = test_data::all_weight_types();
    for (int64_t j = random.between(1, 5); j > 0; --j) {
      types.push_back(
          all[static_cast<size_t>(random.between(0, static_cast<int64_t>(all.size()) - 1))]);
    }
    const Problem p =
        make_problem(random, random.between(1, 20), 256 * random.between(1, 3), types, 100);
    const auto want = p.reference();
    for (const CpuIsa isa : usable_cpu_isas()) {
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        cpu::LinearEngine engine(pool, isa);
        expect_same_bits(p, want, engine, cpu_isa_name(isa), threads);
      }
    }
  }
}

TEST(Linear, FloatRowsOfAnyLength) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int64_t n = 1; n <= 70; ++n) {
    const Problem p =
        make_problem(random, random.between(1, 6), n, {DType::kF32, DType::kF16, DType::kBF16}, 11);
    const auto want = p.reference();
    for (const CpuIsa isa : usable_cpu_isas()) {
      ThreadPool pool(2);
      cpu::LinearEngine engine(pool, isa);
      expect_same_bits(p, want, engine, cpu_isa_name(isa), 2);
    }
  }
}

TEST(Linear, ARowWithANanOrInfinityIsNanAndAffectsNoOther) {
  Random random(fresh_seed());
  for (const DType type : {DType::kQ8_0, DType::kQ4_K, DType::kQ6_K, DType::kIQ3_S}) {
    Problem p = make_problem(random, 9, 512, {type}, 20);
    p.jobs[0].accumulate = false;
    auto clean = p.reference();
    p.x[static_cast<size_t>(2 * p.x_stride + 100)] = std::numeric_limits<float>::quiet_NaN();
    p.x[static_cast<size_t>(5 * p.x_stride + 500)] = std::numeric_limits<float>::infinity();
    for (const CpuIsa isa : usable_cpu_isas()) {
      ThreadPool pool(2);
      cpu::LinearEngine engine(pool, isa);
      std::vector<std::vector<float>> got;
      got.reserve(1);
      const auto jobs = p.linear_jobs(got);
      engine.linear(p.view(), jobs);
      for (int64_t r = 0; r < p.rows; ++r) {
        for (int64_t o = 0; o < p.jobs[0].n_out; ++o) {
          const auto i = static_cast<size_t>(r * (p.jobs[0].n_out + 3) + o);
          if (r == 2 || r == 5) {
            EXPECT_TRUE(std::isnan(got[0][i])) << dtype_name(type);
          } else {
            EXPECT_EQ(got[0][i], clean[0][i]) << dtype_name(type);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace chimere::kernels
