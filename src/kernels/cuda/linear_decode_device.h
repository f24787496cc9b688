// Device code shared by the kernels of linear_decode.h.
#ifndef CHIMERE_KERNELS_CUDA_LINEAR_DECODE_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_LINEAR_DECODE_DEVICE_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/linear_decode_args.h"

namespace chimere::kernels::cuda {

/// The job of block `block`; for linear_tile_8, of a tile.
__device__ __forceinline__ const LinearDecodeJob& job_of(const LinearDecodeArgs& args, int block) {
  int index = 0;
  while (index + 1 < args.n_jobs && block >= args.jobs[index + 1].first_block) ++index;
  return args.jobs[index];
}

/// The job of this block.
__device__ __forceinline__ const LinearDecodeJob& job_of_block(const LinearDecodeArgs& args) {
  return job_of(args, static_cast<int>(blockIdx.x));
}

/// Row `index` of the row set; beyond its end, the last row.
__device__ __forceinline__ int row_at(const LinearDecodeArgs& args, int index) {
  const int row = min(index, args.rows - 1);
  return args.row_ids == nullptr ? row : args.row_ids[row];
}

__device__ __forceinline__ void put(const LinearDecodeJob& job, int row, int o, float v) {
  float* y = job.y + row * job.y_stride + o;
  v = v * job.scale;
  *y = job.accumulate != 0 ? *y + v : v;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_DECODE_DEVICE_H_
