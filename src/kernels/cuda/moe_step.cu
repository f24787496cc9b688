// Experts of step rows: two launches, whatever the number of rows and experts. Bytes: the weights
// of every slot's expert once (rows that share an expert find them in the L2 cache), h as integers.
#include "kernels/cuda/language.h"
#include "kernels/cuda/moe_args.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"
#include "kernels/cuda/step_dot.h"
#include "kernels/cuda/step_rows.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

__device__ __forceinline__ int row_id(const MoeStepArgs& args, int index) {
  return args.row_ids == nullptr ? index : args.row_ids[index];
}

__device__ __forceinline__ float float_partial(DType type, const uint8_t* w, int n, int lane,
                                               const float* row) {
  const float* const x[1] = {row};
  float acc[1] = {0};
  with_float_type(
      type, [&]<DType kType>() CHIMERE_INLINED { float_partials<kType, 1>(w, n, lane, x, acc); });
  return acc[0];
}

/// The partial sum of a row of any type with row `row` of x.
__device__ __forceinline__ float any_partial(const MoeStepArgs& args, DType type, const uint8_t* w,
                                             int row, int lane, const uint32_t* codebook) {
  if (is_float(type)) {
    return float_partial(type, w, args.n_embd, lane, args.x + row * args.x_stride);
  }
  const int rows[1] = {row};
  float acc[1] = {0};
  integer_partials_of_rows<1>(type, {w, args.n_embd / 32}, lane, args.x_rounded, rows, codebook,
                              acc);
  return acc[0];
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_step_gate_up, kMoeGateUpThreads, 2, MoeStepArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebooks);
  __shared__ float h[kMoeHiddenTile];
  const int ranks = args.n_used + args.table.has_shared;
  const int slot = static_cast<int>(blockIdx.y);
  const int rank = slot % ranks;
  const bool is_shared = rank == args.n_used;
  const ExpertShape& shape = is_shared ? args.table.shared : args.table.routed;
  const auto gate_type = static_cast<DType>(shape.gate_type);
  const auto up_type = static_cast<DType>(shape.up_type);
  uint32_t* const up_codebook =
      gate_type == up_type ? codebooks : codebooks + codebook_place(gate_type).words;
  load_codebook(gate_type, args.codebook, codebooks);
  if (up_type != gate_type) load_codebook(up_type, args.codebook, up_codebook);
  // Waits before it lets the next kernel start, so that the ids are there when that one begins.
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int tile = static_cast<int>(blockIdx.x) * kMoeHiddenTile;
  if (tile >= shape.n_ff) return;  // the other kind is wider
  const int row = row_id(args, slot / ranks);

  const int expert =
      is_shared ? args.table.n_experts : args.ids[static_cast<int64_t>(row) * args.n_used + rank];
  if (expert < 0) return;  // left out, and nobody reads its h
  const ExpertPointers& w = args.table.experts[expert];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 16;
  const int o = min(tile + thread / 16, shape.n_ff - 1);
  const uint8_t* gate = w.gate + o * shape.gate_row_bytes;
  const uint8_t* up = w.up + o * shape.up_row_bytes;
  float acc[2];
  if (gate_type == up_type && !is_float(gate_type)) {
    const int blocks = args.n_embd / 32;
    const PackedRow both[2] = {{gate, blocks}, {up, blocks}};
    const RoundedRow activations = rounded_row(args.x_rounded, row, blocks);
    const RoundedRow x[2] = {activations, activations};
    with_integer_type(gate_type, [&]<DType kType>() CHIMERE_INLINED {
      integer_partials<kType, 2>(both, lane, x, codebooks, acc);
    });
  } else {
    acc[0] = any_partial(args, gate_type, gate, row, lane, codebooks);
    acc[1] = any_partial(args, up_type, up, row, lane, up_codebook);
  }
  const float g = tree_of_16(acc[0]);
  const float u = tree_of_16(acc[1]);
  if (lane == 0) h[thread / 16] = silu(g) * u;
  __syncthreads();
  if (thread >= kWarp) return;
  const int64_t begin = static_cast<int64_t>(slot) * args.h_width + tile;
  if (is_float(static_cast<DType>(shape.down_type))) {
    args.h[begin + thread] = h[thread];
  } else {
    round_block(h[thread], thread, begin / kWarp, args.h_rounded);
  }
}

