// Experts of decode rows with the rows of each expert together, on tensor cores, with the bits of
// rule 4 of docs/numerics.md (decode_tile.h). Bytes: the weights of each expert in use once per
// eight rows. moe_decode.cu reads them once per row instead, in fewer launches.
//
// A unit of work is the product of 16 weight rows with a tile of slots. Blocks stay for the whole
// launch and take consecutive units: while a block multiplies one unit, the copy engine brings the
// weights of the next, also across experts.
#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/decode_tile.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/moe_tile_args.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/bulk_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kColumns = kRoundedTile;
static_assert(kMoeTileThreads / kWarp == kTileWarps && kColumns == kTileWarps);

__device__ __forceinline__ int ranks_of(const MoeTileArgs& args) {
  return args.n_used + args.table.has_shared;
}

__device__ __forceinline__ int row_of_slot(const MoeTileArgs& args, int slot) {
  const int index = slot / ranks_of(args);
  return args.row_ids == nullptr ? index : args.row_ids[index];
}

__device__ __forceinline__ int slot_of(const MoeTileArgs& args, int position) {
  return args.tiles == nullptr ? position : args.slot_at[position];
}

/// Calls f.operator()<type>() for a type of moe_tile_takes().
template <class F>
__device__ __forceinline__ void with_tile_type(DType type, F f) {
  switch (type) {
    case DType::kQ4_0:
      return f.template operator()<DType::kQ4_0>();
    case DType::kQ4_1:
      return f.template operator()<DType::kQ4_1>();
    case DType::kQ5_0:
      return f.template operator()<DType::kQ5_0>();
    case DType::kQ5_1:
      return f.template operator()<DType::kQ5_1>();
    case DType::kQ8_0:
      return f.template operator()<DType::kQ8_0>();
    case DType::kQ4_K:
      return f.template operator()<DType::kQ4_K>();
    case DType::kQ5_K:
      return f.template operator()<DType::kQ5_K>();
    case DType::kQ6_K:
      return f.template operator()<DType::kQ6_K>();
    case DType::kMXFP4:
      return f.template operator()<DType::kMXFP4>();
    case DType::kIQ3_S_UNPACKED:
      return f.template operator()<DType::kIQ3_S_UNPACKED>();
    default:
      return;
  }
}

/// The items of a launch: `parts` of each tile, tiles of routed experts first.
struct Items {
  int routed_tiles;
  int shared_tiles;
  int routed_parts;  ///< of a tile
  int shared_parts;
  int begin;  ///< this block's
  int end;

  /// Shares all items among the blocks by their cost.
  __device__ __forceinline__ void share(int shared_cost) {
    const int64_t routed = static_cast<int64_t>(routed_tiles) * routed_parts;
    const int64_t all = routed + static_cast<int64_t>(shared_tiles) * shared_parts * shared_cost;
    const auto from = [&](int64_t block) CHIMERE_INLINED {
      const int64_t at = all * block / gridDim.x;
      return static_cast<int>(
          at <= routed ? at : routed + (at - routed + shared_cost - 1) / shared_cost);
    };
    begin = from(blockIdx.x);
    end = from(static_cast<int64_t>(blockIdx.x) + 1);
  }
};

/// Where an item is.
struct ItemPlace {
  int tile;
  int part;
};

__device__ __forceinline__ ItemPlace place_of(const Items& items, int item) {
  const int routed = items.routed_tiles * items.routed_parts;
  if (item < routed) return {item / items.routed_parts, item % items.routed_parts};
  const int shared = item - routed;
  return {items.routed_tiles + shared / items.shared_parts, shared % items.shared_parts};
}

__device__ __forceinline__ Items all_items(const MoeTileArgs& args, int routed_parts,
                                           int shared_parts) {
  Items items = {0, 0, routed_parts, shared_parts, 0, 0};
  if (args.tiles == nullptr) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int row = row_of_slot(args, 0);
    const bool used =
        lane < args.n_used && args.ids[static_cast<int64_t>(row) * args.n_used + lane] >= 0;
    items.routed_tiles = __popc(__ballot_sync(kFullWarp, used));
  } else {
    items.routed_tiles = *args.n_routed;
  }
  if (args.table.has_shared != 0) {
    items.shared_tiles = (args.rows + kColumns - 1) / kColumns;
  }
  return items;
}

/// A tile and its expert.
struct TileExpert {
  MoeTile tile;
  bool is_shared;
  ExpertPointers expert;
};

__device__ __forceinline__ TileExpert tile_at(const MoeTileArgs& args, const Items& items,
                                              int index) {
  TileExpert t;
  t.is_shared = index >= items.routed_tiles;
  if (args.tiles != nullptr) {
    t.tile = args.tiles[index];
  } else {
    const int64_t first = static_cast<int64_t>(row_of_slot(args, 0)) * args.n_used;
    t.tile = {t.is_shared ? args.table.n_experts : args.ids[first + index],
              t.is_shared ? args.n_used : index, 1};
  }
  t.expert = args.table.experts[t.tile.expert];
  return t;
}

