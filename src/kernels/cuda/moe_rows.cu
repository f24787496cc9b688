// Experts of several decode rows that share few experts: two launches, whatever the number of rows
// and experts. Bytes: the weights of each slot's expert once (rows that share an expert and run at
// the same time find them in L2).
//
// moe_decode.cu has a block for every tile: all its warps wait for the weights, then all multiply,
// and nothing is copied for them in the meantime. Here the blocks of a launch are resident at once
// (where a multiprocessor's shared memory holds two) and stay. Every warp has a ring of stages:
// while it multiplies the rows of one, the copy engine brings those of the next, also across tiles,
// experts and rows.
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

/// A matrix of expert `expert`.
template <const uint8_t* ExpertPointers::*kMatrix>
__device__ __forceinline__ const uint8_t* matrix_of(const ExpertTableArgs& table, int expert,
                                                    int64_t step) {
  if (table.regular == 0) return table.experts[expert].*kMatrix;
  return expert < table.n_experts ? table.first.*kMatrix + expert * step : table.last.*kMatrix;
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

  /// Advances to the next item that has work; false: there is none before `end`.
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
  uint8_t* const stages = shared + kind.stages_at + warp * kind.stages * kind.stage_bytes;
  BulkRing ring(arrived + warp * kMoeRowsStages, kind.stages, kind.bulk != 0);

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
      gate = matrix_of<&ExpertPointers::gate>(args.table, ahead.expert, args.table.gate_step);
      up = matrix_of<&ExpertPointers::up>(args.table, ahead.expert, args.table.up_step);
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
    for (int i = 0; i < kind.stages; ++i) copy_next(i);
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
      add_partials<kType, 2, 2>(rows, blocks, warm_icache, lane, x, codebook, acc);
      const float v = trees_of_16(acc, lane);
      const int element = (warp * kHiddenUnits + unit) * kMoeRowsHidden + half;
      if (lane % 8 == 0) products[turn % 2][lane / 8][element] = v;
      __syncwarp();
      if (!warm_icache) {
        copy_next(stage);
        stage = stage + 1 == kind.stages ? 0 : stage + 1;
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

inline constexpr int kDownWarps = kMoeRowsDownThreads / kWarp;

/// The experts of a block's row, in a warp's lanes: lane k has rank k, lane n_used the shared
/// expert.
struct LaneExperts {
  int row;
  int expert = -1;  ///< in the table; negative: none
  uint64_t down = 0;
  float weight = 0;
  int used;  ///< routed experts in use

  __device__ __forceinline__ LaneExperts(const MoeRowsArgs& args, int row_index)
      : row(row_at(args, row_index)) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (lane < args.n_used) {
      const int64_t at = static_cast<int64_t>(row) * args.n_used + lane;
      expert = args.ids[at];
      weight = args.weights[at];
    } else if (lane == args.n_used && args.table.has_shared != 0) {
      expert = args.table.n_experts;
      weight = args.shared_gate != nullptr ? sigmoid(args.shared_gate[row]) : 1.0F;
    }
    if (expert >= 0) {
      down = reinterpret_cast<uintptr_t>(
          matrix_of<&ExpertPointers::down>(args.table, expert, args.table.down_step));
    }
    used = __popc(__ballot_sync(kFullWarp, lane < args.n_used && expert >= 0));
  }
};

/// A warp's units of one kind of expert, every kDownWarps-th: of item `item` of the block a rank
/// and, in the lowest bits, a part of the tile.
struct DownUnits {
  int in_item;  ///< units of an item
  int item = 0;
  int unit;

  __device__ __forceinline__ DownUnits(int units, int first) : in_item(units), unit(first) {
    if (units > 0) {
      settle();
    } else {
      item = 1 << 30;  // beyond all
      unit = 0;
    }
  }

  __device__ __forceinline__ void settle() {
#pragma unroll 1
    while (unit >= in_item) {
      unit -= in_item;
      ++item;
    }
  }

  __device__ __forceinline__ void advance() {
    unit += kDownWarps;
    settle();
  }
};

/// What is the same for all units of a warp in moe_rows_down.
struct DownBlock {
  uint8_t* shared;  ///< the block's dynamic shared memory
  int ranks;
  int first_tile;
  int items;
};

/// One kind of expert in a block of moe_rows_down. Stages follow `first_stage` in the warp's ring.
struct DownKind {
  const MoeRowsKind& kind;
  const ExpertShape& shape;
  bool is_shared;
  int first_stage;
  int shift;  ///< a tile has 1 << shift units of an expert
  uint8_t* stages;

  __device__ __forceinline__ DownKind(const MoeRowsArgs& args, const DownBlock& block,
                                      bool is_shared_kind)
      : kind(is_shared_kind ? args.shared : args.routed),
        shape(is_shared_kind ? args.table.shared : args.table.routed),
        is_shared(is_shared_kind),
        first_stage(is_shared_kind ? args.routed.stages : 0),
        shift(kind.outputs == kMoeRowsDownOutputs ? 1 : 2),
        stages(block.shared + kind.stages_at +
               static_cast<int>(threadIdx.x) / kWarp * kind.stages * kind.stage_bytes) {}

  __device__ __forceinline__ DownUnits units(const LaneExperts& experts) const {
    return {(is_shared ? 1 : experts.used) << shift, static_cast<int>(threadIdx.x) / kWarp};
  }
  __device__ __forceinline__ int rank_of(const MoeRowsArgs& args, int unit) const {
    return is_shared ? args.n_used : unit >> shift;
  }
  __device__ __forceinline__ int first_output(int unit) const {
    return (unit & ((1 << shift) - 1)) * kind.outputs;
  }

  /// Starts the copies of unit `ahead`, if the block has it, and advances to the next.
  __device__ __forceinline__ void copy_next(const MoeRowsArgs& args, const DownBlock& block,
                                            const LaneExperts& experts, BulkRing& ring, int stage,
                                            DownUnits& ahead) const {
    if (ahead.item >= block.items) return;
    const auto row_bytes = static_cast<int>(shape.down_row_bytes);
    const uint64_t matrix = __shfl_sync(kFullWarp, experts.down, rank_of(args, ahead.unit));
    const int first = (block.first_tile + ahead.item) * kMoeRowsDownTile + first_output(ahead.unit);
    ring.begin(first_stage + stage, kind.outputs * row_bytes);
    ring.copy(first_stage + stage, stages + stage * kind.stage_bytes,
              reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(matrix)) +
                  static_cast<int64_t>(first) * row_bytes,
              kind.outputs * row_bytes);
    ahead.advance();
  }
};

