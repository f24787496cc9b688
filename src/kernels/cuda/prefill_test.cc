#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/fresh_seed.h"
#include "kernels/cuda/half_rows.h"
#include "kernels/cuda/linear_prefill.h"
#include "kernels/cuda/linear_prefill_args.h"
#include "kernels/cuda/moe_prefill.h"
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

/// A row of activations under rule 9.
struct HalfRow {
  std::vector<float> x;
  float unit;  ///< of a sum of products
};

HalfRow half_row(const float* x, int64_t n) {
  float amax = 0;
  for (int64_t i = 0; i < n; ++i) amax = std::max(amax, std::fabs(x[i]));
  HalfRow row = {std::vector<float>(static_cast<size_t>(n)), 0};
  if (amax < 0x1p-100F) return row;
  const int exponent = 14 - std::ilogb(amax);
  for (int64_t i = 0; i < n; ++i) {
    row.x[static_cast<size_t>(i)] =
        quant::f16_to_f32(quant::f32_to_f16(std::ldexp(x[i], exponent)));
  }
  row.unit = std::ldexp(1.0F, -exponent - 6);
  return row;
}

float rounded_to_half(double exact) {
  // Round to odd first, so that the second rounding gives the correctly rounded result.
  auto f = static_cast<float>(exact);
  if (double{f} != exact) {
    if (std::fabs(double{f}) > std::fabs(exact)) f = std::nextafterf(f, 0.0F);
    f = std::bit_cast<float>(std::bit_cast<uint32_t>(f) | 1U);
  }
  return quant::f16_to_f32(quant::f32_to_f16(f));
}

/// Row o of a quantised matrix under rule 9.
std::vector<float> half_weights(const WeightView& w, int64_t o) {
  const auto group = static_cast<size_t>(scale_group(w.type));
  const auto n = static_cast<size_t>(w.n_in);
  std::vector<int8_t> q(n);
  std::vector<float> scale(n / group);
  std::vector<float> minimum(n / group);
  unpack_integer_weights(w.type, w.row(o), w.n_in, q.data(), scale.data(), minimum.data());
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    const float s = rounded_to_half(double{scale[i / group]} * 64);
    const float m = has_minimum(w.type) ? rounded_to_half(double{minimum[i / group]} * 64) : 0;
    values[i] = rounded_to_half(double{s} * q[i] - double{m});
  }
  return values;
}

/// A product, and a bound on the error of f32 sums in any order: one rounding per partial sum, of
/// at most 2^-23 where tensor cores truncate, relative to the sum of the terms' magnitudes; two
/// more bits for the order within a tensor core and the products with units.
struct Bounded {
  double value;
  double error;
};

Bounded chunk_dot(const WeightView& w, int64_t o, const float* x) {
  const auto n = static_cast<size_t>(w.n_in);
  std::vector<float> weights(n);
  HalfRow row = {{x, x + n}, 1};
  if (takes_integer_dot(w.type)) {
    weights = half_weights(w, o);
    row = half_row(x, w.n_in);
  } else {
    quant::decode(w.type, w.row(o), weights.data(), w.n_in);
  }
  double sum = 0;
  double magnitude = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += double{weights[i]} * row.x[i];
    magnitude += std::fabs(double{weights[i]} * row.x[i]);
  }
  return {sum * row.unit, magnitude * row.unit * static_cast<double>(n) * 0x1p-23 + 1e-37};
}

bool within(const Bounded& want, double slack, float got) {
  return std::fabs(want.value - double{got}) <= want.error + slack;
}

std::vector<std::vector<float>> prefill_on(Device& device, const LinearProblem& p) {
  const OnDevice<uint32_t> codebook(device, codebook_words());
  const test::HalvesOnDevice halves(device, p.rows, p.n_in);
  const RowSet rows = {nullptr, static_cast<int32_t>(p.rows)};
  return p.on(device, [&](ConstMatrixView x, std::span<const LinearJob> jobs) {
    half_rows(device.stream(), x, rows, halves.rows());
    linear_prefill(device.stream(), x, halves.rows(), rows, codebook.data(), jobs);
  });
}

