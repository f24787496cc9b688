// Experts of prefill rows on tensor cores: Ops::moe_ffn with the order of summation of
// docs/numerics.md, rule 9.
#ifndef CHIMERE_KERNELS_CUDA_MOE_PREFILL_H_
#define CHIMERE_KERNELS_CUDA_MOE_PREFILL_H_

#include <cstdint>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/half_rows_args.h"
#include "kernels/cuda/moe_decode.h"

namespace chimere::kernels::cuda {

/// Bytes of scratch memory that moe_prefill() needs.
int64_t moe_prefill_scratch_bytes(const ExpertTable& table, int64_t rows, int n_used,
                                  int64_t n_embd);

/// Whether all expert matrices of the layer are quantised. Other layers are computed by
/// moe_decode() and have its bits.
bool moe_prefill_takes_halves(const ExpertTable& table);

/// Like moe_decode(). `halves`: the rows that `rows` names, as f16. Layers with a float type read
/// `rounded` only, others `halves` only.
void moe_prefill(Stream& stream, int multiprocessors, const ExpertTable& table, ConstMatrixView x,
                 const RoundedRows& rounded, const HalfRows& halves, const RowSet& rows,
                 const Routing& routing, const float* shared_gate, const MoeOptions& options,
                 const uint32_t* codebook, uint8_t* scratch, MatrixView y);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_PREFILL_H_
