// Experts of decode rows: two launches, whatever the number of rows and experts. Bytes: the weights
// of each slot's expert once (rows that share an expert find them in L2), and h as integers.
//
// Consecutive weight rows of an expert are contiguous. A warp starts copying all of its rows to
// shared memory before it needs the first, so that a block waits for memory once, and a
// multiprocessor has the rows of several blocks in flight, whatever number of registers a type
// needs.
//
// A launch of few blocks is limited by instruction fetches, because the kernels of a layer evict
// each other's code from the caches. Its blocks warm the instruction cache before the previous
// kernel has ended: they compute the product once on arbitrary contents of shared memory.
#include "kernels/cuda/copy_rows.h"
#include "kernels/cuda/decode_dot.h"
#include "kernels/cuda/decode_rows.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/moe_args.h"
#include "kernels/cuda/moe_device.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/bulk_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

/// Floats between the dot products of neighbouring outputs in shared memory, to avoid bank
/// conflicts.
inline constexpr int kMoeDotStride = kMoeMostUsed + 2;

__device__ __forceinline__ int row_id(const MoeDecodeArgs& args, int index) {
  return args.row_ids == nullptr ? index : args.row_ids[index];
}

/// The partial sum of a weight row of any type with x, or for quantised types with the first row of
/// `x_rounded`.
__device__ __forceinline__ float any_partial(DType type, const uint8_t* w, int n, int lane,
                                             const float* x, const RoundedRows& x_rounded,
                                             const uint32_t* codebook) {
  float acc[1] = {0};
  if (is_float(type)) {
    const float* const rows[1] = {x};
    with_float_type(type, [&]<DType kType>()
                              CHIMERE_INLINED { float_partials<kType, 1>(w, n, lane, rows, acc); });
  } else {
    const int first[1] = {0};
    integer_partials_of_rows<1>(type, {w, n / 32}, lane, x_rounded, first, codebook, acc);
  }
  return acc[0];
}

/// acc[i] += the partial sums of packed row w[i] with the row x, all in shared memory. When warming
/// the instruction cache, only the first groups.
template <DType kType, int kRows>
__device__ __forceinline__ void shared_partials(const uint8_t* const (&w)[kRows], int blocks,
                                                bool warm_icache, int lane, const RoundedRows& x,
                                                const uint32_t* codebook, float (&acc)[kRows]) {
  using C = Codec<kType>;
  const int groups = warm_icache ? 1 : blocks * (32 / C::kGroup);
#pragma unroll 1
  for (int g = lane; g < groups; g += 16) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      acc[i] = add_terms<has_minimum(kType)>(
          stored_terms<kType>(C::load(SharedRow{w[i], blocks}, g), codebook,
                              group_of_x(x.q + g * C::kGroup), x.blocks[g * C::kGroup / 32], g),
          acc[i]);
    }
  }
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_decode_gate_up, kMoeGateUpThreads, 3, MoeDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ float h[kMoeHiddenTile];
  __shared__ uint64_t arrived[kMoeGateUpThreads / kWarp];
  const auto rank = static_cast<int>(blockIdx.y);
  const bool is_shared = rank == args.n_used;
  const ExpertShape& shape = is_shared ? args.table.shared : args.table.routed;
  const MoeDecodeKind& kind = is_shared ? args.shared : args.routed;
  const int tile = static_cast<int>(blockIdx.x) * kMoeHiddenTile;
  if (tile >= shape.n_ff) {  // beyond this expert's n_ff
    wait_for_previous_kernel();
    return;
  }
  const auto gate_type = static_cast<DType>(shape.gate_type);
  const auto up_type = static_cast<DType>(shape.up_type);
  auto* const codebook = reinterpret_cast<uint32_t*>(shared);
  uint32_t* const up_codebook = gate_type == up_type ? codebook : codebook + kind.codebook[0].words;
  copy_codebook(kind.codebook[0], args.codebook, codebook);
  copy_codebook(kind.codebook[1], args.codebook, up_codebook);

  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 16;
  const int half = thread / 16 % 2;
  const int warp = thread / kWarp;
  const int blocks = args.n_embd / 32;
  const RoundedRows x = rounded_row_in(shared + args.x_at, blocks);
  uint8_t* const stage = shared + args.stages_at + warp * args.stage_bytes;
  WarpCopies copies(&arrived[warp]);

  // This warp computes outputs first .. first + count - 1, beyond the end the last one again; a
  // half warp computes `own` of them together.
  const int first = min(tile + warp * kMoeWarpHidden, shape.n_ff - 1);
  const int count = min(kMoeWarpHidden, shape.n_ff - first);
  const int own = kind.at_once / 2;
  const auto row_bytes = static_cast<int>(shape.gate_row_bytes);
  const int64_t slot =
      static_cast<int64_t>(blockIdx.z) * (args.n_used + args.table.has_shared) + rank;
  int row = 0;
  ExpertPointers expert_at = {};
  const uint8_t* gate = nullptr;
  const uint8_t* up = nullptr;
  bool warm_icache = args.warm_icache != 0 && own > 0;
  if (warm_icache) {
    wait_for_copies();
    __syncthreads();
  }