void expect_rule_9(const LinearProblem& p) {
  for (const auto& [name, device] : test::devices()) {
    const auto got = prefill_on(*device, p);
    for (int64_t r = 0; r < p.rows; ++r) {
      const float* x = p.x.data() + r * p.x_stride;
      for (size_t j = 0; j < p.jobs.size(); ++j) {
        const LinearProblem::Job& job = p.jobs[j];
        for (int64_t o = 0; o < job.n_out; ++o) {
          const auto i = static_cast<size_t>(r * (job.n_out + 3) + o);
          Bounded want = chunk_dot(p.weights(job), o, x);
          want.value *= job.scale;
          if (job.accumulate) want.value += job.y[i];
          ASSERT_TRUE(within(want, std::fabs(want.value) * 0x1p-23, got[j][i]))
              << dtype_name(job.type) << " on " << name << ", rows " << p.rows << " n_in " << p.n_in
              << " n_out " << job.n_out << " row " << r << " output " << o << ": want "
              << want.value << " +- " << want.error << " got " << got[j][i];
        }
      }
    }
  }
}

/// Each row alone has the same bits as among others.
TEST(CudaPrefill, RowsHaveTheSameBitsInAnyBatch) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const LinearProblem all(random, 40, 320, {DType::kQ5_0, DType::kF32, DType::kQ8_0}, 140);
  for (const auto& [name, device] : test::devices()) {
    const auto together = prefill_on(*device, all);
    for (const int64_t r : {int64_t{0}, int64_t{17}, int64_t{39}}) {
      LinearProblem one = all;
      one.rows = 1;
      one.x.erase(one.x.begin(), one.x.begin() + r * all.x_stride);
      for (LinearProblem::Job& job : one.jobs) {
        job.y.erase(job.y.begin(), job.y.begin() + r * (job.n_out + 3));
      }
      const auto alone = prefill_on(*device, one);
      for (size_t j = 0; j < all.jobs.size(); ++j) {
        const int64_t n = all.jobs[j].n_out;
        EXPECT_EQ(std::memcmp(alone[j].data(), together[j].data() + r * (n + 3),
                              static_cast<size_t>(n) * sizeof(float)),
                  0)
            << name << ", row " << r << ", job " << j;
      }
    }
  }
}

TEST(CudaPrefill, NonFiniteValuesAffectOnlyTheirRow) {
  Random random(fresh_seed());
  LinearProblem p(random, 3, 64, {DType::kQ8_0}, 20);
  for (LinearProblem::Job& job : p.jobs) job.accumulate = false;
  p.x[static_cast<size_t>(p.x_stride + 5)] = std::numeric_limits<float>::infinity();
  for (const auto& [name, device] : test::devices()) {
    const auto got = prefill_on(*device, p);
    const int64_t n = p.jobs[0].n_out;
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t o = 0; o < n; ++o) {
        EXPECT_EQ(std::isnan(got[0][static_cast<size_t>(r * (n + 3) + o)]), r == 1) << name;
      }
    }
  }
}

class CudaPrefill : public testing::TestWithParam<DType> {};

TEST_P(CudaPrefill, LinearFollowsRule9) {
  const DType type = GetParam();
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const int64_t unit = std::max(32, dtype_info(type).block_elements);
  expect_rule_9(LinearProblem(random, random.between(1, 40), unit, {type}, 140));
  expect_rule_9(LinearProblem(random, 3, unit * 3, {type}, 20));
}

