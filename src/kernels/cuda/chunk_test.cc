#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/cuda/linear_chunk.h"
#include "kernels/cuda/moe_chunk.h"
#include "kernels/cuda/moe_test_data.h"
#include "kernels/dot_rule.h"
#include "kernels/integer_weights.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

using test::ExpertTypes;
using test::LinearProblem;
using test::MoeProblem;
using test::OnDevice;
using test_data::Random;

/// docs/numerics.md, rule 9: rule 4 with one chain instead of 16 partial sums.
float chunk_dot(const WeightView& w, int64_t o, const ref::Activations& x) {
  if (!takes_integer_dot(w.type)) return ref::dot(w, o, x);
  const auto group = static_cast<size_t>(scale_group(w.type));
  const size_t n = x.x.size();
  std::vector<int8_t> q(n);
  std::vector<float> scale(n / group);
  std::vector<float> minimum(n / group);
  unpack_integer_weights(w.type, w.row(o), w.n_in, q.data(), scale.data(), minimum.data());
  float acc = 0;
  for (size_t g = 0; g < n / group; ++g) {
    int32_t dot = 0;
    int32_t sum = 0;
    for (size_t i = g * group; i < (g + 1) * group; ++i) {
      dot += q[i] * x.q[i];
      sum += x.q[i];
    }
    const float d = x.d[g * group / kActivationBlock];
    acc = std::fma(static_cast<float>(dot), scale[g] * d, acc);
    if (has_minimum(w.type)) acc = std::fma(-minimum[g], d * static_cast<float>(sum), acc);
  }
  return acc;
}

/// Equal, where a sum of zeros may have either sign.
bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::vector<std::vector<float>> chunk_on(Device& device, const LinearProblem& p) {
  const OnDevice<uint32_t> codebook(device, codebook_words());
  const test::RoundedOnDevice rounded(device, p.rows, p.n_in);
  return p.on(device, [&](ConstMatrixView x, std::span<const LinearJob> jobs) {
    round_rows(device.stream(), x, rounded.rows());
    linear_chunk(device.stream(), device.facts().multiprocessors, x, rounded.rows(),
                 {nullptr, static_cast<int32_t>(p.rows)}, codebook.data(), jobs);
  });
}

void expect_rule_9(const LinearProblem& p) {
  for (const auto& [name, device] : test::devices()) {
    const auto got = chunk_on(*device, p);
    for (int64_t r = 0; r < p.rows; ++r) {
      const auto x = ref::round_activations(p.x.data() + r * p.x_stride, p.n_in);
      for (size_t j = 0; j < p.jobs.size(); ++j) {
        const LinearProblem::Job& job = p.jobs[j];
        for (int64_t o = 0; o < job.n_out; ++o) {
          const auto i = static_cast<size_t>(r * (job.n_out + 3) + o);
          const float dot = chunk_dot(p.weights(job), o, x);
          const float want = job.accumulate ? job.y[i] + dot : dot;
          ASSERT_TRUE(same(want, got[j][i]))
              << dtype_name(job.type) << " on " << name << ", rows " << p.rows << " n_in " << p.n_in
              << " n_out " << job.n_out << " row " << r << " output " << o << ": want " << want
              << " got " << got[j][i];
        }
      }
    }
  }
}

class CudaChunk : public testing::TestWithParam<DType> {};

TEST_P(CudaChunk, LinearFollowsRule9) {
  const DType type = GetParam();
  const uint64_t seed = test_data::fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const int64_t unit = std::max(32, dtype_info(type).block_elements);
  expect_rule_9(LinearProblem(random, random.between(1, 40), unit, {type}, 140));
  expect_rule_9(LinearProblem(random, 3, unit * 3, {type}, 20));
}

