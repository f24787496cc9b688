// Products of step rows with float weights (docs/numerics.md, rule 2). A block has two weight rows
// and up to eight rows of x in shared memory; a warp has one of the latter, its half warps one
// weight row each, and a lane one partial sum. Weights are on their way before the previous kernel
// has ended. Bytes: each weight once for every eight rows; x once for every two outputs.
#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/linear_step_device.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

/// Begins to copy `bytes`, a multiple of 2, to aligned shared memory; all threads of the block.
__device__ __forceinline__ void fetch(uint8_t* to, const uint8_t* from, int bytes) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto misaligned =
      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from)) | static_cast<uint32_t>(bytes);
  if (misaligned % 16 == 0) {
    for (int i = 16 * thread; i < bytes; i += 16 * kLinearStepThreads) {
      copy_async<16>(to + i, from + i);
    }
  } else if (misaligned % 4 == 0) {
    for (int i = 4 * thread; i < bytes; i += 4 * kLinearStepThreads) {
      copy_async<4>(to + i, from + i);
    }
  } else {
    for (int i = 2 * thread; i < bytes; i += 2 * kLinearStepThreads) {
      *reinterpret_cast<uint16_t*>(to + i) = __ldg(reinterpret_cast<const uint16_t*>(from + i));
    }
  }
}

/// Element i of a row of a float type in shared memory.
template <DType kType>
__device__ __forceinline__ float weight_at(const uint8_t* row, int i) {
  if constexpr (kType == DType::kF32) return reinterpret_cast<const float*>(row)[i];
  const uint32_t bits = reinterpret_cast<const uint16_t*>(row)[i];
  return kType == DType::kF16 ? f16_bits_to_f32(bits) : __uint_as_float(bits << 16U);
}

/// acc goes on with `count` elements.
template <DType kType>
__device__ __forceinline__ float add_products(const uint8_t* w, const float* x, int count,
                                              float acc) {
  constexpr int kAtOnce = 8;  // products whose operands are under way while as many are added
  const int first = static_cast<int>(threadIdx.x) % 16;
  const int pieces = count / (16 * kAtOnce);
  float a[kAtOnce];
  float b[kAtOnce];
  if (pieces > 0) {
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      a[j] = weight_at<kType>(w, first + 16 * j);
      b[j] = x[first + 16 * j];
    }
  }
#pragma unroll 2
  for (int piece = 0; piece < pieces; ++piece) {
    const int next = first + (piece + 1 < pieces ? piece + 1 : 0) * 16 * kAtOnce;
    float next_a[kAtOnce];
    float next_b[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      next_a[j] = weight_at<kType>(w, next + 16 * j);
      next_b[j] = x[next + 16 * j];
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) acc = fmaf(a[j], b[j], acc);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      a[j] = next_a[j];
      b[j] = next_b[j];
    }
  }
  for (int i = first + pieces * 16 * kAtOnce; i < count; i += 16) {
    acc = fmaf(weight_at<kType>(w, i), x[i], acc);
  }
  return acc;
}

}  // namespace

CHIMERE_KERNEL(linear_float, kLinearStepThreads, LinearStepArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);  // weights, then rows of x
  let_next_kernel_start();
  const LinearStepJob& job = job_of_block(args);
  const auto type = static_cast<DType>(job.type);
  const int size = type == DType::kF32 ? 4 : 2;
  const int first = (static_cast<int>(blockIdx.x) - job.first_block) * kFloatOutputs;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int half = static_cast<int>(threadIdx.x) % kWarp / 16;
  const int first_row = static_cast<int>(blockIdx.y) * kFloatRows;
  const int rows = min(kFloatRows, args.rows - first_row);
  float acc = 0;
  for (int begin = 0; begin < args.n_in; begin += kFloatStage) {
    const int count = min(kFloatStage, args.n_in - begin);
    if (begin > 0) __syncthreads();
    for (int i = 0; i < kFloatOutputs; ++i) {
      const int o = min(first + i, job.n_out - 1);
      fetch(shared + i * kFloatStageBytes, job.w + o * job.row_bytes + begin * size, count * size);
    }
    if (begin == 0) wait_for_previous_kernel();
    for (int r = 0; r < rows; ++r) {
      const float* x = args.x + row_at(args, first_row + r) * args.x_stride + begin;
      fetch(shared + (kFloatOutputs + r) * kFloatStageBytes, reinterpret_cast<const uint8_t*>(x),
            4 * count);
    }
    wait_for_copies();
    __syncthreads();
    if (warp < rows) {
      const uint8_t* w = shared + half * kFloatStageBytes;
      const auto* x =
          reinterpret_cast<const float*>(shared + (kFloatOutputs + warp) * kFloatStageBytes);
      with_float_type(type, [&]<DType kType>()
                                CHIMERE_INLINED { acc = add_products<kType>(w, x, count, acc); });
    }
  }
  if (warp >= rows) return;
  const float v = tree_of_16(acc);
  const int o = first + half;
  if (static_cast<int>(threadIdx.x) % 16 == 0 && o < job.n_out) {
    put(job, row_at(args, first_row + warp), o, v);
  }
}

}  // namespace chimere::kernels::cuda
