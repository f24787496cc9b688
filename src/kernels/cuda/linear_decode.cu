// Products of one decode row with quantised weights, and of several rows where a weight row is too
// long for linear_tile.cu. All jobs of a call share one launch. Bytes: each weight once per kRows
// rows; every half warp reads the rows' integers (n_in bytes per row) from the L1 cache.
#include "kernels/cuda/decode_dot.h"
#include "kernels/cuda/decode_rows.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/linear_decode_device.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

/// Half warps beyond the last output repeat it, because the tree needs whole warps.
__device__ __forceinline__ const uint8_t* weights_of(const LinearDecodeJob& job, int o) {
  return job.w + min(o, job.n_out - 1) * job.row_bytes;
}

/// The first output of this half warp.
__device__ __forceinline__ int first_output(const LinearDecodeArgs& args,
                                            const LinearDecodeJob& job) {
  const int block = static_cast<int>(blockIdx.x) - job.first_block;
  return block * kLinearDecodeOutputs * args.passes + static_cast<int>(threadIdx.x) / 16;
}

__device__ __forceinline__ void linear_of_row(const LinearDecodeArgs& args, uint32_t* codebook) {
  const LinearDecodeJob& job = job_of_block(args);
  const auto type = static_cast<DType>(job.type);
  let_next_kernel_start();
  load_codebook(type, args.codebook, codebook);
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int row = row_at(args, static_cast<int>(blockIdx.y));
  const int first = first_output(args, job);
  auto outputs = [&](auto partial) {
    for (int pass = 0; pass < args.passes; ++pass) {
      const int o = first + pass * kLinearDecodeOutputs;
      const float v = tree_of_16(partial(weights_of(job, o)));
      if (lane == 0 && o < job.n_out) put(job, row, o, v);
    }
  };
  const int blocks = args.n_in / 32;
  const RoundedRow x[1] = {rounded_row(args.rounded, row, blocks)};
  with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
    outputs([&](const uint8_t* w) {
      const PackedRow weights[1] = {{w, blocks}};
      float acc[1];
      integer_partials<kType, 1>(weights, lane, x, codebook, acc);
      return acc[0];
    });
  });
  wait_for_previous_kernel();  // for lanes without a group
}

/// One row; a whole warp per output.
__device__ __forceinline__ void linear_of_row_by_warps(const LinearDecodeArgs& args,
                                                       uint32_t* codebook) {
  const LinearDecodeJob& job = job_of_block(args);
  const auto type = static_cast<DType>(job.type);
  let_next_kernel_start();
  load_codebook(type, args.codebook, codebook);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = row_at(args, static_cast<int>(blockIdx.y));
  const int o = (static_cast<int>(blockIdx.x) - job.first_block) * (kLinearDecodeOutputs / 2) +
                static_cast<int>(threadIdx.x) / kWarp;
  const uint8_t* w = weights_of(job, o);
  float acc = 0;
  const int blocks = args.n_in / 32;
  const RoundedRow x = rounded_row(args.rounded, row, blocks);
  with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
    acc = integer_partial_of_warp<kType>({w, blocks}, lane, x, codebook);
  });
  wait_for_previous_kernel();
  const float v = tree_of_16(acc);
  if (lane == 0 && o < job.n_out) put(job, row, o, v);
}

template <int kRows>
__device__ __forceinline__ void linear_of_rows(const LinearDecodeArgs& args, uint32_t* codebook) {
  const LinearDecodeJob& job = job_of_block(args);
  const auto type = static_cast<DType>(job.type);
  let_next_kernel_start();
  load_codebook(type, args.codebook, codebook);
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int first_row = static_cast<int>(blockIdx.y) * kRows;
  int rows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) rows[r] = row_at(args, first_row + r);
  const int o = first_output(args, job);
  const uint8_t* w = weights_of(job, o);
  float acc[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) acc[r] = 0;
  integer_partials_of_rows<kRows>(type, {w, args.n_in / 32}, lane, args.rounded, rows, codebook,
                                  acc);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float v = tree_of_16(acc[r]);
    if (lane == 0 && o < job.n_out && first_row + r < args.rows) put(job, rows[r], o, v);
  }
}

}  // namespace

CHIMERE_KERNEL(linear_decode_1, kLinearDecodeThreads, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebook);
  linear_of_row(args, codebook);
}
CHIMERE_KERNEL(linear_decode_by_warps, kLinearDecodeThreads, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebook);
  linear_of_row_by_warps(args, codebook);
}
CHIMERE_KERNEL_OF_BLOCKS(linear_decode_8, kLinearDecodeThreads, 2, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebook);
  linear_of_rows<8>(args, codebook);
}

}  // namespace chimere::kernels::cuda