INSTANTIATE_TEST_SUITE_P(Types, CudaChunk, testing::ValuesIn(test_data::all_weight_types()),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST(CudaChunk, ManyRowsTakeWideTilesAndManyJobsOneLaunch) {
  Random random(test_data::fresh_seed());
  expect_rule_9(
      LinearProblem(random, 131, 256, {DType::kQ8_0, DType::kQ6_K, DType::kF32, DType::kQ4_K}, 20));
}

/// ref::moe_ffn with rule 9's products.
std::vector<float> moe_by_rule_9(const MoeProblem& p) {
  std::vector<float> y = p.y;
  const auto n = static_cast<size_t>(p.n_embd);
  for (int64_t r = 0; r < p.rows; ++r) {
    const auto x = ref::round_activations(p.x.data() + r * p.n_embd, p.n_embd);
    std::vector<float> total(n);
    auto add = [&](const ExpertWeights& e, float weight) {
      std::vector<float> h;
      for (int64_t o = 0; o < e.gate.n_out; ++o) {
        h.push_back(silu(chunk_dot(e.gate, o, x)) * chunk_dot(e.up, o, x));
      }
      const auto rounded = ref::round_activations(h.data(), e.gate.n_out);
      for (size_t o = 0; o < n; ++o) {
        total[o] = std::fma(weight, chunk_dot(e.down, static_cast<int64_t>(o), rounded), total[o]);
      }
    };
    for (int rank = 0; rank < p.n_used; ++rank) {
      const auto k = static_cast<size_t>(r * p.n_used + rank);
      add(p.experts[static_cast<size_t>(p.ids[k])], p.weights[k]);
    }
    if (p.has_shared) add(p.shared, sigmoid(p.shared_gate[static_cast<size_t>(r)]));
    for (size_t o = 0; o < n; ++o) y[static_cast<size_t>(r) * n + o] += total[o];
  }
  return y;
}

std::vector<float> moe_on(Device& device, const MoeProblem& p,
                          const std::vector<int32_t>& ids = {}) {
  const OnDevice<int32_t> row_ids(device, ids);
  return p.on(device, [&](const ExpertTable& table, ConstMatrixView x, const RoundedRows& rounded,
                          const Routing& routing, const float* shared_gate,
                          const uint32_t* codebook, MatrixView y) {
    const RowSet rows = ids.empty() ? RowSet{nullptr, static_cast<int32_t>(p.rows)}
                                    : RowSet{row_ids.data(), static_cast<int32_t>(ids.size())};
    const OnDevice<uint8_t> scratch(
        device, std::vector<uint8_t>(static_cast<size_t>(moe_chunk_scratch_bytes(
                                         table, rows.count, p.n_used, p.n_embd)),
                                     0xFF));
    moe_chunk(device.stream(), table, x, rounded, rows, routing, shared_gate, codebook,
              scratch.data(), y);
  });
}

void expect_moe_rule_9(const MoeProblem& p) {
  const std::vector<float> want = moe_by_rule_9(p);
  for (const auto& [name, device] : test::devices()) {
    const std::vector<float> got = moe_on(*device, p);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_TRUE(same(want[i], got[i])) << name << ", rows " << p.rows << " at " << i << ": want "
                                         << want[i] << " got " << got[i];
    }
  }
}

ExpertTypes all_of(DType t) { return {t, t, t}; }

TEST(CudaMoeChunk, FollowsRule9ForEveryMixOfTypes) {
  const uint64_t seed = test_data::fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  expect_moe_rule_9(MoeProblem(random, 5, 6, 3, all_of(DType::kIQ3_S), all_of(DType::kQ5_K)));
  expect_moe_rule_9(MoeProblem(random, 2, 4, 2, {DType::kQ4_K, DType::kIQ2_XXS, DType::kQ6_K},
                               {DType::kIQ2_S, DType::kQ2_K, DType::kIQ1_S}));
  // A layer with a float expert has the bits of step rows, which for float types are rule 9's.
  expect_moe_rule_9(MoeProblem(random, 2, 4, 2, all_of(DType::kF16), all_of(DType::kF16)));
}

TEST(CudaMoeChunk, ExpertsOfManyRowsHaveSeveralTiles) {
  Random random(test_data::fresh_seed());
  // 62 rows of 3 slots, on 2 experts and the shared one: tiles of 64 rows.
  expect_moe_rule_9(MoeProblem(random, 62, 2, 2, all_of(DType::kQ8_0), all_of(DType::kQ8_0)));
}

TEST(CudaMoeChunk, ComputesTheRowsAskedForAndNoOther) {
  Random random(test_data::fresh_seed());
  const MoeProblem p(random, 5, 8, 3, all_of(DType::kQ8_0), all_of(DType::kQ8_0));
  const std::vector<float> all = moe_by_rule_9(p);
  const std::vector<int32_t> ids = {3, 0, 4};
  const auto n = static_cast<size_t>(p.n_embd);
  for (const auto& [name, device] : test::devices()) {
    const std::vector<float> got = moe_on(*device, p, ids);
    for (int32_t r = 0; r < 5; ++r) {
      const bool asked = std::find(ids.begin(), ids.end(), r) != ids.end();
      for (size_t i = static_cast<size_t>(r) * n; i < static_cast<size_t>(r + 1) * n; ++i) {
        ASSERT_TRUE(same(got[i], (asked ? all : p.y)[i])) << name << ", row " << r;
      }
    }
  }
}

TEST(CudaChunk, PlansDependOnTheProblemAlone) {
  EXPECT_EQ(plan_linear_chunk(64), 32);
  EXPECT_EQ(plan_linear_chunk(65), 128);
  EXPECT_EQ(plan_moe_chunk(512 * 9, 256), 32);
  EXPECT_EQ(plan_moe_chunk(2048 * 9, 256), 64);
}

}  // namespace
}  // namespace chimere::kernels::cuda
