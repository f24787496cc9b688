#include "kernels/ref/moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <span>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear_test_data.h"
#include "kernels/cpu/unpacked_experts.h"

namespace chimere::kernels {
namespace {

using test_data::Random;

struct Moe {
  int64_t rows = 0;
  int64_t n_embd = 0;
  int n_used = 0;
  bool has_shared = false;
  std::vector<float> x;
  std::vector<float> y;  ///< the residual stream before the op
  std::vector<std::vector<uint8_t>> bytes;
  std::deque<std::vector<float>> biases;
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
  std::vector<float> shared_gate;  ///< empty: none
  MoeOptions options;
  std::vector<int32_t> ids;
  std::vector<float> weights;

  ExpertWeights make_expert(Random& random, int64_t n_ff, DType in, DType out, bool gated) {
    auto weight = [&](DType t, int64_t n_out, int64_t n_in) {
      bytes.push_back(random.weights(t, n_out, n_in));
      return WeightView{t, n_out, n_in, bytes.back().data()};
    };
    return {gated ? weight(in, n_ff, n_embd) : WeightView(), weight(in, n_ff, n_embd),
            weight(out, n_embd, n_ff)};
  }

  /// y after `f` has run moe_ffn.
  template <class F>
  std::vector<float> run(F f) {
    std::vector<float> result = y;
    const Routing routing{n_used, ids.data(), weights.data()};
    f(ConstMatrixView(x.data(), rows, n_embd, n_embd), experts, routing,
      has_shared ? &shared : nullptr, shared_gate.empty() ? nullptr : shared_gate.data(), options,
      MatrixView{result.data(), rows, n_embd, n_embd});
    return result;
  }
};

constexpr auto kReference = [](auto... arguments) { ref::moe_ffn(arguments...); };

Moe make_moe(Random& random, int64_t rows, int n_experts, int n_used, DType in, DType out) {
  Moe m;
  m.rows = rows;
  m.n_embd = 256 * random.between(1, 2);
  m.n_used = n_used;
  m.has_shared = random.between(0, 3) != 0;
  m.x = random.activations(rows, m.n_embd);
  m.y = random.activations(rows, m.n_embd);
  const int64_t unit = std::max(32, dtype_info(out).block_elements);
  const int64_t n_ff = unit * random.between(1, 3);
  const bool gated = random.between(0, 2) > 0;
  for (int e = 0; e < n_experts; ++e) {
    m.experts.push_back(m.make_expert(random, n_ff, in, out, gated));
  }
  if (random.between(0, 1) == 0) {
    for (ExpertWeights& e : m.experts) {
      if (gated) e.gate_bias = m.biases.emplace_back(random.activations(1, n_ff)).data();
      e.up_bias = m.biases.emplace_back(random.activations(1, n_ff)).data();
      e.down_bias = m.biases.emplace_back(random.activations(1, m.n_embd)).data();
    }
  }
  const int64_t shared_unit = std::max(32, dtype_info(in).block_elements);
  m.shared =
      m.make_expert(random, shared_unit * random.between(1, 4), out, in, random.between(0, 2) > 0);
  const bool gates_shared = random.between(0, 2) > 0;
  const bool all_gated = gated && (!m.has_shared || m.shared.gated());
  m.options.activation =
      static_cast<Activation>(random.between(0, all_gated ? kActivations - 1 : kActivations - 2));
  if (random.between(0, 1) == 0) m.options.scale = 0.22F;
  for (int64_t r = 0; r < rows; ++r) {
    if (gates_shared) m.shared_gate.push_back(random.normal());
    std::vector<int32_t> all(static_cast<size_t>(n_experts));
    std::iota(all.begin(), all.end(), 0);
    for (int k = 0; k < n_used; ++k) {
      std::swap(all[static_cast<size_t>(k)],
                all[static_cast<size_t>(random.between(k, n_experts - 1))]);
      m.ids.push_back(all[static_cast<size_t>(k)]);
      m.weights.push_back(0.1F + 0.01F * random.normal());
    }
  }
  return m;
}

/// Skips experts in some rows: from a random rank on.
void skip_experts(Random& random, Moe& m) {
  for (int64_t r = 0; r < m.rows; ++r) {
    for (auto k = random.between(1, 2 * m.n_used); k < m.n_used; ++k) {
      m.ids[static_cast<size_t>(r * m.n_used + k)] = -1;
    }
  }
}

class MoeOfTypes : public testing::TestWithParam<std::pair<DType, DType>> {};

TEST_P(MoeOfTypes, EveryIsaAndThreadCountGivesTheOraclesBits) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (const int64_t rows :
       {int64_t{1}, int64_t{3}, random.between(1, 4), random.between(15, 24)}) {
    const auto n_experts = static_cast<int>(random.between(2, 9));
    const auto n_used = static_cast<int>(random.between(1, std::min(n_experts, 4)));
    Moe m = make_moe(random, rows, n_experts, n_used, GetParam().first, GetParam().second);
    skip_experts(random, m);
    const std::vector<float> want = m.run(kReference);
    for (const CpuIsa isa : usable_cpu_isas()) {
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        cpu::LinearEngine engine(pool, isa);
        // Twice: scratch memory left by one call must not affect the next.
        for (int again = 0; again < 2; ++again) {
          const std::vector<float> got =
              m.run([&](auto&&... a) { engine.moe_ffn(std::forward<decltype(a)>(a)...); });
          for (size_t i = 0; i < want.size(); ++i) {
            ASSERT_EQ(std::memcmp(&want[i], &got[i], 4), 0)
                << cpu_isa_name(isa) << " threads " << threads << " rows " << rows << " at " << i
                << ": want " << want[i] << " got " << got[i];
          }
        }
      }
    }
  }
}

