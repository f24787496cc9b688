// Products of prefill rows on a GPU, on tensor cores: Ops::linear with the sums of
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

/// Every job's product with the rows of x that `rows` names. All pointers are the device's; weights
/// are packed (pack_weights.h); `codebook` is codebook_words() in device memory. `halves` is x
/// rounded to f16, the same rows (half_rows.h); not read if all jobs have float weights.
void linear_prefill(Stream& stream, ConstMatrixView x, const HalfRows& halves, const RowSet& rows,
                    const uint32_t* codebook, std::span<const LinearJob> jobs);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_PREFILL_H_