#pragma unroll 1
  while (true) {
    if (!warm_icache) {
      // Waits before it lets the next kernel start: the ids are complete when that kernel starts.
      wait_for_previous_kernel();
      let_next_kernel_start();
      row = row_id(args, static_cast<int>(blockIdx.z));
      const int expert = is_shared ? args.table.n_experts
                                   : args.ids[static_cast<int64_t>(row) * args.n_used + rank];
      if (expert < 0) return;  // unused slot: its h is never read
      expert_at = args.table.experts[expert];
      gate = expert_at.gate + first * shape.gate_row_bytes;
      up = expert_at.up + first * shape.up_row_bytes;
    }
    if (own > 0) {
      for (int begin = 0; begin < (warm_icache ? 1 : count); begin += 2 * own) {
        const int n = min(2 * own, count - begin);
        const uint8_t* rows[2 * kMoeWarpHidden / 2];
#pragma unroll
        for (int j = 0; j < kMoeWarpHidden / 2; ++j) {
          const int o = min(own * half + min(j, own - 1), n - 1);
          rows[2 * j] = stage + o * row_bytes;
          rows[2 * j + 1] = stage + (n + o) * row_bytes;
        }
        if (!warm_icache) {
          copies.begin(stage, gate + begin * row_bytes, n * row_bytes);
          copies.begin(stage + n * row_bytes, up + begin * row_bytes, n * row_bytes);
          if (begin == 0) {
            copy_rounded_row(rows_from(args.x_rounded, row, blocks), blocks, thread,
                             kMoeGateUpThreads, x);
            wait_for_copies();
            __syncthreads();
          }
          copies.wait();
        }
        float acc[kMoeWarpHidden] = {};
        with_integer_type(gate_type, [&]<DType kType>() CHIMERE_INLINED {
          shared_partials<kType>(rows, blocks, warm_icache, lane, x, codebook, acc);
        });
        // Gate and up of an output are in neighbouring lanes.
        constexpr int kLanes = 16 / kMoeWarpHidden;
        const float v = trees_of_16(acc, lane);
        const float u = __shfl_xor_sync(kFullWarp, v, kLanes);
        const int j = lane / (2 * kLanes);
        if (lane % (2 * kLanes) == 0 && j < own && own * half + j < n) {
          const int o = begin + own * half + j;
          h[first - tile + o] = hidden(args.activation, shape, expert_at, first + o, v, u);
        }
        __syncwarp();
      }
    } else {
      wait_for_copies();
      __syncthreads();
      const float* floats = args.x + row * args.x_stride;
      const RoundedRows integers = rows_from(args.x_rounded, row, blocks);
      for (int begin = 0; begin < kMoeWarpHidden; begin += 2) {
        const int o = min(begin + half, count - 1);
        const float g = tree_of_16(any_partial(gate_type, gate + o * shape.gate_row_bytes,
                                               args.n_embd, lane, floats, integers, codebook));
        const float u = tree_of_16(any_partial(up_type, up + o * shape.up_row_bytes, args.n_embd,
                                               lane, floats, integers, up_codebook));
        if (lane == 0) {
          h[first - tile + o] = hidden(args.activation, shape, expert_at, first + o, g, u);
        }
      }
    }
    __syncthreads();
    const int64_t begin = slot * args.h_width + tile;
    if (is_float(static_cast<DType>(shape.down_type))) {
      if (thread < kWarp && !warm_icache) args.h[begin + thread] = h[thread];
    } else if (thread < kWarp) {
      RoundedLane rounded[1];
      round_lanes({h[thread]}, rounded);
      if (!warm_icache) {
        args.h_rounded.q[begin + thread] = rounded[0].q;
        if (thread == 0) args.h_rounded.blocks[begin / kWarp] = rounded[0].block;
      }
    }
    if (!warm_icache) return;
    warm_icache = false;
    __syncthreads();
  }
}

