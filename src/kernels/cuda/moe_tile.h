// Experts of decode rows on a GPU, with the rows of each expert together: Ops::moe_ffn, with the
// bits of ref.
#ifndef CHIMERE_KERNELS_CUDA_MOE_TILE_H_
#define CHIMERE_KERNELS_CUDA_MOE_TILE_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/moe_decode.h"

namespace chimere::kernels::cuda {

/// Shared memory of the kernels' blocks.
struct MoeTilePlan {
  int32_t stages = 0;
  int32_t up_stage_bytes = 0;
  int32_t down_stage_bytes = 0;
};

/// How moe_tile() computes experts of these types and shapes; nothing if it does not.
/// `shared_bytes`: the most shared memory of a block.
std::optional<MoeTilePlan> plan_moe_tiles(const ExpertTable& table, int64_t n_embd,
                                          int64_t shared_bytes);
/// Whether moe_tile() is faster than moe_decode(): without gates, or where rows share experts.
bool prefers_moe_tiles(const ExpertTable& table, int64_t rows, int n_used);

/// Bytes of scratch memory that moe_tile() needs.
int64_t moe_tile_scratch_bytes(const ExpertTable& table, int64_t rows, int n_used, int64_t n_embd);

/// As moe_decode().
void moe_tile(Stream& stream, int multiprocessors, const MoeTilePlan& plan,
              const ExpertTable& table, const RoundedRows& rounded, const RowSet& rows,
              const Routing& routing, const float* shared_gate, const MoeOptions& options,
              uint8_t* scratch, MatrixView y);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_TILE_H_
