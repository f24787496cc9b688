// Experts of several decode rows that share few experts: two launches, whatever the number of rows
// and experts. Bytes: the weights of each slot's expert once (rows that share an expert find them
// in L2).
//
// moe_decode.cu has a block for every tile: all its warps wait for the weights, then all multiply,
// and nothing is copied for them in the meantime. Here the blocks of a launch are resident at once
// and stay. Every warp has a ring of stages: while it multiplies the rows of one, the copy engine
// brings those of the next, also across tiles, experts and rows. By count, one half warp's product
// of 32 weights takes some 37 instructions in moe_rows_gate_up and 45 in moe_rows_down, the
// waiting, copying and sums included.
//
// Blocks warm the instruction cache before the previous kernel has ended: they multiply arbitrary
// contents of shared memory once.
#include "kernels/cuda/copy_rows.h"
#include "kernels/cuda/decode_dot.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/moe_device.h"
#include "kernels/cuda/moe_rows_args.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/bulk_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kGateUpWarps = kMoeRowsGateUpThreads / kWarp;
/// Units of a warp in an item.
inline constexpr int kHiddenUnits = kMoeHiddenTile / (kGateUpWarps * kMoeRowsHidden);
static_assert(kMoeRowsHidden == 2, "an element of h for each half warp");
inline constexpr int kDownWarps = kMoeRowsDownThreads / kWarp;
/// Rows of down that a half warp multiplies together.
inline constexpr int kDownTogether = kMoeRowsDownOutputs / 2;

__device__ __forceinline__ int ranks_of(const MoeRowsArgs& args) {
  return args.n_used + args.table.has_shared;
}

__device__ __forceinline__ int row_at(const MoeRowsArgs& args, int index) {
  return args.row_ids == nullptr ? index : args.row_ids[index];
}

__device__ __forceinline__ const ExpertShape& shape_of(const MoeRowsArgs& args, bool is_shared) {
  return is_shared ? args.table.shared : args.table.routed;
}

/// The first item of block `block`.
__device__ __forceinline__ int first_item(const MoeRowsArgs& args, uint32_t block) {
  return static_cast<int>(static_cast<uint64_t>(args.items) * block / gridDim.x);
}

__device__ __forceinline__ void copy_codebooks(const MoeRowsArgs& args, uint32_t* to) {
  copy_codebook(args.routed_codebook, args.codebook, to);
  copy_codebook(args.shared_codebook, args.codebook, to + args.routed_codebook.words);
}

/// acc[i] += the partial sums of packed row w[i] with the row x, all in shared memory. kAtOnce:
/// groups that are multiplied side by side. When warming the instruction cache, only the first.
template <DType kType, int kRows, int kAtOnce>
__device__ __forceinline__ void add_partials(const uint8_t* const (&w)[kRows], int blocks,
                                             bool warm_icache, int lane, const RoundedRows& x,
                                             const uint32_t* codebook, float (&acc)[kRows]) {
  using C = Codec<kType>;
  constexpr int kStep = 16 * kAtOnce;
  const int all = blocks * (32 / C::kGroup);
  const int groups = warm_icache ? min(kStep, all) : all;
  const auto add = [&](int g) CHIMERE_INLINED {
    const int8_t* const q = x.q + g * C::kGroup;
    const RoundedBlock block = x.blocks[g * C::kGroup / 32];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      acc[i] = add_terms<has_minimum(kType)>(
          stored_terms<kType>(C::load(SharedRow{w[i], blocks}, g), codebook, q, block, g), acc[i]);
    }
  };
  int begin = 0;
  if constexpr (kAtOnce > 1) {
#pragma unroll 1
    for (; begin + kStep <= groups; begin += kStep) {
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) add(begin + lane + 16 * u);
    }
  }
#pragma unroll 1
  for (int g = begin + lane; g < groups; g += 16) add(g);
}

/// A tile of one slot's h.
struct HiddenItem {
  int slot = -1;
  int tile = 0;
  int row_index = 0;  ///< in the row set
  int expert = 0;     ///< in the table; negative: the slot is not used
  bool is_shared = false;
};