INSTANTIATE_TEST_SUITE_P(Types, CudaPrefill, testing::ValuesIn(test_data::all_weight_types()),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST(CudaPrefill, ManyRowsTakeSeveralTilesAndManyJobsTwoLaunches) {
  Random random(fresh_seed());
  expect_rule_9(
      LinearProblem(random, 131, 256, {DType::kQ8_0, DType::kQ6_K, DType::kF32, DType::kQ4_K}, 20));
}

/// Few rows and many take different kernels.
TEST(CudaPrefill, FloatWeightsHaveTheSameBitsForFewRowsAndMany) {
  Random random(fresh_seed());
  const LinearProblem many(random, kFewFloatRows + 1, 64, {DType::kF32, DType::kBF16}, 40);
  expect_rule_9(many);
  LinearProblem few = many;
  few.rows = 3;
  for (const auto& [name, device] : test::devices()) {
    const auto of_many = prefill_on(*device, many);
    const auto of_few = prefill_on(*device, few);
    for (size_t j = 0; j < many.jobs.size(); ++j) {
      const auto pitch = static_cast<size_t>(many.jobs[j].n_out + 3);
      for (size_t r = 0; r < 3; ++r) {
        EXPECT_EQ(std::memcmp(&of_many[j][r * pitch], &of_few[j][r * pitch],
                              static_cast<size_t>(many.jobs[j].n_out) * sizeof(float)),
                  0)
            << name << ", row " << r;
      }
    }
  }
}

/// ref::moe_ffn with rule 9's products, and a bound on the error of f32.
struct MoeResult {
  std::vector<double> y;
  std::vector<double> error;
};

MoeResult moe_by_rule_9(const MoeProblem& p) {
  MoeResult result;
  const auto n = static_cast<size_t>(p.n_embd);
  const bool halves = takes_integer_dot(p.experts[0].up.type);
  const Activation f = p.options.activation;
  for (int64_t r = 0; r < p.rows; ++r) {
    const float* x = p.x.data() + r * p.n_embd;
    std::vector<double> total(n);
    std::vector<double> error(n);
    auto add = [&](const ExpertWeights& e, float weight) {
      std::vector<float> h;
      double wrong = 0;  // error of an element of h
      for (int64_t o = 0; o < e.up.n_out; ++o) {
        Bounded gate = chunk_dot(e.gated() ? e.gate : e.up, o, x);
        Bounded up = e.gated() ? chunk_dot(e.up, o, x) : Bounded{1, 0};
        if (const float* bias = e.gated() ? e.gate_bias : e.up_bias; bias != nullptr) {
          gate.value += bias[o];
          gate.error += std::fabs(gate.value) * 0x1p-23;
        }
        if (e.gated() && e.up_bias != nullptr) {
          up.value += e.up_bias[o];
          up.error += std::fabs(up.value) * 0x1p-23;
        }
        const auto g = static_cast<float>(gate.value);
        const auto u = static_cast<float>(up.value);
        h.push_back(activate(f, g, u));
        // f(gate, up) = a (up + shift); the slope of silu, of GELU and of the clamped SwiGLU's a is
        // below 1.2.
        const bool clamped = f == Activation::kClampedSwiglu;
        const double a = clamped ? activate(f, g, 0.0F) : activate(f, g);
        if (clamped) up.value += 1;
        const double slope =
            f == Activation::kReluSquared ? 2 * (std::fabs(gate.value) + gate.error) : 1.2;
        wrong =
            std::max(wrong, slope * gate.error * (std::fabs(up.value) + up.error) +
                                std::fabs(a) * up.error + std::fabs(double{h.back()}) * 0x1p-21);
      }
      // The error of h may be rounded up to a whole unit of f16.
      float amax = 0;
      for (const float v : h) amax = std::max(amax, std::fabs(v));
      if (halves) wrong += amax * 0x1p-10;
      for (size_t o = 0; o < n; ++o) {
        const auto out = static_cast<int64_t>(o);
        Bounded down = chunk_dot(e.down, out, h.data());
        if (e.down_bias != nullptr) down.value += e.down_bias[o];
        double weights = 0;
        if (halves) {
          for (const float w : half_weights(e.down, out)) weights += std::fabs(w) / 64;
        } else {
          std::vector<float> row(h.size());
          quant::decode(e.down.type, e.down.row(out), row.data(), e.down.n_in);
          for (const float w : row) weights += std::fabs(w);
        }
        total[o] += weight * down.value;
        error[o] +=
            std::fabs(weight) * (down.error + weights * wrong + std::fabs(down.value) * 0x1p-20);
      }
    };
    for (int rank = 0; rank < p.n_used; ++rank) {
      const auto k = static_cast<size_t>(r * p.n_used + rank);
      add(p.experts[static_cast<size_t>(p.ids[k])], p.weights[k]);
    }
    if (p.has_shared) {
      const auto row = static_cast<size_t>(r);
      add(p.shared, p.shared_gate.empty() ? 1.0F : sigmoid(p.shared_gate[row]));
    }
    for (size_t o = 0; o < n; ++o) {
      const double before = p.y[static_cast<size_t>(r) * n + o];
      const double scaled = total[o] * p.options.scale;
      result.y.push_back(before + scaled);
      result.error.push_back(error[o] * p.options.scale + std::fabs(before) * 0x1p-22 +
                             std::fabs(scaled) * 0x1p-23);
    }
  }
  return result;
}

std::vector<float> moe_on(Device& device, const MoeProblem& p,
                          const std::vector<int32_t>& ids = {}) {
  const OnDevice<int32_t> row_ids(device, ids);
  const test::HalvesOnDevice halves(device, p.rows, p.n_embd);
  return p.on(device, [&](const ExpertTable& table, ConstMatrixView x, const RoundedRows& rounded,
                          const Routing& routing, const float* shared_gate,
                          const uint32_t* codebook, MatrixView y) {
    const RowSet rows = ids.empty() ? RowSet{nullptr, static_cast<int32_t>(p.rows)}
                                    : RowSet{row_ids.data(), static_cast<int32_t>(ids.size())};
    const OnDevice<uint8_t> scratch(
        device, std::vector<uint8_t>(static_cast<size_t>(moe_prefill_scratch_bytes(
                                         table, rows.count, p.n_used, p.n_embd)),
                                     0xFF));
    half_rows(device.stream(), x, rows, halves.rows());
    moe_prefill(device.stream(), device.facts().multiprocessors, table, x, rounded, halves.rows(),
                rows, routing, shared_gate, p.options, codebook, scratch.data(), y);
  });
}

void expect_moe_rule_9(const MoeProblem& p) {
  const MoeResult want = moe_by_rule_9(p);
  for (const auto& [name, device] : test::devices()) {
    const std::vector<float> got = moe_on(*device, p);
    for (size_t i = 0; i < want.y.size(); ++i) {
      ASSERT_LE(std::fabs(want.y[i] - double{got[i]}), want.error[i])
          << name << ", rows " << p.rows << " at " << i << ": want " << want.y[i] << " got "
          << got[i];
    }
  }
}

ExpertTypes all_of(DType t) { return {t, t, t}; }

TEST(CudaMoePrefill, FollowsRule9ForEveryMixOfTypes) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  MoeProblem iq3(random, 5, 6, 3, all_of(DType::kIQ3_S), all_of(DType::kQ5_K));
  expect_moe_rule_9(iq3);
  iq3.unpacked = true;
  expect_moe_rule_9(iq3);
  expect_moe_rule_9(MoeProblem(random, 2, 4, 2, {DType::kQ4_K, DType::kIQ2_XXS, DType::kQ6_K},
                               {DType::kIQ2_S, DType::kQ2_K, DType::kIQ1_S}));
  // Types with scale groups of 16 and of 32, with and without codebooks, in one layer.
  expect_moe_rule_9(MoeProblem(random, 3, 4, 2, {DType::kIQ1_M, DType::kQ5_1, DType::kIQ1_S},
                               {DType::kQ8_0, DType::kIQ3_XXS, DType::kQ4_0}));
  // Layers with a float type are computed like decode rows.
  expect_moe_rule_9(MoeProblem(random, 2, 4, 2, all_of(DType::kF16), all_of(DType::kF16)));
}

