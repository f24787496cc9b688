// Ops::attend_sequences on the CPU, parallel over sequences, heads and tiles of queries.
#ifndef CHIMERE_KERNELS_CPU_SEQUENCE_ATTENTION_H_
#define CHIMERE_KERNELS_CPU_SEQUENCE_ATTENTION_H_

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/cpu/worker_scratch.h"
#include "kernels/rope.h"

namespace chimere::kernels::cpu {

class SequenceAttention {
 public:
  SequenceAttention(ThreadPool& pool, const VectorKernels& kernels)
      : pool_(pool), kernels_(kernels), scratch_(pool.size()) {}

  /// See Ops::attend_sequences.
  void attend(const BatchView& batch, const SequenceAttentionShape& shape, MatrixView q,
              MatrixView k, ConstMatrixView v, MatrixView out);

 private:
  void rotate(const AttentionShape& shape, int heads, MatrixView x);

  ThreadPool& pool_;
  const VectorKernels& kernels_;
  RopeTable rope_;
  WorkerScratch scratch_;
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_SEQUENCE_ATTENTION_H_
