// Products of chunk rows on a card, on tensor cores: Ops::linear with the sums of docs/numerics.md,
// rule 9.
#ifndef CHIMERE_KERNELS_CUDA_LINEAR_CHUNK_H_
#define CHIMERE_KERNELS_CUDA_LINEAR_CHUNK_H_

#include <cstdint>
#include <span>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/linear_step.h"

namespace chimere::kernels::cuda {

/// Rows of activations of a tile: 32 or 128. Results do not depend on it.
int plan_linear_chunk(int rows);

/// As linear_step(). Jobs with float weights are computed by linear_step() and have its bits.
void linear_chunk(Stream& stream, int multiprocessors, ConstMatrixView x,
                  const RoundedRows& rounded, const RowSet& rows, const uint32_t* codebook,
                  std::span<const LinearJob> jobs);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_CHUNK_H_
