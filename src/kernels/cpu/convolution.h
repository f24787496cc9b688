// Ops::causal_conv and the convolution of Ops::gdn_conv on the CPU, parallel over groups of
// channels and sequences.
#ifndef CHIMERE_KERNELS_CPU_CONVOLUTION_H_
#define CHIMERE_KERNELS_CPU_CONVOLUTION_H_

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/vector_kernels.h"

namespace chimere::kernels::cpu {

struct Convolution {
  ConvShape shape;
  const float* weight = nullptr;  ///< [channels, taps]
  const float* bias = nullptr;    ///< [channels]; nullptr: none
  int unit = 64;                  ///< channels that are computed together, a multiple of 16
  int64_t n_normalised = 0;       ///< the first units' results are L2-normalised, each for itself
  float eps = 0;                  ///< of that
};

/// x [rows, channels] in place.
void convolve(ThreadPool& pool, const VectorKernels& kernels, const BatchView& batch,
              const Convolution& c, RecurrentView state, MatrixView x);

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_CONVOLUTION_H_