TEST(Moe, UnpackedExpertsGiveTheOraclesBits) {
  const auto copy = [](const uint8_t* from, std::span<uint8_t> to) -> Status {
    std::copy_n(from, to.size(), to.data());
    return {};
  };
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (const DType down : {DType::kIQ3_S, DType::kQ4_K}) {
    for (const int64_t rows : {1, 2, 3, 4, 5, 8, 30}) {
      const auto n_experts = static_cast<int>(random.between(2, 6));
      Moe m = make_moe(random, rows, n_experts, 2, DType::kIQ3_S, down);
      const std::vector<float> want = m.run(kReference);
      for (const CpuIsa isa : usable_cpu_isas()) {
        ThreadPool pool(2);
        cpu::LinearEngine engine(pool, isa);
        if (!gains_from_unpacking(isa)) continue;
        int64_t bytes = 0;
        const Unpacking unpacking{.read = copy, .done = [&](int64_t n) { bytes += n; }};
        const auto placed = cpu::UnpackedExperts::create(pool, m.experts, m.shared, unpacking);
        ASSERT_TRUE(placed.ok());
        EXPECT_GT(bytes, 0);
        Moe unpacked = m;
        unpacked.experts = (*placed)->routed;
        unpacked.shared = *(*placed)->shared;
        for (const ExpertWeights& e : unpacked.experts) {
          EXPECT_EQ(e.up.type, DType::kIQ3_S_UNPACKED);
          EXPECT_EQ(e.down.type, down == DType::kIQ3_S ? DType::kIQ3_S_UNPACKED : down);
        }
        const std::vector<float> got =
            unpacked.run([&](auto&&... a) { engine.moe_ffn(std::forward<decltype(a)>(a)...); });
        ASSERT_EQ(std::memcmp(want.data(), got.data(), 4 * want.size()), 0)
            << cpu_isa_name(isa) << " rows " << rows;
      }
    }
  }
}

TEST(Moe, ExpertsThatCannotBeReadAreAnError) {
  Random random(1);
  const Moe m = make_moe(random, 1, 3, 2, DType::kIQ3_S, DType::kIQ3_S);
  ThreadPool pool(2);
  const Unpacking unpacking{
      .read = [&](const uint8_t* from, std::span<uint8_t>) -> Status {
        if (from == m.experts[1].up.data) return io_error("the disk failed");
        return {};
      },
      .done = [](int64_t) { ADD_FAILURE() << "a layer without all of its experts"; }};
  const auto placed = cpu::UnpackedExperts::create(pool, m.experts, m.shared, unpacking);
  ASSERT_FALSE(placed.ok());
  EXPECT_EQ(placed.error().code, Error::Code::kIo);
}

