// Products of decode rows with float weights (docs/numerics.md, rule 2). A block of linear_float
// holds two weight rows and up to eight rows of x in shared memory. Each warp has one row of x,
// each of its half warps one weight row, and each lane one partial sum. For more rows, a block of
// linear_float_rows holds eight weight rows and eight rows of x, with two of each per half warp,
// which reduces reads of x from L2 and of all operands from shared memory. Weights are loaded
// before the previous kernel has ended. Of several rows, each warp of linear_float has its own row
// copied in pieces and begins with the first one that arrives. Bytes: each weight once per eight
// rows; x once per two, or eight, outputs.
#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/linear_decode_device.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/bulk_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

/// Starts copying `bytes`, a multiple of 2, to aligned shared memory, by kThreads threads.
template <int kThreads>
__device__ __forceinline__ void fetch(uint8_t* to, const uint8_t* from, int bytes) {
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const auto misaligned =
      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from)) | static_cast<uint32_t>(bytes);
  if (misaligned % 16 == 0) {
    for (int i = 16 * thread; i < bytes; i += 16 * kThreads) {
      copy_async<16>(to + i, from + i);
    }
  } else if (misaligned % 4 == 0) {
    for (int i = 4 * thread; i < bytes; i += 4 * kThreads) {
      copy_async<4>(to + i, from + i);
    }
  } else {
    for (int i = 2 * thread; i < bytes; i += 2 * kThreads) {
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

/// Continues the sums in acc over `count` elements.
template <DType kType>
__device__ __forceinline__ float add_products(const uint8_t* w, const float* x, int count,
                                              float acc) {
  constexpr int kAtOnce = 8;  // products whose operands are loaded while as many are added
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

/// Pieces of a stage of x that are waited for one by one.
inline constexpr int kFloatPieces = 4;

/// `shared`: weights, then rows of x.
template <int kStage>
__device__ __forceinline__ void linear_of_floats(const LinearDecodeArgs& args, uint8_t* shared) {
  constexpr int kStageBytes = float_stage_bytes(kStage);
  constexpr int kPiece = kStage / kFloatPieces;
  static_assert(kPiece % 16 == 0 && kPiece >= kFloatWarmupElements);
  __shared__ uint64_t arrived[kLinearDecodeThreads / kWarp * kFloatPieces];
  let_next_kernel_start();
  const LinearDecodeJob& job = job_of_block(args);
  const auto type = static_cast<DType>(job.type);
  const int size = type == DType::kF32 ? 4 : 2;
  const int first = (static_cast<int>(blockIdx.x) - job.first_block) * kFloatOutputs;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int half = static_cast<int>(threadIdx.x) % kWarp / 16;
  const int first_row = static_cast<int>(blockIdx.y) * kFloatRows;
  const int rows = min(kFloatRows, args.rows - first_row);
  const bool by_warps = rows > 1;
  const int piece = by_warps ? kPiece : kStage;
  RingCopies copies(arrived + warp * kFloatPieces, kFloatPieces);
  uint8_t* const own_row = shared + (kFloatOutputs + warp) * kStageBytes;
  float acc = 0;
  // A launch of few blocks is limited by instruction fetches, because the kernels of a layer evict
  // each other's code from the caches. Its blocks warm the instruction cache before the previous
  // kernel has ended, on arbitrary contents of shared memory.
  bool warm_icache = args.warm_icache != 0;
#pragma unroll 1
  for (int begin = 0; begin < args.n_in;) {
    const int count = min(kStage, args.n_in - begin);
    if (!warm_icache) {
      if (begin > 0 || args.warm_icache != 0)
        __syncthreads();  // all threads have read the old contents
      for (int i = 0; i < kFloatOutputs; ++i) {
        const int o = min(first + i, job.n_out - 1);
        fetch<kLinearDecodeThreads>(shared + i * kStageBytes,
                                    job.w + o * job.row_bytes + begin * size, count * size);
      }
      if (begin == 0) wait_for_previous_kernel();
      const auto row = [&](int r) CHIMERE_INLINED {
        return reinterpret_cast<const uint8_t*>(
            args.x + row_at(args, first_row + r) * args.x_stride + begin);
      };
      if (!by_warps) {
        fetch<kLinearDecodeThreads>(shared + kFloatOutputs * kStageBytes, row(0), 4 * count);
      } else if (warp < rows) {
        const uint8_t* const from = row(warp);
#pragma unroll 1
        for (int at = 0; at < count; at += kPiece) {
          copies.begin<true>(at / kPiece, own_row + 4 * at, from + 4 * at,
                             4 * min(kPiece, count - at));
        }
      }
      wait_for_copies();  // for the weights
    }
    __syncthreads();
    if (warp < rows) {
      const uint8_t* w = shared + half * kStageBytes;
      const auto* x = reinterpret_cast<const float*>(own_row);
      const int now = warm_icache ? min(kFloatWarmupElements, count) : count;
      with_float_type(type, [&]<DType kType>() CHIMERE_INLINED {
#pragma unroll 1
        for (int at = 0; at < now; at += piece) {
          if (by_warps && !warm_icache) copies.wait(at / kPiece);
          acc = add_products<kType>(w + at * size, x + at, min(piece, now - at), acc);
        }
      });
    }
    if (warm_icache) {
      warm_icache = false;
      acc = 0;
    } else {
      begin += kStage;
    }
  }
  if (warp >= rows) return;
  const float v = tree_of_16(acc);
  const int o = first + half;
  if (static_cast<int>(threadIdx.x) % 16 == 0 && o < job.n_out) {
    put(job, row_at(args, first_row + warp), o, v);
  }
}

}  // namespace

CHIMERE_KERNEL(linear_float, kLinearDecodeThreads, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  linear_of_floats<kFloatStage>(args, shared);
}

CHIMERE_KERNEL(linear_float_long, kLinearDecodeThreads, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  linear_of_floats<kLongFloatStage>(args, shared);
}

namespace {

/// Starts copying elements begin .. of this warp's two rows (weights or x) to a stage.
__device__ __forceinline__ void fetch_weights(const LinearDecodeArgs& args,
                                              const LinearDecodeJob& job, int first, int begin,
                                              uint8_t* stage) {
  const int size = static_cast<DType>(job.type) == DType::kF32 ? 4 : 2;
  const int count = min(kFloatRowsStage, args.n_in - begin);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int o = min(first + warp, job.n_out - 1);
  fetch<kWarp>(stage + warp * kFloatRowsStageBytes, job.w + o * job.row_bytes + begin * size,
               count * size);
}

__device__ __forceinline__ void fetch_row(const LinearDecodeArgs& args, int first_row, int begin,
                                          uint8_t* stage) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const float* x = args.x + row_at(args, first_row + warp) * args.x_stride + begin;
  fetch<kWarp>(stage + (kFloatRowsOutputs + warp) * kFloatRowsStageBytes,
               reinterpret_cast<const uint8_t*>(x), 4 * min(kFloatRowsStage, args.n_in - begin));
}

/// Continues the sums acc[r][o] over `count` elements, for two rows of x and the half warp's two
/// outputs, which are weight rows 0 and 2 of w.
template <DType kType>
__device__ __forceinline__ void add_tile(const uint8_t* w, const uint8_t* x, int count,
                                         float (&acc)[2][2]) {
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) % 16; i < count; i += 16) {
    float a[2];
    float b[2];
#pragma unroll
    for (int o = 0; o < 2; ++o) a[o] = weight_at<kType>(w + 2 * o * kFloatRowsStageBytes, i);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      b[r] = reinterpret_cast<const float*>(x + r * kFloatRowsStageBytes)[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int o = 0; o < 2; ++o) acc[r][o] = fmaf(a[o], b[r], acc[r][o]);
    }
  }
}

}  // namespace