/// The weights of a unit.
struct UnitWeights {
  const uint8_t* rows;
  int row_bytes;
  DType type;
};

/// Starts copying the tile's rows of `from`, of `blocks` blocks, row(column) being the index of the
/// first block of a column's row. All threads.
template <class RowOf>
__device__ __forceinline__ void stage_columns(const RoundedRows& from, int blocks, int count,
                                              int8_t* q, RoundedBlock* of_blocks, RowOf row) {
  const auto column = static_cast<int>(threadIdx.x) % kColumns;
  if (column >= count) return;
  const int64_t first = row(column);
  for (int block = static_cast<int>(threadIdx.x) / kColumns; block < blocks;
       block += kMoeTileThreads / kColumns) {
    const int at = block * kColumns + column;
    const auto* const integers = reinterpret_cast<const uint8_t*>(from.q + (first + block) * 32);
    auto* const to = reinterpret_cast<uint8_t*>(q + at * 32);
    copy_async<16>(to, integers);
    copy_async<16>(to + 16, integers + 16);
    copy_async<8>(reinterpret_cast<uint8_t*>(of_blocks + at),
                  reinterpret_cast<const uint8_t*>(from.blocks + first + block));
  }
}

/// Computes the units of this block's items.
///   units(tile): units of an item
///   weights(tile, part, unit): the unit's weights
///   columns(tile, q, blocks): starts copying the tile's columns, returns their blocks of 32
///   put(tile, part, unit, column, output, value): one product; by threads of any warp
///   finish(tile, part, unit): after a barrier that follows all put() of the unit
template <class Units, class Weights, class Columns, class Put, class Finish>
__device__ __forceinline__ void run_items(const MoeTileArgs& args, const Items& items,
                                          uint8_t* shared, uint64_t* arrived, bool copies_first,
                                          Units units, Weights weights, Columns columns, Put put,
                                          Finish finish) {
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  RingCopies copies(arrived + warp * kMoeTileStages, args.stages);
  auto* const q = reinterpret_cast<int8_t*>(shared + args.x_at);

  // The unit whose copies start next.
  int ahead_item = items.begin;
  int ahead_unit = 0;
  int ahead_tile = -1;
  TileExpert ahead = {};
  const auto copy_next = [&](int stage) CHIMERE_INLINED {
    if (ahead_item >= items.end) return;
    const ItemPlace place = place_of(items, ahead_item);
    if (place.tile != ahead_tile) {
      ahead_tile = place.tile;
      ahead = tile_at(args, items, place.tile);
    }
    const UnitWeights w = weights(ahead, place.part, ahead_unit);
    copies.copy(stage, shared + stage * args.stage_bytes,
                static_cast<int>(tile_row_stride(w.row_bytes)), w.rows, w.row_bytes, warp,
                kTileWarps, kMoeTileOutputs);
    if (++ahead_unit == units(ahead)) {
      ahead_unit = 0;
      ++ahead_item;
    }
  };
#pragma unroll 1
  for (int i = 0; i < args.stages; ++i) copy_next(i);
  if (copies_first) wait_for_previous_kernel();

  int tile_index = -1;
  TileExpert tile = {};
  StagedColumns staged = {q, nullptr, 0};
  int stage = 0;
#pragma unroll 1
  for (int item = items.begin; item < items.end; ++item) {
    const ItemPlace place = place_of(items, item);
    if (place.tile != tile_index) {
      tile_index = place.tile;
      tile = tile_at(args, items, place.tile);
      staged.blocks = columns(tile, q);
      staged.of_blocks = reinterpret_cast<const RoundedBlock*>(q + kColumns * 32 * staged.blocks);
    }
    const int n = units(tile);
#pragma unroll 1
    for (int unit = 0; unit < n; ++unit) {
      const UnitWeights w = weights(tile, place.part, unit);
      uint8_t* const own = shared + stage * args.stage_bytes;
      copies.wait(stage);
      __syncthreads();
      TileSums<1> sums = {};
      with_tile_type(w.type, [&]<DType kType>() CHIMERE_INLINED {
        multiply_tile<kType>(own, static_cast<int>(tile_row_stride(w.row_bytes)), staged, nullptr,
                             sums);
      });
      auto* const shown = reinterpret_cast<float*>(own);
      share_sums(sums, shown);
      const int column = thread / kMoeTileOutputs;
      const int output = thread % kMoeTileOutputs;
      if (column < tile.tile.count) {
        put(tile, place.part, unit, column, output, sum_of<1>(shown, column, output));
      }
      before_bulk_copies();
      __syncthreads();
      copy_next(stage);
      finish(tile, place.part, unit);
      stage = stage + 1 == args.stages ? 0 : stage + 1;
    }
  }
}

}  // namespace