namespace {

/// Outputs of a warp that a half warp computes together.
inline constexpr int kDownTogether = 4;

/// Static shared memory of a block of the down product.
struct DownShared {
  float dots[kMoeDownTile][kMoeDotStride];
  float weights[kMoeMostUsed + 1];  ///< of the ranks
  int32_t ids[kMoeMostUsed + 1];
  uint64_t arrived[kMoeDownWideThreads / kWarp];
};

/// The dot products of `count` outputs of one expert's down matrix with its h, by one warp. `down`:
/// the first output's row. Unless the block warms the instruction cache, the copies of the first
/// rows have been started.
__device__ __forceinline__ void down_dots(const MoeDecodeArgs& args, bool is_shared,
                                          const uint8_t* down, int64_t slot, int rank, int count,
                                          uint8_t* stage, const uint32_t* codebook,
                                          WarpCopies& copies, DownShared& shared) {
  const ExpertShape& shape = is_shared ? args.table.shared : args.table.routed;
  const int at_once = is_shared ? args.shared.at_once : args.routed.at_once;
  const auto type = static_cast<DType>(shape.down_type);
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int half = static_cast<int>(threadIdx.x) / 16 % 2;
  const int blocks = shape.n_ff / 32;
  const RoundedRows of_slot = rows_from(args.h_rounded, slot, args.h_width / 32);
  if (at_once == 0) {
    wait_for_previous_kernel();
    for (int begin = 0; begin < count; begin += 2) {
      const int o = min(begin + half, count - 1);
      const float v =
          tree_of_16(any_partial(type, down + o * shape.down_row_bytes, shape.n_ff, lane,
                                 args.h + slot * args.h_width, of_slot, codebook));
      if (lane == 0) shared.dots[o][rank] = v;
    }
    return;
  }
  const auto row_bytes = static_cast<int>(shape.down_row_bytes);
  const RoundedRows x = rounded_row_in(stage, blocks);
  uint8_t* const weights = stage + args.x_bytes;
  bool warm_icache = args.warm_icache != 0;
  for (int begin = 0; begin < count;) {
    const int n = min(at_once, count - begin);
    if (!warm_icache) {
      if (begin > 0 || args.warm_icache != 0) {
        copies.begin(weights, down + begin * row_bytes, n * row_bytes);
      }
      if (begin == 0) {
        wait_for_previous_kernel();
        copy_rounded_row(of_slot, blocks, static_cast<int>(threadIdx.x) % kWarp, kWarp, x);
      }
      copies.wait();
    }
#pragma unroll 1
    for (int i = kDownTogether * half; i < n + kDownTogether * half; i += 2 * kDownTogether) {
      const uint8_t* rows[kDownTogether];
#pragma unroll
      for (int j = 0; j < kDownTogether; ++j) rows[j] = weights + min(i + j, n - 1) * row_bytes;
      float acc[kDownTogether] = {};
      with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
        shared_partials<kType>(rows, blocks, warm_icache, lane, x, codebook, acc);
      });
      constexpr int kLanes = 16 / kDownTogether;
      const float v = trees_of_16(acc, lane);
      const int o = i + lane / kLanes;
      if (lane % kLanes == 0 && o < n) shared.dots[begin + o][rank] = v;
    }
    __syncwarp();
    if (!warm_icache) begin += n;
    warm_icache = false;
  }
}

