// Adapters on the CPU: y += factor · B (A x) for the rows of a step that have adapters
// (docs/numerics.md, "Adapters"). Rows with the same adapters are multiplied together, wherever
// they are in the step: kernels take rows by pointers.
#ifndef CHIMERE_KERNELS_CPU_LOW_RANK_H_
#define CHIMERE_KERNELS_CPU_LOW_RANK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/rounded_matrix.h"

namespace chimere::kernels::cpu {

/// The change of one matrix for rows with the same adapters.
struct LowRankChange {
  const StepAdapters& adapters;
  std::span<const AdapterUse> uses;
  const WeightView& w;

  /// Sum of the ranks; 0: nothing changes.
  int64_t inner() const;
};

/// Memory of one thread.
struct LowRankScratch {
  std::vector<const float*> x;      ///< rows of a product's input
  std::vector<float*> y;            ///< rows of its output
  std::vector<const float*> inner;  ///< the rows in between, to read
  std::vector<float*> out;          ///< and to write
};

/// inner [n, change.inner()] = A x of every use, side by side. x: [n] rows of n_in.
void low_rank_inner(const MatmulKernels& kernels, const LowRankChange& change,
                    const float* const* x, int64_t n, float* inner, LowRankScratch& scratch);
/// y[r][o - begin] += factor · B inner[r] for the outputs [begin, end). y: [n] rows.
void low_rank_outputs(const MatmulKernels& kernels, const LowRankChange& change, float factor,
                      const float* inner, int64_t n, int64_t begin, int64_t end, float* const* y,
                      LowRankScratch& scratch);

/// The adapters of Ops::linear.
class LowRankProducts {
 public:
  LowRankProducts(ThreadPool& pool, const MatmulKernels& kernels)
      : pool_(pool), kernels_(kernels), scratch_(static_cast<size_t>(pool.size())) {}

  /// Call it when the jobs' products are in place. `wanted`: x has the wanted rows of the step.
  void add(ConstMatrixView x, std::span<const LinearJob> jobs, const StepAdapters& adapters,
           bool wanted);

 private:
  /// Rows of one segment and one job.
  struct Unit {
    const LinearJob* job = nullptr;
    const StepAdapters::Segment* segment = nullptr;
    size_t first = 0;  ///< in segment->rows
    int64_t count = 0;
    int64_t width = 0;     ///< LowRankChange::inner()
    int64_t inner_at = 0;  ///< in inner_

    int64_t row(int64_t r) const { return segment->rows[first + static_cast<size_t>(r)]; }
  };
  struct LowRankTile {
    size_t unit = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };

  ThreadPool& pool_;
  const MatmulKernels& kernels_;
  std::vector<LowRankScratch> scratch_;  ///< by worker
  std::vector<Unit> units_;
  std::vector<LowRankTile> tiles_;
  Buffer<float> inner_;
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_LOW_RANK_H_
