// Attention on a GPU: Ops::qk_norm_rope_append and Ops::attend, with the same bits as the other
// back ends except where prefill_uses_tensor_cores().
#ifndef CHIMERE_KERNELS_CUDA_ATTENTION_H_
#define CHIMERE_KERNELS_CUDA_ATTENTION_H_

#include <cstdint>

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device_batch.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// Ops::kv_page_bytes.
int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type);

/// Fills `table`, [rows, rope_dims], with the rotations of a step's rows. Rows with position -1 are
/// undefined. `frequencies`: rope_frequencies(), on the device.
void rope_table(Stream& stream, const DeviceBatch& batch, int rope_dims, const double* frequencies,
                float* table);

/// `rope`: the table filled by rope_table(); not read if shape.rope_dims is 0.
void qk_norm_rope_append(Stream& stream, const DeviceBatch& batch, const AttentionShape& shape,
                         const float* rope, const float* q_norm, const float* k_norm, float eps,
                         MatrixView qg, ConstMatrixView k, ConstMatrixView v, KvView kv);

/// Whether prefill rows attend on tensor cores. Their order of summation (docs/numerics.md) then
/// differs from Ops::attend's but does not depend on the batch. Otherwise they have the bits of
/// Ops::attend, as decode rows always do.
bool prefill_uses_tensor_cores(const AttentionShape& shape, DType k_type, DType v_type);

/// Launch configuration for rows of one class that attend one by one.
struct AttendPlan {
  int heads = 1;   ///< per block: 1, 2 or 4
  int tiles = 1;   ///< blocks per kv head, each with `heads` heads
  int splits = 0;  ///< blocks per row, one for each split; 0: a block loops over the splits
  int64_t parts_bytes = 0;  ///< scratch memory for partial results of splits
};

/// For few rows, spreads heads and splits over blocks so that every multiprocessor has work; for
/// many rows, uses as few blocks as possible. `rows_per_slice`: of this row class.
AttendPlan plan_attend(const AttentionShape& shape, const BatchExtent& extent, int rows_per_slice,
                       int multiprocessors);

/// Launch configuration of attend_split_N, for few rows with few positions: all blocks run at once,
/// each with the keys and values of a split in shared memory.
struct AttendSplitPlan {
  int heads = 0;  ///< per block: 1, 2 or 4; 0: other kernels are faster
  int64_t shared_bytes = 0;
};

/// `plan`: plan_attend() of the same rows. `shared_bytes`: shared memory limit of a block.
AttendSplitPlan plan_attend_split(const AttentionShape& shape, DType k_type, DType v_type,
                                  const BatchExtent& extent, int rows_per_slice,
                                  const AttendPlan& plan, int multiprocessors,
                                  int64_t shared_bytes);

/// Scratch memory that attend() needs, in bytes.
int64_t attend_scratch_bytes(const AttentionShape& shape, const BatchExtent& extent,
                             int multiprocessors);

/// `rounded`: also receives the rounded form of decode rows' results, which needs head_dim to be a
/// multiple of 32; or without memory. `shared_bytes`: shared memory limit of a block (DeviceFacts).
void attend(Stream& stream, const DeviceBatch& batch, const AttentionShape& shape,
            ConstMatrixView qg, KvView kv, MatrixView out, const RoundedRows& rounded,
            int multiprocessors, int64_t shared_bytes, uint8_t* scratch);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ATTENTION_H_
