// Ops::ssd_scan and Ops::selective_scan on the CPU, parallel over heads or channels and sequences.
#ifndef CHIMERE_KERNELS_CPU_STATE_SPACE_H_
#define CHIMERE_KERNELS_CPU_STATE_SPACE_H_

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/cpu/worker_scratch.h"

namespace chimere::kernels::cpu {

class StateSpace {
 public:
  StateSpace(ThreadPool& pool, const VectorKernels& kernels)
      : pool_(pool), kernels_(kernels), scratch_(pool.size()) {}

  /// See Ops::ssd_scan.
  void ssd_scan(const BatchView& batch, const SsdShape& shape, const SsdWeights& weights,
                ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state, MatrixView out);
  /// See Ops::selective_scan.
  void selective_scan(const BatchView& batch, const SelectiveShape& shape,
                      const SelectiveWeights& weights, const SelectiveInputs& in,
                      RecurrentView state, MatrixView out);

 private:
  /// Computes `products_` and `chunk_of_slice_`.
  void multiply_groups(const BatchView& batch, const SsdShape& shape, ConstMatrixView xbc);

  ThreadPool& pool_;
  const VectorKernels& kernels_;
  WorkerScratch scratch_;
  AlignedFloats products_;               ///< of ssd_scan: [chunks, n_groups] SsdProducts
  std::vector<int32_t> chunk_of_slice_;  ///< counts the chunks before a slice
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_STATE_SPACE_H_