/// Sets `item` to the first item from `index` on that has work, and `index` to its number; false:
/// there is none before `end`.
__device__ __forceinline__ bool find_item(const MoeRowsArgs& args, int end, int& index,
                                          HiddenItem& item) {
#pragma unroll 1
  for (; index < end; ++index) {
    const int slot = index / args.tiles;
    item.tile = index - slot * args.tiles;
    if (slot != item.slot) {
      item.slot = slot;
      item.row_index = slot / ranks_of(args);
      const int rank = slot - item.row_index * ranks_of(args);
      item.is_shared = rank == args.n_used;
      item.expert =
          item.is_shared
              ? args.table.n_experts
              : args.ids[static_cast<int64_t>(row_at(args, item.row_index)) * args.n_used + rank];
    }
    if (item.expert >= 0 && item.tile * kMoeHiddenTile < shape_of(args, item.is_shared).n_ff) {
      return true;
    }
  }
  return false;
}

/// The products of an item with gate (without a gate, with up) and with up.
using HiddenProducts = float[2][kMoeHiddenTile];

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_rows_gate_up, kMoeRowsGateUpThreads, kMoeRowsGateUpBlocks, MoeRowsArgs,
                         args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ uint64_t arrived[kGateUpWarps * kMoeRowsStages];
  __shared__ HiddenProducts products[2];  // of an item, while the one before is rounded
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int half = thread / 16 % 2;
  const int lane = thread % 16;
  const int blocks = args.n_embd / 32;
  auto* const codebooks = reinterpret_cast<uint32_t*>(shared);
  copy_codebooks(args, codebooks);
  uint8_t* const stages = shared + args.stages_at + warp * args.stages * args.stage_bytes;
  RingCopies copies(arrived + warp * kMoeRowsStages, args.stages);
  int index = first_item(args, blockIdx.x);
  const int end = first_item(args, blockIdx.x + 1);
  const int first_row = index / (args.tiles * ranks_of(args));

  // The unit whose copies start next.
  int ahead_index = index;
  int ahead_unit = 0;
  bool any_ahead = false;
  HiddenItem ahead;
  const uint8_t* ahead_gate = nullptr;
  const uint8_t* ahead_up = nullptr;
  const auto copy_next = [&](int stage) CHIMERE_INLINED {
    if (ahead_unit == 0) {
      const int known = ahead.slot;
      any_ahead = find_item(args, end, ahead_index, ahead);
      if (any_ahead && ahead.slot != known) {
        ahead_gate = args.table.experts[ahead.expert].gate;
        ahead_up = args.table.experts[ahead.expert].up;
      }
    }
    if (!any_ahead) return;
    const auto row_bytes = static_cast<int>(shape_of(args, ahead.is_shared).gate_row_bytes);
    const int first =
        ahead.tile * kMoeHiddenTile + (warp * kHiddenUnits + ahead_unit) * kMoeRowsHidden;
    const int64_t at = static_cast<int64_t>(first) * row_bytes;
    const int bytes = kMoeRowsHidden * row_bytes;
    uint8_t* const to = stages + stage * args.stage_bytes;
    copies.begin(stage, to, ahead_gate + at, bytes);
    copies.begin(stage, to + bytes, ahead_up + at, bytes);
    if (++ahead_unit < kHiddenUnits) return;
    ahead_unit = 0;
    ++ahead_index;
  };

  HiddenItem item;
  item.row_index = first_row;
  ExpertPointers expert = {};  // of the warp that rounds the item
  int unit = 0;
  int stage = 0;
  int turn = 0;
  bool warm_icache = true;