INSTANTIATE_TEST_SUITE_P(
    Types, MoeOfTypes,
    testing::Values(std::pair{DType::kF32, DType::kF32}, std::pair{DType::kF16, DType::kQ8_0},
                    std::pair{DType::kQ8_0, DType::kF32}, std::pair{DType::kQ4_K, DType::kQ6_K},
                    std::pair{DType::kIQ3_S, DType::kIQ3_S}, std::pair{DType::kIQ3_S, DType::kQ5_K},
                    std::pair{DType::kQ5_K, DType::kIQ4_NL}, std::pair{DType::kQ2_K, DType::kQ3_K}),
    [](const auto& p) {
      return std::string(dtype_name(p.param.first)) + "_" + std::string(dtype_name(p.param.second));
    });

TEST(Moe, OneEngineServesManySizes) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  ThreadPool pool(2);
  cpu::LinearEngine engine(pool, best_cpu_isa());
  for (int round = 0; round < 12; ++round) {
    const DType in = round % 2 == 0 ? DType::kIQ3_S : DType::kF32;
    const DType out = round % 3 == 0 ? DType::kQ4_K : DType::kIQ3_S;
    Moe m = make_moe(random, random.between(1, 30), 6, 2, in, out);
    const std::vector<float> want = m.run(kReference);
    const std::vector<float> got =
        m.run([&](auto&&... a) { engine.moe_ffn(std::forward<decltype(a)>(a)...); });
    ASSERT_EQ(std::memcmp(want.data(), got.data(), 4 * want.size()), 0) << "round " << round;
  }
}

TEST(Moe, SkippedExpertsCountAsWeightZero) {
  Random random(fresh_seed());
  Moe m = make_moe(random, 5, 6, 3, DType::kQ8_0, DType::kQ4_0);
  Moe weightless = m;
  for (const size_t k : {2, 4, 5, 14}) {
    m.ids[k] = -1;
    weightless.weights[k] = 0;
  }
  const std::vector<float> got = m.run(kReference);
  const std::vector<float> want = weightless.run(kReference);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]) << i;
}

TEST(Moe, ARowsResultDoesNotDependOnItsBatch) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  Moe m = make_moe(random, 33, 8, 3, DType::kIQ3_S, DType::kQ6_K);
  ThreadPool pool(2);
  cpu::LinearEngine engine(pool, best_cpu_isa());
  const auto run = [&](Moe& moe) {
    return moe.run([&](auto&&... a) { engine.moe_ffn(std::forward<decltype(a)>(a)...); });
  };
  const std::vector<float> all = run(m);
  const auto n = static_cast<size_t>(m.n_embd);
  for (size_t r = 0; r < 33; ++r) {
    Moe one = m;
    one.rows = 1;
    one.x.assign(m.x.begin() + static_cast<int64_t>(r * n),
                 m.x.begin() + static_cast<int64_t>((r + 1) * n));
    one.y.assign(m.y.begin() + static_cast<int64_t>(r * n),
                 m.y.begin() + static_cast<int64_t>((r + 1) * n));
    if (!m.shared_gate.empty()) one.shared_gate = {m.shared_gate[r]};
    one.ids.assign(m.ids.begin() + static_cast<int64_t>(3 * r),
                   m.ids.begin() + static_cast<int64_t>(3 * r + 3));
    one.weights.assign(m.weights.begin() + static_cast<int64_t>(3 * r),
                       m.weights.begin() + static_cast<int64_t>(3 * r + 3));
    const std::vector<float> alone = run(one);
    ASSERT_EQ(std::memcmp(alone.data(), all.data() + r * n, 4 * n), 0) << "row " << r;
  }
}

}  // namespace
}  // namespace chimere::kernels
