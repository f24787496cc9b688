// Random adapters, and rows that use them, for tests.
#ifndef CHIMERE_KERNELS_LOW_RANK_TEST_DATA_H_
#define CHIMERE_KERNELS_LOW_RANK_TEST_DATA_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "kernels/cpu/linear_test_data.h"
#include "kernels/low_rank.h"

namespace chimere::kernels::test_data {

/// A matrix that adapters change.
struct LowRankTarget {
  int64_t n_out = 0;
  int64_t n_in = 0;
  int64_t parts = 1;
};

/// Memory of an adapter's matrices.
using LowRankMemory = std::deque<std::vector<uint8_t>>;

/// An adapter that changes most of the targets, with matrices of random types and ranks.
inline LowRankAdapter random_adapter(Random& random, const std::vector<LowRankTarget>& targets,
                                     LowRankMemory& memory) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
  LowRankAdapter adapter;
  for (const LowRankTarget& t : targets) {
    LowRankPair& pair = adapter.targets.emplace_back();
    if (random.between(0, 4) == 0) continue;
    const int64_t rank = random.between(1, 40);
    const auto matrix = [&](int64_t n_out, int64_t n_in) {
      const DType type = kTypes[random.between(0, 2)];
      memory.push_back(random.weights(type, n_out, n_in));
      return WeightView{type, n_out, n_in, memory.back().data()};
    };
    pair.a = matrix(t.parts * rank, t.n_in);
    pair.b = matrix(rank, t.parts * t.n_out);
    pair.part_rows = t.n_out;
    pair.scale = 2.0F / static_cast<float>(rank);
  }
  return adapter;
}

/// What the rows of a step use: up to three adapters each, many of them none.
struct RandomUses {
  std::vector<int32_t> begin = {0};
  std::vector<AdapterUse> uses;

  RandomUses(Random& random, int64_t rows, int32_t adapters) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = random.between(-1, 3); k > 0; --k) {
        uses.push_back({static_cast<int32_t>(random.between(0, adapters - 1)),
                        0.25F * static_cast<float>(random.between(1, 6))});
      }
      begin.push_back(static_cast<int32_t>(uses.size()));
    }
  }
  RowAdapters view() const { return {begin, uses}; }
};

}  // namespace chimere::kernels::test_data

#endif  // CHIMERE_KERNELS_LOW_RANK_TEST_DATA_H_