#pragma unroll 1
  while (true) {
    const bool rounds = warp == turn % kGateUpWarps;
    if (!warm_icache && unit == 0) {
      if (!find_item(args, end, index, item)) return;
      if (rounds) expert = args.table.experts[item.expert];
    }
    const ExpertShape& shape = shape_of(args, item.is_shared);
    const auto row_bytes = static_cast<int>(shape.gate_row_bytes);
    const uint8_t* const own = stages + stage * args.stage_bytes + half * row_bytes;
    const uint8_t* const rows[2] = {own, own + kMoeRowsHidden * row_bytes};
    const RoundedRows x =
        rounded_row_in(shared + args.x_at + (item.row_index - first_row) * args.x_bytes, blocks);
    const uint32_t* const codebook = codebooks + (item.is_shared ? args.routed_codebook.words : 0);
    if (!warm_icache) copies.wait(stage);
    float acc[2] = {};
    with_integer_type(static_cast<DType>(shape.gate_type), [&]<DType kType>() CHIMERE_INLINED {
      add_partials<kType, 2, 4>(rows, blocks, warm_icache, lane, x, codebook, acc);
    });
    const float v = trees_of_16(acc, lane);
    const int element = (warp * kHiddenUnits + unit) * kMoeRowsHidden + half;
    if (lane % 8 == 0) products[turn % 2][lane / 8][element] = v;
    __syncwarp();
    if (!warm_icache) {
      copy_next(stage);
      stage = stage + 1 == args.stages ? 0 : stage + 1;
      if (++unit < kHiddenUnits) continue;
      unit = 0;
    }
    __syncthreads();
    if (rounds) {
      const int i = thread % kWarp;
      RoundedLane rounded[1];
      round_lanes({hidden(args.activation, shape, expert, item.tile * kMoeHiddenTile + i,
                          products[turn % 2][0][i], products[turn % 2][1][i])},
                  rounded);
      if (!warm_icache) {
        const int64_t at = static_cast<int64_t>(item.slot) * (args.h_width / kWarp) + item.tile;
        args.h.q[at * kWarp + i] = rounded[0].q;
        if (i == 0) args.h.blocks[at] = rounded[0].block;
      }
    }
    ++turn;
    if (!warm_icache) {
      ++index;
      continue;
    }
    warm_icache = false;
    // Waits before it lets the next kernel start: the ids are complete when that kernel starts.
    wait_for_previous_kernel();
    let_next_kernel_start();
#pragma unroll 1
    for (int i = 0; i < args.stages; ++i) copy_next(i);
    const int last_row = (end - 1) / (args.tiles * ranks_of(args));
#pragma unroll 1
    for (int r = first_row; r <= last_row; ++r) {
      copy_rounded_row(rows_from(args.x, row_at(args, r), blocks), blocks, thread,
                       kMoeRowsGateUpThreads,
                       rounded_row_in(shared + args.x_at + (r - first_row) * args.x_bytes, blocks));
    }
    wait_for_copies();
    __syncthreads();
  }
}

namespace {

/// The experts of a row, in a warp's lanes: lane k has rank k, lane n_used the shared expert.
struct LaneExperts {
  int row_index = -1;  ///< in the row set
  int row = 0;
  int expert = -1;  ///< in the table; negative: none
  uint64_t down = 0;
  int used = 0;  ///< routed experts in use
};

__device__ __forceinline__ void load_experts(const MoeRowsArgs& args, int row_index,
                                             LaneExperts& experts) {
  if (experts.row_index == row_index) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  experts.row_index = row_index;
  experts.row = row_at(args, row_index);
  experts.expert = -1;
  if (lane < args.n_used) {
    experts.expert = args.ids[static_cast<int64_t>(experts.row) * args.n_used + lane];
  } else if (lane == args.n_used && args.table.has_shared != 0) {
    experts.expert = args.table.n_experts;
  }
  experts.down = 0;
  if (experts.expert >= 0) {
    experts.down = reinterpret_cast<uintptr_t>(args.table.experts[experts.expert].down);
  }
  experts.used = __popc(__ballot_sync(kFullWarp, lane < args.n_used && experts.expert >= 0));
}

/// A tile of a row's y.
struct OutputItem {
  int index;
  int row_index;
  int tile;

  __device__ __forceinline__ OutputItem(const MoeRowsArgs& args, int item)
      : index(item), row_index(item / args.tiles), tile(item % args.tiles) {}

  __device__ __forceinline__ void advance(const MoeRowsArgs& args) {
    ++index;
    if (++tile < args.tiles) return;
    tile = 0;
    ++row_index;
  }
};

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_rows_down, kMoeRowsDownThreads, kMoeRowsDownBlocks, MoeRowsArgs,
                         args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ uint64_t arrived[kDownWarps * kMoeRowsStages];
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int half = thread / 16 % 2;
  const int lane = thread % 16;
  auto* const codebooks = reinterpret_cast<uint32_t*>(shared);
  copy_codebooks(args, codebooks);
  uint8_t* const stages = shared + args.stages_at + warp * args.stages * args.stage_bytes;
  RingCopies copies(arrived + warp * kMoeRowsStages, args.stages);
  OutputItem item(args, first_item(args, blockIdx.x));
  const int end = first_item(args, blockIdx.x + 1);
  const int first_row = item.row_index;