TEST(CudaMoePrefill, ExpertsOfManyRowsHaveSeveralTiles) {
  Random random(fresh_seed());
  // 62 rows of 3 slots, on 2 experts and the shared one: tiles of up to 128 rows.
  expect_moe_rule_9(MoeProblem(random, 140, 2, 1, all_of(DType::kQ8_0), all_of(DType::kQ8_0)));
}

TEST(CudaMoePrefill, ComputesOnlyTheRequestedRows) {
  Random random(fresh_seed());
  const MoeProblem p(random, 5, 8, 3, all_of(DType::kQ8_0), all_of(DType::kQ8_0));
  const std::vector<int32_t> ids = {3, 0, 4};
  const auto n = static_cast<size_t>(p.n_embd);
  for (const auto& [name, device] : test::devices()) {
    const std::vector<float> all = moe_on(*device, p);
    const std::vector<float> got = moe_on(*device, p, ids);
    for (int32_t r = 0; r < 5; ++r) {
      const bool asked = std::find(ids.begin(), ids.end(), r) != ids.end();
      const auto begin = static_cast<size_t>(r) * n;
      EXPECT_EQ(std::memcmp(got.data() + begin, (asked ? all : p.y).data() + begin, 4 * n), 0)
          << name << ", row " << r;
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