__device__ __forceinline__ void moe_decode_down(const MoeDecodeArgs& args, uint8_t* dynamic,
                                                DownShared& shared) {
  let_next_kernel_start();
  // One warp per rank. The routing is complete: the previous kernel has waited for it.
  const int thread = static_cast<int>(threadIdx.x);
  const int rank = thread / kWarp;
  const bool is_shared = rank == args.n_used;
  const auto row_index = static_cast<int>(blockIdx.y);
  const int row = row_id(args, row_index);
  const int64_t chosen = static_cast<int64_t>(row) * args.n_used;
  const int expert = is_shared ? args.table.n_experts : args.ids[chosen + rank];
  const int first = static_cast<int>(blockIdx.x) * kMoeDownTile;
  const int count = min(kMoeDownTile, args.n_embd - first);
  uint8_t* const stage = dynamic + args.stages_at + rank * args.stage_bytes;
  const uint8_t* down = nullptr;
  WarpCopies copies(&shared.arrived[rank]);
  if (expert >= 0) {
    const int64_t row_bytes =
        is_shared ? args.table.shared.down_row_bytes : args.table.routed.down_row_bytes;
    const int at_once = is_shared ? args.shared.at_once : args.routed.at_once;
    down = args.table.experts[expert].down + first * row_bytes;
    if (at_once > 0 && args.warm_icache == 0) {
      copies.begin(stage + args.x_bytes, down, min(at_once, count) * static_cast<int>(row_bytes));
    }
  }
  auto* const codebook = reinterpret_cast<uint32_t*>(dynamic);
  uint32_t* const shared_codebook = codebook + args.routed.codebook[0].words;
  copy_codebook(args.routed.codebook[0], args.codebook, codebook);
  copy_codebook(args.shared.codebook[0], args.codebook, shared_codebook);
  if (thread < args.n_used) {
    shared.ids[thread] = args.ids[chosen + thread];
    shared.weights[thread] = args.weights[chosen + thread];
  } else if (thread == args.n_used && args.table.has_shared != 0) {
    shared.weights[thread] = args.shared_gate != nullptr ? sigmoid(args.shared_gate[row]) : 1.0F;
  }
  wait_for_copies();
  __syncthreads();
  if (expert >= 0) {
    const int64_t slot =
        static_cast<int64_t>(row_index) * (args.n_used + args.table.has_shared) + rank;
    down_dots(args, is_shared, down, slot, rank, count, stage,
              is_shared ? shared_codebook : codebook, copies, shared);
  }
  wait_for_previous_kernel();
  __syncthreads();
  if (thread >= count) return;
  float t = 0;
#pragma unroll 1
  for (int k = 0; k < args.n_used && shared.ids[k] >= 0; ++k) {
    float o = shared.dots[thread][k];
    if (args.biased != 0) {
      o = biased(o, args.table.experts[shared.ids[k]].down_bias, first + thread);
    }
    t = fmaf(shared.weights[k], o, t);
  }
  if (args.table.has_shared != 0) {
    t = fmaf(shared.weights[args.n_used], shared.dots[thread][args.n_used], t);
  }
  float* y = args.y + row * args.y_stride + first + thread;
  *y = *y + t * args.scale;
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_decode_down_narrow, kMoeDownNarrowThreads, 3, MoeDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, dynamic);
  __shared__ DownShared shared;
  moe_decode_down(args, dynamic, shared);
}

/// For more ranks, with fewer registers per thread.
CHIMERE_KERNEL(moe_decode_down_wide, kMoeDownWideThreads, MoeDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, dynamic);
  __shared__ DownShared shared;
  moe_decode_down(args, dynamic, shared);
}

}  // namespace chimere::kernels::cuda
