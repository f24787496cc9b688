// Experts of several decode rows that share few experts: two launches, whatever the number of rows
// and experts. Bytes: the weights of each slot's expert once (rows that share an expert find them
// in L2).
//
// moe_decode.cu has a block for every tile: all its warps wait for the weights, then all multiply,
// and nothing is copied for them in the meantime. Here the blocks of a launch are resident at once
// and stay. Every warp has a ring of stages: while it multiplies the rows of one, the copy engine
// brings those of the next, also across tiles, experts and rows.
//
// The products take as long as the bytes only if few instructions surround them: a warp handles
// experts of one kind, routed or shared, so that it chooses its code by type once, and that code is
// short enough for the instruction cache. By count, a half warp's product of 32 weights takes 30
// instructions, and a unit (8,192 weights) some 100 more.
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
/// Rows of down that a half warp multiplies together.
inline constexpr int kDownTogether = 4;

__device__ __forceinline__ int ranks_of(const MoeRowsArgs& args) {
  return args.n_used + args.table.has_shared;
}

__device__ __forceinline__ int row_at(const MoeRowsArgs& args, int index) {
  return args.row_ids == nullptr ? index : args.row_ids[index];
}

/// The first item of part `part` of `parts`.
__device__ __forceinline__ int first_item(int items, int part, int parts) {
  return static_cast<int>(static_cast<uint64_t>(items) * static_cast<uint32_t>(part) /
                          static_cast<uint32_t>(parts));
}

/// A row of x in shared memory (moe_rows_x_bytes()).
struct HalvedRow {
  const int8_t* first;
  const int8_t* second;
  const RoundedBlock* blocks;
};

__device__ __forceinline__ HalvedRow halved_row_in(const uint8_t* at, int blocks) {
  const int half = moe_rows_half_bytes(blocks);
  return {reinterpret_cast<const int8_t*>(at), reinterpret_cast<const int8_t*>(at + half),
          reinterpret_cast<const RoundedBlock*>(at + half + 16 * blocks)};
}

/// Starts copying a row of x to shared memory; this is thread `thread` of `threads`.
__device__ __forceinline__ void copy_halved_row(const RoundedRows& x, int blocks, int thread,
                                                int threads, uint8_t* to) {
  const int half = moe_rows_half_bytes(blocks);
  const auto* const q = reinterpret_cast<const uint8_t*>(x.q);
#pragma unroll 1
  for (int i = thread; i < 2 * blocks; i += threads) {
    copy_async<16>(to + (i & 1) * half + 16 * (i >> 1), q + 16 * i);
  }
#pragma unroll 1
  for (int i = thread; i < blocks; i += threads) {
    copy_async<8>(to + half + 16 * blocks + 8 * i, reinterpret_cast<const uint8_t*>(x.blocks + i));
  }
}

