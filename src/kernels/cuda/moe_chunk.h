// Experts of chunk rows on a card, on tensor cores: Ops::moe_ffn with the sums of docs/numerics.md,
// rule 9.
#ifndef CHIMERE_KERNELS_CUDA_MOE_CHUNK_H_
#define CHIMERE_KERNELS_CUDA_MOE_CHUNK_H_

#include <cstdint>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/moe_step.h"

namespace chimere::kernels::cuda {

/// Rows of an expert in a tile: 32 or 64. Results do not depend on it.
int plan_moe_chunk(int64_t slots, int n_experts);

/// Bytes of scratch memory that moe_chunk() wants.
int64_t moe_chunk_scratch_bytes(const ExpertTable& table, int64_t rows, int n_used, int64_t n_embd);

/// As moe_step(). Layers with an expert matrix of a float type, or
/// with gate and up of different scale groups, are computed by moe_step() and have its bits.
void moe_chunk(Stream& stream, const ExpertTable& table, ConstMatrixView x,
               const RoundedRows& rounded, const RowSet& rows, const Routing& routing,
               const float* shared_gate, const uint32_t* codebook, uint8_t* scratch, MatrixView y);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_CHUNK_H_
