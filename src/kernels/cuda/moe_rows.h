// Experts of several decode rows on a GPU, whose rows share few experts: Ops::moe_ffn, with the
// bits of ref.
#ifndef CHIMERE_KERNELS_CUDA_MOE_ROWS_H_
#define CHIMERE_KERNELS_CUDA_MOE_ROWS_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/moe_decode.h"
#include "kernels/cuda/moe_rows_args.h"

namespace chimere::kernels::cuda {

/// Blocks and shared memory of one launch (moe_rows_args.h).
struct MoeRowsLaunch {
  int32_t blocks = 0;
  int32_t shared_blocks = 0;   ///< of moe_rows_gate_up
  int32_t blocks_per_row = 0;  ///< of moe_rows_down
  MoeRowsKind routed = {};
  MoeRowsKind shared = {};
  int32_t outs_at = 0;
  int32_t x_at = 0;
  int32_t x_bytes = 0;
  int64_t shared_bytes = 0;
};

struct MoeRowsPlan {
  MoeRowsLaunch gate_up;
  MoeRowsLaunch down;
};

/// How moe_rows() computes `rows` rows; nothing if it does not: few rows, for which moe_decode()
/// is faster, or types or shapes that it does not take. `shared_bytes`: the most shared memory of a
/// block.
std::optional<MoeRowsPlan> plan_moe_rows(const ExpertTable& table, int64_t rows, int n_used,
                                         int64_t n_embd, int multiprocessors, int64_t shared_bytes);

/// As moe_decode(), whose scratch memory it takes.
void moe_rows(Stream& stream, const MoeRowsPlan& plan, const ExpertTable& table,
              const RoundedRows& rounded, const RowSet& rows, const Routing& routing,
              const float* shared_gate, const MoeOptions& options, const uint32_t* codebook,
              uint8_t* scratch, MatrixView y);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_ROWS_H_
