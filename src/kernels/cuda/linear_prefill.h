// Matrix products of prefill rows on tensor cores: Ops::linear with the order of summation of
// docs/numerics.md, rule 9.
#ifndef CHIMERE_KERNELS_CUDA_LINEAR_PREFILL_H_
#define CHIMERE_KERNELS_CUDA_LINEAR_PREFILL_H_

#include <cstdint>
#include <span>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/half_rows_args.h"
#include "kernels/cuda/linear_decode.h"

namespace chimere::kernels::cuda {

/// Each job's product with the rows of x that `rows` names. All pointers are the device's. Weights
/// are packed (pack_weights.h). `codebook`: codebook_words() in device memory. `halves`: the same
/// rows of x as f16 (half_rows.h); not read if all jobs have float weights.
void linear_prefill(Stream& stream, ConstMatrixView x, const HalfRows& halves, const RowSet& rows,
                    const uint32_t* codebook, std::span<const LinearJob> jobs);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_PREFILL_H_
