#include "kernels/low_rank.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/isa.h"
#include "kernels/low_rank_test_data.h"

namespace chimere::kernels {
namespace {

using test_data::LowRankMemory;
using test_data::LowRankTarget;
using test_data::Random;
using test_data::RandomUses;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Runs `compute` with the oracle, then with every instruction set and 1 and 3 threads, with
/// adapters placed; expects equal bits and returns them.
template <class Compute>
std::vector<float> on_every_isa(const std::vector<LowRankAdapter>& adapters,
                                const Compute& compute) {
  const auto run = [&](Ops& ops) {
    for (const LowRankAdapter& adapter : adapters) EXPECT_TRUE(ops.place_adapter(adapter).ok());
    return compute(ops);
  };
  const std::vector<float> expected = run(*make_ref_ops());
  for (const CpuIsa isa : usable_cpu_isas()) {
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      EXPECT_TRUE(same_bits(run(*make_cpu_ops(pool, isa)), expected))
          << cpu_isa_name(isa) << ", " << threads << " threads";
    }
  }
  return expected;
}

/// Two matrices of which one begins in the middle of its target, multiplied with the same rows.
struct Products {
  explicit Products(Random& random) : rows(random.between(1, 70)), n_in(32 * random.between(1, 9)) {
    targets = {{random.between(5, 300), n_in}, {random.between(40, 90), n_in}};
    for (size_t t = 0; t < targets.size(); ++t) {
      weights.push_back(random.weights(types[t], targets[t].n_out, n_in));
    }
    x = random.activations(rows, n_in);
    stream = random.activations(rows, targets[0].n_out);
  }

  /// y of both jobs, one after the other, for the given rows of x.
  std::vector<float> run(Ops& ops, const RowAdapters& adapters,
                         const std::vector<int32_t>& wanted) const {
    const bool all = wanted.empty();
    const auto n = all ? rows : static_cast<int64_t>(wanted.size());
    std::vector<float> in;
    std::vector<float> y;
    for (int64_t r = 0; r < n; ++r) {
      const int64_t row = all ? r : wanted[static_cast<size_t>(r)];
      in.insert(in.end(), x.begin() + row * n_in, x.begin() + (row + 1) * n_in);
      y.insert(y.end(), stream.begin() + row * targets[0].n_out,
               stream.begin() + (row + 1) * targets[0].n_out);
    }
    const WeightView first = {types[0], targets[0].n_out, n_in, weights[0].data(), 0};
    const WeightView second =
        WeightView{types[1], targets[1].n_out, n_in, weights[1].data(), 1}.rows_from(7, 30);
    const auto out = static_cast<size_t>(n * targets[0].n_out);
    y.resize(out + static_cast<size_t>(n * 30));
    const LinearJob jobs[] = {
        {first, {y.data(), n, targets[0].n_out, targets[0].n_out}, /*accumulate=*/true, 0.5F},
        {second, {y.data() + out, n, 30, 30}}};
    StepInputs step;
    step.adapters = adapters;
    step.wanted_rows = wanted;
    const Operand operand = {ConstMatrixView(in.data(), n, n_in, n_in),
                             all ? StepRows::kAll : StepRows::kWanted};
    EXPECT_TRUE(ops.run_step(step, {}, [&] { ops.linear(operand, jobs); }).ok());
    return y;
  }

  static constexpr DType types[] = {DType::kQ8_0, DType::kF16};
  int64_t rows;
  int64_t n_in;
  std::vector<LowRankTarget> targets;
  std::vector<std::vector<uint8_t>> weights;
  std::vector<float> x;
  std::vector<float> stream;
};

TEST(LowRank, LinearHasTheOraclesBits) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 6; ++round) {
    const Products products(random);
    LowRankMemory memory;
    std::vector<LowRankAdapter> adapters;
    for (int a = 0; a < 4; ++a) {
      adapters.push_back(random_adapter(random, products.targets, memory));
    }
    const RandomUses uses(random, products.rows, 4);
    const std::vector<float> all =
        on_every_isa(adapters, [&](Ops& ops) { return products.run(ops, uses.view(), {}); });
    std::vector<int32_t> wanted;
    for (int32_t r = 0; r < products.rows; ++r) {
      if (random.between(0, 2) > 0) wanted.push_back(r);
    }
    if (wanted.empty()) wanted.push_back(0);
    const std::vector<float> some =
        on_every_isa(adapters, [&](Ops& ops) { return products.run(ops, uses.view(), wanted); });
    // A row's bits depend on its own adapters only, and without adapters they are the plain ones.
    const std::vector<float> plain = products.run(*make_ref_ops(), {}, {});
    const auto n_out = products.targets[0].n_out;
    const auto row_of = [&](const std::vector<float>& y, int64_t r) {
      return std::vector<float>(y.begin() + r * n_out, y.begin() + (r + 1) * n_out);
    };
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(same_bits(row_of(some, static_cast<int64_t>(i)), row_of(all, wanted[i])));
    }
    for (int64_t r = 0; r < products.rows; ++r) {
      if (uses.view().of(r).empty()) {
        EXPECT_TRUE(same_bits(row_of(all, r), row_of(plain, r))) << "row " << r;
      }
    }
  }
}

