// Attention on a GPU: Ops::qk_norm_rope_append and Ops::attend, with the same bits but where
// chunks_use_tensor_cores().
#ifndef CHIMERE_KERNELS_CUDA_ATTENTION_H_
#define CHIMERE_KERNELS_CUDA_ATTENTION_H_

#include <cstdint>

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device_batch.h"

namespace chimere::kernels::cuda {

/// Ops::kv_page_bytes.
int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type);

/// Fills the table of rotations of a step's rows, [rows, rope_dims]; positions that are -1 stay
/// without meaning. `frequencies`: rope_frequencies() on the device.
void rope_table(Stream& stream, const DeviceBatch& batch, int rope_dims, const double* frequencies,
                float* table);

/// `rope`: the step's table.
void qk_norm_rope_append(Stream& stream, const DeviceBatch& batch, const AttentionShape& shape,
                         const float* rope, const float* q_norm, const float* k_norm, float eps,
                         MatrixView qg, ConstMatrixView k, ConstMatrixView v, KvView kv);

/// Whether the rows of chunks attend on tensor cores, with sums of their own (docs/numerics.md)
/// that are the same in any batch; otherwise they have the bits of Ops::attend, as decode rows
/// always do.
bool chunks_use_tensor_cores(const AttentionShape& shape, DType k_type, DType v_type);

/// How rows of one class attend one by one.
struct AttendPlan {
  int heads = 1;   ///< that a block attends for: 1, 2 or 4
  int tiles = 1;   ///< of so many heads, for each kv head
  int splits = 0;  ///< blocks for the splits of a row; 0: a block takes them one after the other
  int64_t parts_bytes = 0;  ///< of scratch memory for what the splits' blocks leave
};

/// Blocks for heads and splits of few rows, so that every multiprocessor has work; of many rows, as
/// few as possible. `rows_per_slice` is that of the class.
AttendPlan plan_attend(const AttentionShape& shape, const BatchExtent& extent, int rows_per_slice,
                       int multiprocessors);

/// Bytes of scratch memory that attend() needs.
int64_t attend_scratch_bytes(const AttentionShape& shape, const BatchExtent& extent,
                             int multiprocessors);

/// `shared_bytes`: the most that a block may have (DeviceFacts).
void attend(Stream& stream, const DeviceBatch& batch, const AttentionShape& shape,
            ConstMatrixView qg, KvView kv, MatrixView out, int multiprocessors,
            int64_t shared_bytes, uint8_t* scratch);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ATTENTION_H_