CHIMERE_KERNEL(linear_float_rows, kLinearDecodeThreads, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);  // two stages of weights and rows of x
  static_assert(kLinearDecodeThreads / kWarp == kFloatRows && kFloatRows == kFloatRowsOutputs);
  constexpr int kStageBytes = kFloatRowsSharedBytes / 2;
  let_next_kernel_start();
  const LinearDecodeJob& job = job_of_block(args);
  const int first = (static_cast<int>(blockIdx.x) - job.first_block) * kFloatRowsOutputs;
  const int first_row = static_cast<int>(blockIdx.y) * kFloatRows;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  // A warp has two rows of x and four outputs; its half warps take alternate outputs.
  const int row = warp % 4 * 2;
  const int output = warp / 4 * 4 + static_cast<int>(threadIdx.x) % kWarp / 16;
  fetch_weights(args, job, first, 0, shared);
  wait_for_previous_kernel();
  fetch_row(args, first_row, 0, shared);
  float acc[2][2] = {};
  for (int begin = 0; begin < args.n_in; begin += kFloatRowsStage) {
    uint8_t* const stage = shared + begin / kFloatRowsStage % 2 * kStageBytes;
    wait_for_copies();
    __syncthreads();
    if (begin + kFloatRowsStage < args.n_in) {
      // All warps have finished with the old contents.
      uint8_t* const next = shared + (begin / kFloatRowsStage + 1) % 2 * kStageBytes;
      fetch_weights(args, job, first, begin + kFloatRowsStage, next);
      fetch_row(args, first_row, begin + kFloatRowsStage, next);
    }
    const int count = min(kFloatRowsStage, args.n_in - begin);
    const uint8_t* w = stage + output * kFloatRowsStageBytes;
    const uint8_t* x = stage + (kFloatRowsOutputs + row) * kFloatRowsStageBytes;
    with_float_type(static_cast<DType>(job.type),
                    [&]<DType kType>() CHIMERE_INLINED { add_tile<kType>(w, x, count, acc); });
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const float v = tree_of_16(acc[r][o]);
      const int at = first + output + 2 * o;
      if (static_cast<int>(threadIdx.x) % 16 == 0 && first_row + row + r < args.rows &&
          at < job.n_out) {
        put(job, row_at(args, first_row + row + r), at, v);
      }
    }
  }
}

}  // namespace chimere::kernels::cuda