/// Multiplies a warp's units of one kind of expert; warm_icache: one, of arbitrary contents.
template <DType kType>
__device__ __forceinline__ void multiply_units(const MoeRowsArgs& args, const DownBlock& block,
                                               const DownKind& of, const LaneExperts& experts,
                                               BulkRing& ring, DownUnits ahead, bool warm_icache) {
  const int half = static_cast<int>(threadIdx.x) / 16 % 2;
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const auto row_bytes = static_cast<int>(of.shape.down_row_bytes);
  const int of_half = of.kind.outputs / 2;
  const int x_blocks = args.h_width / 32;
  const auto* const codebook =
      reinterpret_cast<const uint32_t*>(block.shared + of.kind.codebook_at);
  DownUnits units = of.units(experts);
  int stage = 0;
#pragma unroll 1
  while (warm_icache || units.item < block.items) {
    const int rank = warm_icache ? 0 : of.rank_of(args, units.unit);
    const uint8_t* own = of.stages + stage * of.kind.stage_bytes + half * of_half * row_bytes;
    const HalvedRow x = halved_row_in(block.shared + args.x_at + rank * args.x_bytes, x_blocks);
    float* const out = reinterpret_cast<float*>(block.shared + args.outs_at) +
                       ((warm_icache ? 0 : units.item) * block.ranks + rank) * kMoeRowsDownTile +
                       of.first_output(units.unit) + half * of_half;
    if (!warm_icache) ring.wait(of.first_stage + stage);
#pragma unroll 1
    for (int i = 0; i < (warm_icache ? kDownTogether : of_half); i += kDownTogether) {
      const uint8_t* rows[kDownTogether];
#pragma unroll
      for (int j = 0; j < kDownTogether; ++j) rows[j] = own + j * row_bytes;
      own += kDownTogether * row_bytes;
      float acc[kDownTogether] = {};
      add_partials<kType, kDownTogether, 1>(rows, of.shape.n_ff / 32, warm_icache, lane, x,
                                            codebook, acc);
      const float o = trees_of_16(acc, lane);
      if (lane % (16 / kDownTogether) == 0) out[i + lane / (16 / kDownTogether)] = o;
    }
    if (warm_icache) return;
    __syncwarp();
    of.copy_next(args, block, experts, ring, stage, ahead);
    stage = stage + 1 == of.kind.stages ? 0 : stage + 1;
    units.advance();
  }
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_rows_down, kMoeRowsDownThreads, kMoeRowsDownBlocks, MoeRowsArgs,
                         args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ uint64_t arrived[kDownWarps * 2 * kMoeRowsStages];
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  copy_codebook(args.routed.codebook, args.codebook,
                reinterpret_cast<uint32_t*>(shared + args.routed.codebook_at));
  copy_codebook(args.shared.codebook, args.codebook,
                reinterpret_cast<uint32_t*>(shared + args.shared.codebook_at));
  const int row_index = static_cast<int>(blockIdx.x) / args.blocks_per_row;
  const int part = static_cast<int>(blockIdx.x) - row_index * args.blocks_per_row;
  const int tiles = args.n_embd / kMoeRowsDownTile;
  const int first_tile = first_item(tiles, part, args.blocks_per_row);
  const DownBlock block = {shared, ranks_of(args), first_tile,
                           first_item(tiles, part + 1, args.blocks_per_row) - first_tile};
  const int kinds = 1 + args.table.has_shared;
  // The routing is complete: the previous kernel has waited for it.
  const LaneExperts experts(args, row_index);
  BulkRing ring(arrived + warp * 2 * kMoeRowsStages, args.routed.stages + args.shared.stages,
                args.routed.bulk != 0 && (kinds == 1 || args.shared.bulk != 0));
  DownUnits ahead[2] = {DownKind(args, block, false).units(experts),
                        DownKind(args, block, true).units(experts)};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    if (k >= kinds) break;
    const DownKind of(args, block, k == 1);
#pragma unroll 1
    for (int i = 0; i < of.kind.stages; ++i) {
      of.copy_next(args, block, experts, ring, i, ahead[k]);
    }
  }

  float old = 0;  // of the warp's first item