  // The unit whose copies start next: an expert of an item. The routing is complete: the previous
  // kernel has waited for it.
  OutputItem ahead = item;
  int ahead_unit = 0;
  LaneExperts ahead_experts;
  const auto copy_next = [&](int stage) CHIMERE_INLINED {
#pragma unroll 1
    for (; end > ahead.index; ahead.advance(args), ahead_unit = 0) {
      load_experts(args, ahead.row_index, ahead_experts);
      if (ahead_unit < ahead_experts.used + args.table.has_shared) break;
    }
    if (ahead.index >= end) return;
    const int rank = ahead_unit < ahead_experts.used ? ahead_unit : args.n_used;
    const uint64_t down = __shfl_sync(kFullWarp, ahead_experts.down, rank);
    const auto row_bytes = static_cast<int>(shape_of(args, rank == args.n_used).down_row_bytes);
    const int first = ahead.tile * kMoeRowsDownTile + warp * kMoeRowsDownOutputs;
    copies.begin(stage, stages + stage * args.stage_bytes,
                 reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(down)) +
                     static_cast<int64_t>(first) * row_bytes,
                 kMoeRowsDownOutputs * row_bytes);
    ++ahead_unit;
  };
  // The first stage is warmed on.
#pragma unroll 1
  for (int i = 1; i < args.stages; ++i) copy_next(i);

  LaneExperts experts;
  int stage = 1;
  bool warm_icache = true;
#pragma unroll 1
  while (true) {
    const int output = item.tile * kMoeRowsDownTile + warp * kMoeRowsDownOutputs +
                       half * kDownTogether + lane / (16 / kDownTogether);
    float* y = nullptr;
    float old = 0;
    float weight = 0;  // of the lane's expert
    int units = 1;
    if (!warm_icache) {
      load_experts(args, item.row_index, experts);
      const int rank = thread % kWarp;
      if (rank == args.n_used) {
        weight = args.shared_gate != nullptr ? sigmoid(args.shared_gate[experts.row]) : 1.0F;
      } else if (rank < args.n_used) {
        weight = args.weights[static_cast<int64_t>(experts.row) * args.n_used + rank];
      }
      units = experts.used + args.table.has_shared;
      y = args.y + experts.row * args.y_stride + output;
      old = *y;
    }
    float t = 0;
#pragma unroll 1
    for (int k = 0; k < units; ++k) {
      const int rank = warm_icache || k < experts.used ? k : args.n_used;
      const bool is_shared = rank == args.n_used;
      const ExpertShape& shape = shape_of(args, is_shared);
      const auto row_bytes = static_cast<int>(shape.down_row_bytes);
      const uint8_t* const own =
          stages + (warm_icache ? 0 : stage * args.stage_bytes) + half * kDownTogether * row_bytes;
      const uint8_t* rows[kDownTogether];
#pragma unroll
      for (int j = 0; j < kDownTogether; ++j) rows[j] = own + j * row_bytes;
      const int slot = (item.row_index - first_row) * ranks_of(args) + rank;
      const RoundedRows x =
          rounded_row_in(shared + args.x_at + slot * args.x_bytes, args.h_width / 32);
      const uint32_t* const codebook = codebooks + (is_shared ? args.routed_codebook.words : 0);
      if (!warm_icache) copies.wait(stage);
      float acc[kDownTogether] = {};
      with_integer_type(static_cast<DType>(shape.down_type), [&]<DType kType>() CHIMERE_INLINED {
        add_partials<kType, kDownTogether, 1>(rows, shape.n_ff / 32, warm_icache, lane, x, codebook,
                                              acc);
      });
      float o = trees_of_16(acc, lane);
      if (warm_icache) break;
      if (args.biased != 0 && !is_shared) {
        const int expert = __shfl_sync(kFullWarp, experts.expert, rank);
        o = biased(o, args.table.experts[expert].down_bias, output);
      }
      t = fmaf(__shfl_sync(kFullWarp, weight, rank), o, t);
      __syncwarp();
      copy_next(stage);
      stage = stage + 1 == args.stages ? 0 : stage + 1;
    }
    if (!warm_icache) {
      if (lane % (16 / kDownTogether) == 0) *y = old + t * args.scale;
      item.advance(args);
      if (item.index >= end) return;
      continue;
    }
    warm_icache = false;
    __syncwarp();
    copy_next(0);
    wait_for_previous_kernel();
    __syncthreads();  // all warps have finished with the memory of h
    const int slots = ((end - 1) / args.tiles - first_row + 1) * ranks_of(args);
    const int blocks = args.h_width / 32;
#pragma unroll 1
    for (int s = warp; s < slots; s += kDownWarps) {
      const int64_t slot = static_cast<int64_t>(first_row) * ranks_of(args) + s;
      copy_rounded_row(rows_from(args.h, slot, blocks), blocks, thread % kWarp, kWarp,
                       rounded_row_in(shared + args.x_at + s * args.x_bytes, blocks));
    }
    wait_for_copies();
    __syncthreads();
  }
}

}  // namespace chimere::kernels::cuda