CHIMERE_KERNEL(moe_tile_map, kMoeMapThreads, MoeTileArgs, args) {
  __shared__ int counts[kMoeMapThreads];
  __shared__ uint32_t sums[kMoeMapThreads / kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int slots = args.rows * ranks_of(args);
  const auto expert_of = [&](int slot) CHIMERE_INLINED {
    const int rank = slot % ranks_of(args);
    if (rank == args.n_used) return args.table.n_experts;
    return args.ids[static_cast<int64_t>(row_of_slot(args, slot)) * args.n_used + rank];
  };
  counts[thread] = 0;
  __syncthreads();
  wait_for_previous_kernel();
  let_next_kernel_start();
  for (int slot = thread; slot < slots; slot += kMoeMapThreads) {
    const int expert = expert_of(slot);
    if (expert >= 0) atomicAdd(&counts[expert], 1);
  }
  __syncthreads();
  // Prefix sums of slots, in the low half of a word, and of tiles, in the high one.
  const int count = counts[thread];
  const int tiles = (count + kColumns - 1) / kColumns;
  const uint32_t own = static_cast<uint32_t>(count) | static_cast<uint32_t>(tiles) << 16U;
  uint32_t sum = own;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const uint32_t left = __shfl_up_sync(kFullWarp, sum, distance);
    if (lane >= distance) sum += left;
  }
  if (lane == kWarp - 1) sums[thread / kWarp] = sum;
  __syncthreads();
  for (int warp = 0; warp < thread / kWarp; ++warp) sum += sums[warp];
  const auto begin = static_cast<int>((sum - own) & 0xFFFFU);
  const auto first = static_cast<int>((sum - own) >> 16U);
  for (int i = 0; i < tiles; ++i) {
    const int done = i * kColumns;
    args.tiles[first + i] = {thread, begin + done, min(kColumns, count - done)};
  }
  if (thread == args.table.n_experts) *args.n_routed = first;
  counts[thread] = begin;  // the expert's next position; their order does not affect results
  __syncthreads();
  for (int slot = thread; slot < slots; slot += kMoeMapThreads) {
    const int expert = expert_of(slot);
    if (expert >= 0) args.slot_at[atomicAdd(&counts[expert], 1)] = slot;
  }
}

CHIMERE_KERNEL_OF_BLOCKS(moe_tile_up, kMoeTileThreads, kMoeTileBlocks, MoeTileArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ uint64_t arrived[kTileWarps * kMoeTileStages];
  __shared__ float products[2][kColumns][kMoeHiddenTile];  // of gate or without a gate up, of up
  // Waits before it lets the next kernel start: the map is complete when that kernel starts.
  wait_for_previous_kernel();
  let_next_kernel_start();
  Items items = all_items(args, args.table.routed.n_ff / kMoeHiddenTile,
                          args.table.shared.n_ff / kMoeHiddenTile);
  items.share(1);
  const auto shape_of = [&](const TileExpert& t) CHIMERE_INLINED -> const ExpertShape& {
    return t.is_shared ? args.table.shared : args.table.routed;
  };
  // A gated item has units of gate and up in turns.
  const auto matrix_of = [&](const TileExpert& t, int unit)
                             CHIMERE_INLINED { return shape_of(t).gated != 0 ? unit % 2 : 0; };
  const auto half_of = [&](const TileExpert& t, int unit)
                           CHIMERE_INLINED { return shape_of(t).gated != 0 ? unit / 2 : unit; };
  const auto units = [&](const TileExpert& t)
                         CHIMERE_INLINED { return shape_of(t).gated != 0 ? 4 : 2; };
  const auto weights = [&](const TileExpert& t, int part, int unit) CHIMERE_INLINED {
    const ExpertShape& shape = shape_of(t);
    const bool is_up = matrix_of(t, unit) == 1;
    const int64_t bytes = is_up ? shape.up_row_bytes : shape.gate_row_bytes;
    const int first = part * kMoeHiddenTile + half_of(t, unit) * kMoeTileOutputs;
    return UnitWeights{(is_up ? t.expert.up : t.expert.gate) + first * bytes,
                       static_cast<int>(bytes),
                       static_cast<DType>(is_up ? shape.up_type : shape.gate_type)};
  };
  const int blocks = args.n_embd / 32;
  const auto columns = [&](const TileExpert& t, int8_t* q) CHIMERE_INLINED {
    auto* const of_blocks = reinterpret_cast<RoundedBlock*>(q + kColumns * args.n_embd);
    stage_columns(args.x, blocks, t.tile.count, q, of_blocks, [&](int column) CHIMERE_INLINED {
      const int slot = slot_of(args, t.tile.begin + column);
      return static_cast<int64_t>(row_of_slot(args, slot)) * blocks;
    });
    return blocks;
  };
  const auto put = [&](const TileExpert& t, int /*part*/, int unit, int column, int output,
                       float value) CHIMERE_INLINED {
    products[matrix_of(t, unit)][column][half_of(t, unit) * kMoeTileOutputs + output] = value;
  };
  const auto finish = [&](const TileExpert& t, int part, int unit) CHIMERE_INLINED {
    const int column = static_cast<int>(threadIdx.x) / kWarp;
    if (unit + 1 < units(t) || column >= t.tile.count) return;
    const ExpertShape& shape = shape_of(t);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const float gate = products[0][column][lane];
    const float up = shape.gated != 0 ? products[1][column][lane] : gate;
    const float h =
        hidden(args.activation, shape, t.expert, part * kMoeHiddenTile + lane, gate, up);
    const int64_t slot = slot_of(args, t.tile.begin + column);
    round_block(h, lane, slot * (args.h_width / kWarp) + part, args.h);
  };
  run_items(args, items, shared, arrived, /*copies_first=*/false, units, weights, columns, put,
            finish);
}