#pragma unroll 1
  for (int pass = 0; pass < 2 * kinds; ++pass) {
    const bool warm_icache = pass < kinds;
    if (pass == kinds) {
      wait_for_previous_kernel();
      if (warp < block.items) {
        old = args.y[experts.row * args.y_stride + (first_tile + warp) * kMoeRowsDownTile +
                     thread % kWarp];
      }
      const int x_blocks = args.h_width / 32;
#pragma unroll 1
      for (int s = warp; s < block.ranks; s += kDownWarps) {
        const int64_t slot = static_cast<int64_t>(row_index) * block.ranks + s;
        copy_halved_row(rows_from(args.h, slot, x_blocks), x_blocks, thread % kWarp, kWarp,
                        shared + args.x_at + s * args.x_bytes);
      }
      wait_for_copies();
      __syncthreads();
    }
    const bool is_shared = pass - (warm_icache ? 0 : kinds) == 1;
    const DownKind of(args, block, is_shared);
    const DownUnits of_ahead = is_shared ? ahead[1] : ahead[0];
    with_integer_type(static_cast<DType>(of.shape.down_type), [&]<DType kType>() CHIMERE_INLINED {
      multiply_units<kType>(args, block, of, experts, ring, of_ahead, warm_icache);
    });
  }
  __syncthreads();
#pragma unroll 1
  for (int item = warp; item < block.items; item += kDownWarps) {
    const int output = (first_tile + item) * kMoeRowsDownTile + thread % kWarp;
    const float* out = reinterpret_cast<const float*>(shared + args.outs_at) +
                       item * block.ranks * kMoeRowsDownTile + thread % kWarp;
    float* const y = args.y + experts.row * args.y_stride + output;
    if (item != warp) old = *y;
    float t = 0;
#pragma unroll 1
    for (int k = 0; k < experts.used + args.table.has_shared; ++k) {
      const int rank = k < experts.used ? k : args.n_used;
      float o = out[rank * kMoeRowsDownTile];
      if (args.biased != 0 && k < experts.used) {
        const int expert = __shfl_sync(kFullWarp, experts.expert, rank);
        o = biased(o, args.table.experts[expert].down_bias, output);
      }
      t = fmaf(__shfl_sync(kFullWarp, experts.weight, rank), o, t);
    }
    *y = old + t * args.scale;
  }
}

}  // namespace chimere::kernels::cuda