namespace {

/// The dot products of one output of `down` with h of `count` ranks, at most kRanks, to dots[rank].
template <int kRanks>
__device__ __forceinline__ void down_dots(const MoeStepArgs& args, const ExpertShape& shape,
                                          int row_index, int row, int first_rank, int count, int o,
                                          int lane, const uint32_t* codebook, float* dots) {
  const auto type = static_cast<DType>(shape.down_type);
  const int ranks = args.n_used + args.table.has_shared;
  const uint8_t* w[kRanks];
  int64_t slot[kRanks];
#pragma unroll
  for (int i = 0; i < kRanks; ++i) {
    const int rank = first_rank + min(i, count - 1);  // the last one again beyond the end
    const int expert = rank == args.n_used
                           ? args.table.n_experts
                           : args.ids[static_cast<int64_t>(row) * args.n_used + rank];
    w[i] = args.table.experts[expert].down + o * shape.down_row_bytes;
    slot[i] = static_cast<int64_t>(row_index) * ranks + rank;
  }
  float acc[kRanks];
  if (is_float(type)) {
#pragma unroll
    for (int i = 0; i < kRanks; ++i) {
      acc[i] = float_partial(type, w[i], shape.n_ff, lane, args.h + slot[i] * args.h_width);
    }
  } else {
    PackedRow rows[kRanks];
    RoundedRow x[kRanks];
#pragma unroll
    for (int i = 0; i < kRanks; ++i) {
      rows[i] = {w[i], shape.n_ff / 32};
      x[i] = rounded_row(args.h_rounded, slot[i], args.h_width / 32);
    }
    with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
      integer_partials<kType, kRanks>(rows, lane, x, codebook, acc);
    });
  }
#pragma unroll
  for (int i = 0; i < kRanks; ++i) {
    const float v = tree_of_16(acc[i]);
    if (lane == 0 && i < count) dots[first_rank + i] = v;
  }
}

__device__ __forceinline__ void moe_step_down(const MoeStepArgs& args, uint32_t* codebooks,
                                              float (&dots)[kMoeDownTile][kMoeMostUsed + 1]) {
  let_next_kernel_start();
  const auto routed_type = static_cast<DType>(args.table.routed.down_type);
  const auto shared_type = static_cast<DType>(args.table.shared.down_type);
  uint32_t* const shared_codebook = codebooks + codebook_place(routed_type).words;
  load_codebook(routed_type, args.codebook, codebooks);
  if (args.table.has_shared != 0) load_codebook(shared_type, args.codebook, shared_codebook);

  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 16;
  const int output = thread / 16 % kMoeDownTile;
  const int tile = static_cast<int>(blockIdx.x) * kMoeDownTile;
  const int o = min(tile + output, args.n_embd - 1);
  const int row_index = static_cast<int>(blockIdx.y);
  const int row = row_id(args, row_index);
  // A part for each four ranks, then the shared expert's; the half warps of a warp have the same.
  const int first = thread / kMoeDownThreadsOfPart * kMoeDownRanks;
  const int32_t* ids = args.ids + static_cast<int64_t>(row) * args.n_used;
  if (first < args.n_used) {
    int count = min(kMoeDownRanks, args.n_used - first);
    while (count > 0 && ids[first + count - 1] < 0) --count;
    if (count > 0) {
      down_dots<kMoeDownRanks>(args, args.table.routed, row_index, row, first, count, o, lane,
                               codebooks, dots[output]);
    }
  } else {
    down_dots<1>(args, args.table.shared, row_index, row, args.n_used, 1, o, lane, shared_codebook,
                 dots[output]);
  }
  wait_for_previous_kernel();
  __syncthreads();
  if (thread >= kMoeDownTile || tile + thread >= args.n_embd) return;
  float t = 0;
  for (int rank = 0; rank < args.n_used && ids[rank] >= 0; ++rank) {
    t = fmaf(args.weights[static_cast<int64_t>(row) * args.n_used + rank], dots[thread][rank], t);
  }
  if (args.table.has_shared != 0) {
    t = fmaf(sigmoid(args.shared_gate[row]), dots[thread][args.n_used], t);
  }
  float* y = args.y + row * args.y_stride + tile + thread;
  *y = *y + t;
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_step_down_narrow, kMoeDownNarrowThreads, 2, MoeStepArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebooks);
  __shared__ float dots[kMoeDownTile][kMoeMostUsed + 1];
  moe_step_down(args, codebooks, dots);
}

/// For more ranks; the threads have fewer registers.
CHIMERE_KERNEL(moe_step_down_wide, kMoeDownWideThreads, MoeStepArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebooks);
  __shared__ float dots[kMoeDownTile][kMoeMostUsed + 1];
  moe_step_down(args, codebooks, dots);
}

}  // namespace chimere::kernels::cuda
