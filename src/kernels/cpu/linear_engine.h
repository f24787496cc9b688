// What LinearEngine's operations share.
#ifndef CHIMERE_KERNELS_CPU_LINEAR_ENGINE_H_
#define CHIMERE_KERNELS_CPU_LINEAR_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/low_rank.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/rounded_matrix.h"

namespace chimere::kernels::cpu {

/// A set of activation rows in every form that a weight type may need.
struct ActivationRows {
  int64_t n = 0;
  const float* const* x = nullptr;      ///< [n]
  const RoundedRow* rounded = nullptr;  ///< [n]; nullptr if no weight takes the integer dot product
};

/// Weight rows [begin, end) of one matrix: the unit of work of a thread.
struct OutputTile {
  int32_t owner = 0;  ///< the job or expert group it belongs to
  int64_t begin = 0;
  int64_t end = 0;
};

/// Where a weight row (of unpacked weights the first of eight) lies.
const uint8_t* weight_row(const WeightView& w, int64_t row);

struct LinearEngine::Impl {
  struct Worker {
    Buffer<uint8_t> scratch;
    Buffer<float> out;
    std::vector<float*> y;
    LowRankScratch low_rank;
  };

  /// Rows of one expert: entries [begin, begin + count) of the arrays sorted by expert.
  struct Group {
    const ExpertWeights* weights = nullptr;
    int64_t begin = 0;
    int64_t count = 0;
  };

  Impl(ThreadPool& p, CpuIsa isa);

  void linear(ConstMatrixView x, std::span<const LinearJob> jobs);
  void moe_ffn(ConstMatrixView x, std::span<const ExpertWeights> experts, const Routing& routing,
               const ExpertWeights* shared, const float* shared_gate, const MoeOptions& options,
               MatrixView y, MatrixAdapters adapters);

  /// Adds the activation order that the type's kernel reads.
  void add_order(DType t, ActivationOrders& orders) const {
    if (t == DType::kIQ3_S_UNPACKED) return;
    const ActivationOrder order = kernels.order[kernel_index(t)];
    orders.by_fours = orders.by_fours || order == ActivationOrder::kByFours;
    orders.by_eights = orders.by_eights || order == ActivationOrder::kByEights;
  }

  /// y[r][o - begin] = (or +=) row o of w · x[r] for o in [begin, end). `next_w`: the weights that
  /// the thread probably multiplies next, or nullptr.
  void product(const WeightView& w, int64_t begin, int64_t end, const ActivationRows& x,
               float* const* y, bool accumulate, Worker& worker,
               const uint8_t* next_w = nullptr) const;
  void float_product(const WeightView& w, int64_t begin, int64_t end, const ActivationRows& x,
                     float* const* y, bool accumulate) const;

  /// The tile of a job with a scale. worker.y has an entry for each row.
  void scaled_product(const LinearJob& job, const OutputTile& tile, const ActivationRows& x,
                      Worker& worker, const uint8_t* next_w) const;

  /// Rounds every row of x into `rounded`, which the caller has resized.
  void round_rows(ConstMatrixView x);

  /// Sorts (row, rank) pairs by expert into `groups`, `order` and `place`.
  void group_by_expert(ConstMatrixView x, std::span<const ExpertWeights> experts,
                       const Routing& routing, const ExpertWeights* shared, bool is_rounded);
  /// Finds the entries whose experts adapters change, and computes their inner products with x.
  void prepare_adapters(ConstMatrixView x, const Routing& routing, MatrixAdapters adapters);
  /// y[i] += what the adapters of entry first + i change, for outputs [begin, end) of one matrix.
  void add_adapters(WeightView ExpertWeights::*matrix, const Group& group, int64_t begin,
                    int64_t end, float* const* y, Worker& worker) const;
  void gate_up(const OutputTile& tile, const uint8_t* next_w, Activation activation,
               Worker& worker);
  void down(int64_t begin, int64_t end, const Routing& routing, bool has_shared, float scale,
            MatrixView y, Worker& worker);

  ThreadPool& pool;
  const MatmulKernels& kernels;
  std::vector<Worker> workers;
  std::vector<OutputTile> tiles;

  RoundedMatrix rounded;
  std::vector<const float*> x_rows;

  // moe_ffn. An entry is a pair of row and rank, or a row of the shared expert.
  std::vector<Group> groups;
  std::vector<int64_t> expert_begin;      ///< [n_experts + 1] scratch of the sort
  std::vector<int64_t> place;             ///< [rows * n_used (+ rows)] entry of row and rank
  std::vector<const float*> entry_x;      ///< [entries]
  std::vector<RoundedRow> entry_rounded;  ///< [entries]
  std::unique_ptr<std::atomic<int64_t>[]> tiles_left;  ///< [groups] until h is complete
  size_t tiles_left_size = 0;
  Buffer<float> h;  ///< [entries, n_ff]
  int64_t h_stride = 0;
  std::vector<const float*> h_rows;
  RoundedMatrix h_rounded;
  std::vector<float> shared_weights;  ///< [rows] sigmoid of the shared gate, or 1

  LowRankProducts low_rank;
  /// An entry's adapters: where its inner products with each matrix lie in inner_products.
  struct EntryAdapters {
    std::span<const AdapterUse> uses;
    int64_t gate = 0;
    int64_t up = 0;
    int64_t down = 0;
  };
  const StepAdapters* step_adapters = nullptr;
  std::vector<EntryAdapters> entry_adapters;  ///< [entries]; empty: no adapter changes an expert
  Buffer<float> inner_products;
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_LINEAR_ENGINE_H_