TEST(LowRank, ExpertsHaveTheOraclesBits) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  constexpr int64_t kEmbd = 64;
  constexpr int64_t kExperts = 5;
  constexpr int kUsed = 2;
  for (int round = 0; round < 6; ++round) {
    const int64_t n_ff = 32 * random.between(1, 3);
    const DType type = round % 2 == 0 ? DType::kQ8_0 : DType::kF32;
    std::deque<std::vector<uint8_t>> bytes;
    int32_t next = 0;
    const auto weight = [&](int64_t n_out, int64_t n_in) {
      bytes.push_back(random.weights(type, n_out, n_in));
      return WeightView{type, n_out, n_in, bytes.back().data(), next++};
    };
    const WeightView gate = weight(kExperts * n_ff, kEmbd);
    const WeightView up = weight(kExperts * n_ff, kEmbd);
    const WeightView down = weight(kExperts * kEmbd, n_ff);
    const ExpertWeights shared = {weight(n_ff, kEmbd), weight(n_ff, kEmbd), weight(kEmbd, n_ff)};
    std::vector<LowRankTarget> targets = {{n_ff, kEmbd, kExperts}, {n_ff, kEmbd, kExperts},
                                          {kEmbd, n_ff, kExperts}, {n_ff, kEmbd},
                                          {n_ff, kEmbd},           {kEmbd, n_ff}};
    std::vector<ExpertWeights> experts;
    for (int64_t e = 0; e < kExperts; ++e) {
      experts.push_back({gate.rows_from(e * n_ff, n_ff), up.rows_from(e * n_ff, n_ff),
                         down.rows_from(e * kEmbd, kEmbd)});
    }
    LowRankMemory memory;
    std::vector<LowRankAdapter> adapters;
    for (int a = 0; a < 3; ++a) adapters.push_back(random_adapter(random, targets, memory));
    const int64_t rows = random.between(1, 20);
    const RandomUses uses(random, rows, 3);
    const std::vector<float> x = random.activations(rows, kEmbd);
    std::vector<int32_t> ids;
    std::vector<float> weights;
    for (int64_t r = 0; r < rows; ++r) {
      const auto first = static_cast<int32_t>(random.between(0, kExperts - 1));
      ids.insert(ids.end(), {first, (first + 1) % static_cast<int32_t>(kExperts)});
      weights.insert(weights.end(), {0.75F, 0.25F});
    }
    on_every_isa(adapters, [&](Ops& ops) {
      std::vector<float> y(x.size(), 0.5F);
      auto placed = ops.place_experts(experts, shared, ExpertPlacement::kDevice);
      StepInputs step;
      step.adapters = uses.view();
      const Operand operand = ConstMatrixView(x.data(), rows, kEmbd, kEmbd);
      EXPECT_TRUE(ops.run_step(step, {},
                               [&] {
                                 ops.moe_ffn(operand, **placed, {kUsed, ids.data(), weights.data()},
                                             nullptr, {}, {y.data(), rows, kEmbd, kEmbd});
                               })
                      .ok());
      return y;
    });
  }
}

TEST(LowRank, NumbersOfDroppedAdaptersAreReused) {
  const auto ops = make_ref_ops();
  for (int32_t i = 0; i < kMaxAdapters; ++i) EXPECT_EQ(*ops->place_adapter({}), i);
  EXPECT_EQ(ops->place_adapter({}).error().code, Error::Code::kInvalidArgument);
  ops->drop_adapter(5);
  EXPECT_EQ(*ops->place_adapter({}), 5);
}

}  // namespace
}  // namespace chimere::kernels
