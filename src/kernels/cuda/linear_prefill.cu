// Products of prefill rows. Bytes: each weight once per 128 rows, from L2 except the first time.
// linear_prefill is bound by the tensor cores' rate (2 operations per weight and row) and by the
// decoding of each weight once per 128 rows.
#include "kernels/cuda/decode_dot.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/linear_prefill_args.h"
#include "kernels/cuda/prefill_tile.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

__device__ __forceinline__ const LinearPrefillJob& job_of_block(const LinearPrefillArgs& args) {
  int index = 0;
  while (index + 1 < args.n_jobs &&
         static_cast<int>(blockIdx.y) >= args.jobs[index + 1].first_tile) {
    ++index;
  }
  return args.jobs[index];
}

__device__ __forceinline__ int row_at(const LinearPrefillArgs& args, int index) {
  return args.row_ids == nullptr ? index : args.row_ids[index];
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(linear_prefill, kTileThreads, 2, LinearPrefillArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ int ids[kTileRows];
  TileStage* const stages = stages_in(shared);
  auto* codebook = reinterpret_cast<uint32_t*>(shared + kTileSharedBytes);
  const LinearPrefillJob& job = job_of_block(args);
  const auto type = static_cast<DType>(job.type);
  let_next_kernel_start();
  load_codebook(type, args.codebook, codebook);
  const int thread = static_cast<int>(threadIdx.x);
  const int first_row = static_cast<int>(blockIdx.x) * kTileRows;
  const int count = min(kTileRows, args.rows - first_row);
  if (thread < count) ids[thread] = row_at(args, first_row + thread);
  const int first_output = (static_cast<int>(blockIdx.y) - job.first_tile) * kTileOutputs;
  // Weight rows beyond the end repeat the last one; their results are not written.
  const int mine = min(first_output + thread / 2, job.n_out - 1);
  const TileWeights w = {{job.w + mine * job.row_bytes, args.n_in / 32}, type, codebook};
  wait_for_previous_kernel();
  __syncthreads();
  TileSums acc;
  multiply_tile(stages, w, {args.halves, args.n_in, ids, count}, acc);

#pragma unroll
  for (int at = 0; at < 64; ++at) {
    const int o = first_output + tile_output(at);
    if (tile_row(at) >= count || o >= job.n_out) continue;
    const int row = ids[tile_row(at)];
    float* y = job.y + row * job.y_stride + o;
    const float v = acc[at] * args.halves.unit[row] * job.scale;
    *y = job.accumulate != 0 ? *y + v : v;
  }
}

namespace {

/// Tiles of kTile outputs by kTile rows, kDepth elements at a time: f32 chains, kOwn x kOwn per
/// thread.
template <int kTile, int kDepth>
struct FloatTiles {
  static constexpr int kOwn = kTile / 16;
  /// Floats from one element's rows to the next one's, which a thread loads kOwn at a time.
  static constexpr int kStride = kTile + kOwn;
  static constexpr int kRowsAtOnce = kFloatTileThreads / kDepth;
  static constexpr int kLoads = kTile / kRowsAtOnce;

  struct alignas(16) Stage {
    float w[kDepth * kStride];
    float x[kDepth * kStride];
  };

  /// The thread's kOwn floats at `from`, aligned to their size.
  static __device__ __forceinline__ void load(const float* from, float (&to)[kOwn]) {
    if constexpr (kOwn == 4) {
      const float4 v = *reinterpret_cast<const float4*>(from);
      to[0] = v.x;
      to[1] = v.y;
      to[2] = v.z;
      to[3] = v.w;
    } else {
      const float2 v = *reinterpret_cast<const float2*>(from);
      to[0] = v.x;
      to[1] = v.y;
    }
  }

  static __device__ __forceinline__ void multiply(const LinearPrefillArgs& args,
                                                  Stage (&stages)[2]) {
    const LinearPrefillJob& job = job_of_block(args);
    const auto type = static_cast<DType>(job.type);
    let_next_kernel_start();
    const int thread = static_cast<int>(threadIdx.x);
    const int first_row = static_cast<int>(blockIdx.x) * kTile;
    const int first_output = (static_cast<int>(blockIdx.y) - job.first_tile) * kTile;
    wait_for_previous_kernel();
    // A thread loads element thread % kDepth of kLoads rows; rows beyond the end repeat the last.
    const int element = thread % kDepth;
    const uint8_t* w[kLoads];
    const float* x[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int r = thread / kDepth + kRowsAtOnce * i;
      w[i] = job.w + min(first_output + r, job.n_out - 1) * job.row_bytes;
      x[i] = args.x + row_at(args, min(first_row + r, args.rows - 1)) * args.x_stride;
    }
    float next_w[kLoads];
    float next_x[kLoads];
    auto fetch = [&](int k) CHIMERE_INLINED {
      const bool inside = k + element < args.n_in;
      with_float_type(type, [&]<DType kType>() CHIMERE_INLINED {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          next_w[i] = inside ? float_weight<kType>(w[i], k + element) : 0;
        }
      });
#pragma unroll
      for (int i = 0; i < kLoads; ++i) next_x[i] = inside ? x[i][k + element] : 0;
    };
    auto put = [&](int stage) CHIMERE_INLINED {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = element * kStride + thread / kDepth + kRowsAtOnce * i;
        stages[stage].w[at] = next_w[i];
        stages[stage].x[at] = next_x[i];
      }
    };
    const int o0 = thread % 16 * kOwn;
    const int r0 = thread / 16 * kOwn;
    float acc[kOwn][kOwn] = {};
    fetch(0);
    put(0);
    __syncthreads();
    for (int k = 0, stage = 0; k < args.n_in; k += kDepth, stage ^= 1) {
      const bool more = k + kDepth < args.n_in;
      if (more) fetch(k + kDepth);
#pragma unroll
      for (int e = 0; e < kDepth; ++e) {
        float a[kOwn];
        float b[kOwn];
        load(&stages[stage].w[e * kStride + o0], a);
        load(&stages[stage].x[e * kStride + r0], b);
#pragma unroll
        for (int r = 0; r < kOwn; ++r) {
#pragma unroll
          for (int o = 0; o < kOwn; ++o) acc[r][o] = fmaf(a[o], b[r], acc[r][o]);
        }
      }
      if (more) put(stage ^ 1);
      __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      if (first_row + r0 + r >= args.rows) continue;
      float* y = job.y + row_at(args, first_row + r0 + r) * job.y_stride + first_output + o0;
#pragma unroll
      for (int o = 0; o < kOwn; ++o) {
        if (first_output + o0 + o >= job.n_out) continue;
        const float v = acc[r][o] * job.scale;
        y[o] = job.accumulate != 0 ? y[o] + v : v;
      }
    }
  }
};

}  // namespace

/// Float weights.
CHIMERE_KERNEL(linear_prefill_floats, kFloatTileThreads, LinearPrefillArgs, args) {
  using Tiles = FloatTiles<kFloatTile, 16>;
  __shared__ Tiles::Stage stages[2];
  Tiles::multiply(args, stages);
}

/// The same for few rows, with more blocks.
CHIMERE_KERNEL(linear_prefill_few_floats, kFloatTileThreads, LinearPrefillArgs, args) {
  using Tiles = FloatTiles<kFewFloatTile, 64>;
  __shared__ Tiles::Stage stages[2];
  Tiles::multiply(args, stages);
}

}  // namespace chimere::kernels::cuda
