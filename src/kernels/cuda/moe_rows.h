// Experts of several decode rows on a GPU, whose rows share few experts: Ops::moe_ffn, with the
// bits of ref.
#ifndef CHIMERE_KERNELS_CUDA_MOE_ROWS_H_
#define CHIMERE_KERNELS_CUDA_MOE_ROWS_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/moe_decode.h"
#include "kernels/cuda/moe_rows_args.h"

namespace chimere::kernels::cuda {

struct MoeRowsPlan {
  int32_t blocks = 0;
  int32_t warps = 0;  ///< of a block
  MoeRowsLayout layout = {};
  int64_t shared_bytes = 0;
};

/// How moe_rows() computes `rows` rows; nothing if it does not: few rows, for which moe_decode()
/// is faster, or types or shapes that it does not take. `shared_bytes`: the most shared memory of a
/// block.
std::optional<MoeRowsPlan> plan_moe_rows(const ExpertTable& table, int64_t rows, int n_used,
                                         int64_t n_embd, int multiprocessors, int64_t shared_bytes);

/// Words of moe_rows()'s `counters`.
int64_t moe_rows_counters(int64_t rows);

/// As moe_decode(), whose scratch memory it takes. `counters`: zeros, zero again at the end.
void moe_rows(Stream& stream, const MoeRowsPlan& plan, const ExpertTable& table,
              const RoundedRows& rounded, const RowSet& rows, const Routing& routing,
              const float* shared_gate, const MoeOptions& options, const uint32_t* codebook,
              uint8_t* scratch, uint32_t* counters, MatrixView y);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_ROWS_H_