CHIMERE_KERNEL_OF_BLOCKS(moe_tile_down, kMoeTileThreads, kMoeTileBlocks, MoeTileArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ uint64_t arrived[kTileWarps * kMoeTileStages];
  let_next_kernel_start();
  const int parts = args.n_embd / kMoeTileOutputs;
  Items items = all_items(args, parts, parts);
  items.share(args.shared_cost);
  const auto shape_of = [&](const TileExpert& t) CHIMERE_INLINED -> const ExpertShape& {
    return t.is_shared ? args.table.shared : args.table.routed;
  };
  const auto units = [](const TileExpert& /*t*/) CHIMERE_INLINED { return 1; };
  const auto weights = [&](const TileExpert& t, int part, int /*unit*/) CHIMERE_INLINED {
    const ExpertShape& shape = shape_of(t);
    return UnitWeights{t.expert.down + part * kMoeTileOutputs * shape.down_row_bytes,
                       static_cast<int>(shape.down_row_bytes), static_cast<DType>(shape.down_type)};
  };
  const auto columns = [&](const TileExpert& t, int8_t* q) CHIMERE_INLINED {
    const int blocks = shape_of(t).n_ff / 32;
    auto* const of_blocks = reinterpret_cast<RoundedBlock*>(q + kColumns * 32 * blocks);
    stage_columns(args.h, blocks, t.tile.count, q, of_blocks, [&](int column) CHIMERE_INLINED {
      return static_cast<int64_t>(slot_of(args, t.tile.begin + column)) * (args.h_width / 32);
    });
    return blocks;
  };
  const auto put = [&](const TileExpert& t, int part, int /*unit*/, int column, int output,
                       float value) CHIMERE_INLINED {
    const int64_t slot = slot_of(args, t.tile.begin + column);
    args.out[slot * args.n_embd + part * kMoeTileOutputs + output] = value;
  };
  const auto finish = [](const TileExpert& /*t*/, int /*part*/, int /*unit*/) CHIMERE_INLINED {};
  run_items(args, items, shared, arrived, /*copies_first=*/true, units, weights, columns, put,
            finish);
}

/// Rule 7 of docs/numerics.md.
CHIMERE_KERNEL(moe_tile_combine, kMoeTileCombineThreads, MoeTileArgs, args) {
  let_next_kernel_start();
  const int o =
      static_cast<int>(blockIdx.x) * kMoeTileCombineThreads + static_cast<int>(threadIdx.x);
  const auto index = static_cast<int>(blockIdx.y);
  const int row = row_of_slot(args, index * ranks_of(args));
  wait_for_previous_kernel();
  if (o >= args.n_embd) return;
  const float* out = args.out + static_cast<int64_t>(index) * ranks_of(args) * args.n_embd + o;
  const int64_t first = static_cast<int64_t>(row) * args.n_used;
  float t = 0;
#pragma unroll 4
  for (int k = 0; k < args.n_used; ++k) {
    const int expert = args.ids[first + k];
    if (expert < 0) break;
    float v = out[static_cast<int64_t>(k) * args.n_embd];
    if (args.biased != 0) v = biased(v, args.table.experts[expert].down_bias, o);
    t = fmaf(args.weights[first + k], v, t);
  }
  if (args.table.has_shared != 0) {
    const float weight = args.shared_gate != nullptr ? sigmoid(args.shared_gate[row]) : 1.0F;
    t = fmaf(weight, out[static_cast<int64_t>(args.n_used) * args.n_embd], t);
  }
  float* y = args.y + row * args.y_stride + o;
  *y = *y + t * args.scale;
}

}  // namespace chimere::kernels::cuda
