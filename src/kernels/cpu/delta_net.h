// Ops::gdn_conv and Ops::gdn_scan on the CPU, parallel over heads and sequences.
#ifndef CHIMERE_KERNELS_CPU_DELTA_NET_H_
#define CHIMERE_KERNELS_CPU_DELTA_NET_H_

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/cpu/worker_scratch.h"

namespace chimere::kernels::cpu {

class DeltaNet {
 public:
  DeltaNet(ThreadPool& pool, const VectorKernels& kernels)
      : pool_(pool), kernels_(kernels), scratch_(pool.size()) {}

  /// See Ops::gdn_conv.
  void conv(const BatchView& batch, const GdnShape& shape, const float* weight, float eps,
            RecurrentView state, MatrixView qkv);
  /// See Ops::gdn_scan.
  void scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
            ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
            RecurrentView state, MatrixView out);

 private:
  ThreadPool& pool_;
  const VectorKernels& kernels_;
  WorkerScratch scratch_;
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_DELTA_NET_H_