/// acc[i] += the partial sums of packed row w[i] with the row x, all in shared memory. kAtOnce:
/// groups that are multiplied side by side. When warming the instruction cache, only the first.
template <DType kType, int kRows, int kAtOnce>
__device__ __forceinline__ void add_partials(const uint8_t* const (&w)[kRows], int blocks,
                                             bool warm_icache, int lane, const HalvedRow& x,
                                             const uint32_t* codebook, float (&acc)[kRows]) {
  using C = Codec<kType>;
  constexpr int kStep = 16 * kAtOnce;
  const int all = blocks * (32 / C::kGroup);
  const int groups = warm_icache ? min(kStep, all) : all;
  const auto add = [&](int g) CHIMERE_INLINED {
    const int b = C::kGroup == 32 ? g : g >> 1;
    GroupOfX of_x = {x.first + 16 * b, x.second + 16 * b};
    if (C::kGroup == 16 && (g & 1) != 0) of_x.first = of_x.second;
    const RoundedBlock block = x.blocks[b];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      acc[i] = add_terms<has_minimum(kType)>(
          stored_terms<kType>(C::load(SharedRow{w[i], blocks}, g), codebook, of_x, block, g),
          acc[i]);
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

/// Items of moe_rows_gate_up of one kind of expert, in order.
struct HiddenItems {
  bool is_shared;
  int tiles;  ///< of a slot
  int index;
  int tile;
  int rank;
  int row_index;       ///< in the row set
  int expert = -1;     ///< in the table; negative: the slot is not used
  bool known = false;  ///< `expert` is the slot's

  __device__ __forceinline__ HiddenItems(const MoeRowsArgs& args, bool is_shared_kind, int tiles_,
                                         int first)
      : is_shared(is_shared_kind), tiles(tiles_), index(first) {
    const int slot = first / tiles;
    tile = first - slot * tiles;
    row_index = is_shared ? slot : slot / args.n_used;
    rank = is_shared ? args.n_used : slot - row_index * args.n_used;
  }

  __device__ __forceinline__ void next_slot(const MoeRowsArgs& args) {
    tile = 0;
    known = false;
    if (!is_shared && ++rank < args.n_used) return;
    if (!is_shared) rank = 0;
    ++row_index;
  }

  __device__ __forceinline__ void advance(const MoeRowsArgs& args) {
    ++index;
    if (++tile == tiles) next_slot(args);
  }

  /// Goes on to the next item that has work; false: there is none before `end`.
  __device__ __forceinline__ bool settle(const MoeRowsArgs& args, int end) {
#pragma unroll 1
    while (index < end) {
      if (!known) {
        expert = is_shared
                     ? args.table.n_experts
                     : args.ids[static_cast<int64_t>(row_at(args, row_index)) * args.n_used + rank];
        known = true;
      }
      if (expert >= 0) return true;
      index += tiles - tile;
      next_slot(args);
    }
    return false;
  }
};

/// The products of an item with gate (without a gate, with up) and with up.
using HiddenProducts = float[2][kMoeHiddenTile];

/// What a block of moe_rows_gate_up does. products: of an item, while the one before is rounded.
template <DType kType>
__device__ __forceinline__ void gate_up(const MoeRowsArgs& args, uint8_t* shared, uint64_t* arrived,
                                        HiddenProducts* products) {
  const bool is_shared = static_cast<int>(blockIdx.x) < args.shared_blocks;
  const MoeRowsKind& kind = is_shared ? args.shared : args.routed;
  const ExpertShape& shape = is_shared ? args.table.shared : args.table.routed;
  const int part = static_cast<int>(blockIdx.x) - (is_shared ? 0 : args.shared_blocks);
  const int parts =
      is_shared ? args.shared_blocks : static_cast<int>(gridDim.x) - args.shared_blocks;
  const int end = first_item(kind.items, part + 1, parts);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int half = thread / 16 % 2;
  const int lane = thread % 16;
  const int blocks = args.n_embd / 32;
  const auto row_bytes = static_cast<int>(shape.gate_row_bytes);
  auto* const codebook = reinterpret_cast<uint32_t*>(shared + kind.codebook_at);
  copy_codebook(kind.codebook, args.codebook, codebook);
  uint8_t* const stages = shared + kind.stages_at + warp * args.stages * kind.stage_bytes;
  BulkRing ring(arrived + warp * kMoeRowsStages, args.stages, kind.bulk != 0);

  HiddenItems item(args, is_shared, kind.tiles, first_item(kind.items, part, parts));
  const int first_row = item.row_index;
  // The unit whose copies start next.
  HiddenItems ahead = item;
  int ahead_unit = 0;
  const uint8_t* gate = nullptr;
  const uint8_t* up = nullptr;
  const auto copy_next = [&](int stage) CHIMERE_INLINED {
    const bool known = ahead.known;
    if (!ahead.settle(args, end)) return;
    if (!known) {
      gate = args.table.experts[ahead.expert].gate;
      up = args.table.experts[ahead.expert].up;
    }
    const int first =
        ahead.tile * kMoeHiddenTile + (warp * kHiddenUnits + ahead_unit) * kMoeRowsHidden;
    const int64_t at = static_cast<int64_t>(first) * row_bytes;
    const int bytes = kMoeRowsHidden * row_bytes;
    uint8_t* const to = stages + stage * kind.stage_bytes;
    ring.begin(stage, 2 * bytes);
    ring.copy(stage, to, gate + at, bytes);
    ring.copy(stage, to + bytes, up + at, bytes);
    if (++ahead_unit < kHiddenUnits) return;
    ahead_unit = 0;
    ahead.advance(args);
  };
  const auto fill_ring = [&]() CHIMERE_INLINED {
#pragma unroll 1
    for (int i = 0; i < args.stages; ++i) copy_next(i);
  };
  // Only the routed experts depend on the previous kernel.
  if (is_shared) fill_ring();

  int stage = 0;
  uint32_t turn = 0;
  bool warm_icache = true;
#pragma unroll 1
  while (true) {
    const bool rounds = static_cast<uint32_t>(warp) == turn % kGateUpWarps;
    ExpertPointers expert = {};  // of the warp that rounds the item
    if (!warm_icache && rounds) expert = args.table.experts[item.expert];
    const HalvedRow x =
        halved_row_in(shared + args.x_at + (item.row_index - first_row) * args.x_bytes, blocks);
#pragma unroll 1
    for (int unit = 0; unit < (warm_icache ? 1 : kHiddenUnits); ++unit) {
      const uint8_t* const own = stages + stage * kind.stage_bytes + half * row_bytes;
      const uint8_t* const rows[2] = {own, own + kMoeRowsHidden * row_bytes};
      if (!warm_icache) ring.wait(stage);
      float acc[2] = {};
      add_partials<kType, 2, 4>(rows, blocks, warm_icache, lane, x, codebook, acc);
      const float v = trees_of_16(acc, lane);
      const int element = (warp * kHiddenUnits + unit) * kMoeRowsHidden + half;
      if (lane % 8 == 0) products[turn % 2][lane / 8][element] = v;
      __syncwarp();
      if (!warm_icache) {
        copy_next(stage);
        stage = stage + 1 == args.stages ? 0 : stage + 1;
      }
    }
    __syncthreads();
    if (rounds) {
      const int i = thread % kWarp;
      RoundedLane rounded[1];
      round_lanes({hidden(args.activation, shape, expert, item.tile * kMoeHiddenTile + i,
                          products[turn % 2][0][i], products[turn % 2][1][i])},
                  rounded);
      if (!warm_icache) {
        const int64_t slot = static_cast<int64_t>(item.row_index) * ranks_of(args) + item.rank;
        const int64_t at = slot * (args.h_width / kWarp) + item.tile;
        args.h.q[at * kWarp + i] = rounded[0].q;
        if (i == 0) args.h.blocks[at] = rounded[0].block;
      }
    }
    ++turn;
    if (!warm_icache) {
      item.advance(args);
      if (!item.settle(args, end)) return;
      continue;
    }
    warm_icache = false;
    // Waits before it lets the next kernel start: the ids are complete when that kernel starts.
    wait_for_previous_kernel();
    let_next_kernel_start();
    if (!is_shared) fill_ring();
    const int per_row = (is_shared ? 1 : args.n_used) * kind.tiles;
    const int last_row = (end - 1) / per_row;
#pragma unroll 1
    for (int r = first_row; r <= last_row; ++r) {
      copy_halved_row(rows_from(args.x, row_at(args, r), blocks), blocks, thread,
                      kMoeRowsGateUpThreads, shared + args.x_at + (r - first_row) * args.x_bytes);
    }
    wait_for_copies();
    __syncthreads();
    if (!item.settle(args, end)) return;
  }
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_rows_gate_up, kMoeRowsGateUpThreads, kMoeRowsGateUpBlocks, MoeRowsArgs,
                         args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  [[maybe_unused]] __shared__ uint64_t arrived[kGateUpWarps * kMoeRowsStages];
  [[maybe_unused]] __shared__ HiddenProducts products[2];
  const bool is_shared = static_cast<int>(blockIdx.x) < args.shared_blocks;
  const int32_t type = is_shared ? args.table.shared.gate_type : args.table.routed.gate_type;
  with_integer_type(static_cast<DType>(type), [&]<DType kType>() CHIMERE_INLINED {
    gate_up<kType>(args, shared, arrived, products);
  });
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
      : index(item), row_index(item / args.tiles), tile(item - row_index * args.tiles) {}

  __device__ __forceinline__ void advance(const MoeRowsArgs& args) {
    ++index;
    if (++tile < args.tiles) return;
    tile = 0;
    ++row_index;
  }
};

/// What a warp of moe_rows_down does: units of the routed experts, in turns with the other such
/// warps, or all of the shared expert. A unit is a rank and a part of the item's outputs. The warps
/// for routed experts take turns in adding up an item's outputs.
template <DType kType>
__device__ __forceinline__ void down(const MoeRowsArgs& args, uint8_t* shared, uint64_t* arrived) {
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int half = thread / 16 % 2;
  const int lane = thread % 16;
  const bool is_shared = warp == kMoeRowsDownWarps;
  const MoeRowsKind& kind = is_shared ? args.shared : args.routed;
  const ExpertShape& shape = is_shared ? args.table.shared : args.table.routed;
  const int first_unit = is_shared ? 0 : warp;
  const int unit_step = is_shared ? 1 : kMoeRowsDownWarps;
  const int ranks = ranks_of(args);
  const int x_blocks = args.h_width / 32;
  const auto row_bytes = static_cast<int>(shape.down_row_bytes);
  const int outputs = args.outputs;
  // A tile has 1 << shift units of an expert.
  const int shift = outputs == kMoeRowsDownOutputs[0] ? 1 : 2;
  const auto* const codebook = reinterpret_cast<const uint32_t*>(shared + kind.codebook_at);
  auto* const outs = reinterpret_cast<float*>(shared + args.outs_at);
  uint8_t* const stages =
      shared + kind.stages_at + (is_shared ? 0 : warp) * args.stages * kind.stage_bytes;
  BulkRing ring(arrived + warp * kMoeRowsStages, args.stages, kind.bulk != 0);
  const auto parts = static_cast<int>(gridDim.x);
  OutputItem item(args, first_item(args.items, static_cast<int>(blockIdx.x), parts));
  const int end = first_item(args.items, static_cast<int>(blockIdx.x) + 1, parts);
  const int first_row = item.row_index;
  const auto units_of = [&](const LaneExperts& experts)
                            CHIMERE_INLINED { return (is_shared ? 1 : experts.used) << shift; };

  // The unit whose copies start next. The routing is complete: the previous kernel has waited for
  // it.
  OutputItem ahead = item;
  int ahead_unit = first_unit;
  LaneExperts ahead_experts;
  const auto copy_next = [&](int stage) CHIMERE_INLINED {
#pragma unroll 1
    for (; end > ahead.index; ahead.advance(args), ahead_unit = first_unit) {
      load_experts(args, ahead.row_index, ahead_experts);
      if (ahead_unit < units_of(ahead_experts)) break;
    }
    if (ahead.index >= end) return;
    const int rank = is_shared ? args.n_used : ahead_unit >> shift;
    const uint64_t matrix = __shfl_sync(kFullWarp, ahead_experts.down, rank);
    const int first = ahead.tile * kMoeRowsDownTile + (ahead_unit & ((1 << shift) - 1)) * outputs;
    ring.begin(stage, outputs * row_bytes);
    ring.copy(stage, stages + stage * kind.stage_bytes,
              reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(matrix)) +
                  static_cast<int64_t>(first) * row_bytes,
              outputs * row_bytes);
    ahead_unit += unit_step;
  };
#pragma unroll 1
  for (int i = 0; i < args.stages; ++i) copy_next(i);

  LaneExperts experts;
  int stage = 0;
  uint32_t turn = 0;
  bool warm_icache = true;
#pragma unroll 1
  while (true) {
    const bool combines = !is_shared && static_cast<uint32_t>(warp) == turn % kMoeRowsDownWarps;
    const int output = item.tile * kMoeRowsDownTile + thread % kWarp;
    float* const out = outs + turn % 2 * ranks * kMoeRowsDownTile;
    float* y = nullptr;
    float old = 0;
    float weight = 0;  // of the lane's expert
    int units = first_unit + 1;
    if (!warm_icache) {
      load_experts(args, item.row_index, experts);
      units = units_of(experts);
      if (combines) {
        const int rank = thread % kWarp;
        if (rank == args.n_used) {
          weight = args.shared_gate != nullptr ? sigmoid(args.shared_gate[experts.row]) : 1.0F;
        } else if (rank < args.n_used) {
          weight = args.weights[static_cast<int64_t>(experts.row) * args.n_used + rank];
        }
        y = args.y + experts.row * args.y_stride + output;
        old = *y;
      }
    }
#pragma unroll 1
    for (int unit = first_unit; unit < units; unit += unit_step) {
      const int rank = is_shared ? args.n_used : unit >> shift;
      const int of_half = outputs / 2;
      const uint8_t* own = stages + stage * kind.stage_bytes + half * of_half * row_bytes;
      const int slot = warm_icache ? 0 : (item.row_index - first_row) * ranks + rank;
      const HalvedRow x = halved_row_in(shared + args.x_at + slot * args.x_bytes, x_blocks);
      float* const to = out + (warm_icache ? 0 : rank) * kMoeRowsDownTile +
                        (unit & ((1 << shift) - 1)) * outputs + half * of_half;
      if (!warm_icache) ring.wait(stage);
#pragma unroll 1
      for (int i = 0; i < of_half; i += kDownTogether) {
        const uint8_t* rows[kDownTogether];
#pragma unroll
        for (int j = 0; j < kDownTogether; ++j) rows[j] = own + j * row_bytes;
        own += kDownTogether * row_bytes;
        float acc[kDownTogether] = {};
        add_partials<kType, kDownTogether, 1>(rows, shape.n_ff / 32, warm_icache, lane, x, codebook,
                                              acc);
        const float o = trees_of_16(acc, lane);
        if (lane % (16 / kDownTogether) == 0) to[i + lane / (16 / kDownTogether)] = o;
      }
      __syncwarp();
      if (warm_icache) break;
      copy_next(stage);
      stage = stage + 1 == args.stages ? 0 : stage + 1;
    }
    __syncthreads();
    if (combines) {
      float t = 0;
      const int n = warm_icache ? 1 : experts.used + args.table.has_shared;
#pragma unroll 1
      for (int k = 0; k < n; ++k) {
        const int rank = k < experts.used ? k : args.n_used;
        float o = out[(warm_icache ? 0 : rank) * kMoeRowsDownTile + thread % kWarp];
        if (args.biased != 0 && k < experts.used) {
          const int expert = __shfl_sync(kFullWarp, experts.expert, rank);
          o = biased(o, args.table.experts[expert].down_bias, output);
        }
        t = fmaf(__shfl_sync(kFullWarp, weight, rank), o, t);
      }
      if (!warm_icache) *y = old + t * args.scale;
    }
    ++turn;
    if (!warm_icache) {
      item.advance(args);
      if (item.index >= end) return;
      continue;
    }
    warm_icache = false;
    wait_for_previous_kernel();
    const int slots = ((end - 1) / args.tiles - first_row + 1) * ranks;
    const int warps = static_cast<int>(blockDim.x) / kWarp;
#pragma unroll 1
    for (int s = warp; s < slots; s += warps) {
      const int64_t slot = static_cast<int64_t>(first_row) * ranks + s;
      copy_halved_row(rows_from(args.h, slot, x_blocks), x_blocks, thread % kWarp, kWarp,
                      shared + args.x_at + s * args.x_bytes);
    }
    wait_for_copies();
    __syncthreads();
  }
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_rows_down, kMoeRowsDownThreads, kMoeRowsDownBlocks, MoeRowsArgs,
                         args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  [[maybe_unused]] __shared__ uint64_t arrived[(kMoeRowsDownWarps + 1) * kMoeRowsStages];
  let_next_kernel_start();
  copy_codebook(args.routed.codebook, args.codebook,
                reinterpret_cast<uint32_t*>(shared + args.routed.codebook_at));
  copy_codebook(args.shared.codebook, args.codebook,
                reinterpret_cast<uint32_t*>(shared + args.shared.codebook_at));
  const bool is_shared = static_cast<int>(threadIdx.x) / kWarp == kMoeRowsDownWarps;
  const int32_t type = is_shared ? args.table.shared.down_type : args.table.routed.down_type;
  with_integer_type(static_cast<DType>(type),
                    [&]<DType kType>() CHIMERE_INLINED { down<kType>(args, shared, arrived); });
}

}  // namespace chimere::kernels::cuda
