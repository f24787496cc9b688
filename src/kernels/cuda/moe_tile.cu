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
inline constexpr int kCacheLine = 128;
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

/// The items of a launch, `parts` of each tile, tiles of routed experts first.
struct Items {
  int routed_tiles;
  int shared_tiles;
  int routed_parts;  ///< of a tile
  int shared_parts;
  int begin;  ///< this block's
  int end;
};

/// All items, and those of this block, which is a share by their costs.
__device__ __forceinline__ Items all_items(const MoeTileArgs& args) {
  Items items = {};
  if (args.tiles == nullptr) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int row = row_of_slot(args, 0);
    const bool used =
        lane < args.n_used && args.ids[static_cast<int64_t>(row) * args.n_used + lane] >= 0;
    items.routed_tiles = __popc(__ballot_sync(kFullWarp, used));
  } else {
    items.routed_tiles = *args.n_routed;
  }
  if (args.table.has_shared != 0) items.shared_tiles = (args.rows + kColumns - 1) / kColumns;
  const bool down = args.down != 0;
  items.routed_parts =
      down ? args.n_embd / kMoeTileOutputs : args.table.routed.n_ff / kMoeHiddenTile;
  items.shared_parts = down ? items.routed_parts : args.table.shared.n_ff / kMoeHiddenTile;

  // A shared expert's row of down is longer.
  const int cost = down ? args.shared_cost : 1;
  const int routed = items.routed_tiles * items.routed_parts;
  const int64_t all = routed + int64_t{items.shared_tiles} * items.shared_parts * cost;
  const auto from = [&](int64_t block) CHIMERE_INLINED {
    const auto at = static_cast<int>(all * block / gridDim.x);
    return at <= routed ? at : routed + (at - routed + cost - 1) / cost;
  };
  items.begin = from(blockIdx.x);
  items.end = from(static_cast<int64_t>(blockIdx.x) + 1);
  return items;
}

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

__device__ __forceinline__ const ExpertShape& shape_of(const MoeTileArgs& args,
                                                       const TileExpert& t) {
  return t.is_shared ? args.table.shared : args.table.routed;
}

/// Units of an item: 16 outputs of the down product, or 32 elements of h, for which units of gate
/// and up take turns.
__device__ __forceinline__ int units_of(const MoeTileArgs& args, const TileExpert& t) {
  if (args.down != 0) return 1;
  return shape_of(args, t).gated != 0 ? 4 : 2;
}

/// Of a unit for h: 0 is gate, or up without a gate; 1 is up.
__device__ __forceinline__ int matrix_of(const ExpertShape& shape, int unit) {
  return shape.gated != 0 ? unit % 2 : 0;
}
/// The first of a unit's 16 elements of h in its item.
__device__ __forceinline__ int begin_of(const ExpertShape& shape, int unit) {
  return (shape.gated != 0 ? unit / 2 : unit) * kMoeTileOutputs;
}

__device__ __forceinline__ UnitWeights weights_of(const MoeTileArgs& args, const TileExpert& t,
                                                  int part, int unit) {
  const ExpertShape& shape = shape_of(args, t);
  if (args.down != 0) {
    return {t.expert.down + part * kMoeTileOutputs * shape.down_row_bytes,
            static_cast<int>(shape.down_row_bytes), static_cast<DType>(shape.down_type)};
  }
  const bool is_up = matrix_of(shape, unit) == 1;
  const int64_t bytes = is_up ? shape.up_row_bytes : shape.gate_row_bytes;
  const int first = part * kMoeHiddenTile + begin_of(shape, unit);
  return {(is_up ? t.expert.up : t.expert.gate) + first * bytes, static_cast<int>(bytes),
          static_cast<DType>(is_up ? shape.up_type : shape.gate_type)};
}

/// Starts copying the tile's rows of x or h to `q`. All threads.
__device__ __forceinline__ StagedColumns stage_columns(const MoeTileArgs& args, const TileExpert& t,
                                                       int8_t* q) {
  const int blocks = (args.down != 0 ? shape_of(args, t).n_ff : args.n_embd) / 32;
  auto* const of_blocks = reinterpret_cast<RoundedBlock*>(q + kColumns * 32 * blocks);
  const StagedColumns staged = {q, of_blocks, blocks};
  const auto column = static_cast<int>(threadIdx.x) % kColumns;
  if (column >= t.tile.count) return staged;
  const RoundedRows& from = args.down != 0 ? args.h : args.x;
  const int slot = slot_of(args, t.tile.begin + column);
  const int64_t first = args.down != 0 ? static_cast<int64_t>(slot) * (args.h_width / 32)
                                       : static_cast<int64_t>(row_of_slot(args, slot)) * blocks;
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
  return staged;
}

/// An item's products with gate (without a gate, with up) and with up.
using HiddenProducts = float[2][kColumns][kMoeHiddenTile];

/// Rounds the item's elements of h. All threads.
__device__ __forceinline__ void put_hidden(const MoeTileArgs& args, const TileExpert& t, int part,
                                           const HiddenProducts& products) {
  const int column = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (column >= t.tile.count) return;
  const ExpertShape& shape = shape_of(args, t);
  const float gate = products[0][column][lane];
  const float up = shape.gated != 0 ? products[1][column][lane] : gate;
  const float h = hidden(args.activation, shape, t.expert, part * kMoeHiddenTile + lane, gate, up);
  const int64_t slot = slot_of(args, t.tile.begin + column);
  round_block(h, lane, slot * (args.h_width / kWarp) + part, args.h);
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

/// The products for h, or with down (args.down): one kernel, so that the second launch finds its
/// instructions in the caches. The first warms them on arbitrary contents of shared memory before
/// its input is ready.
CHIMERE_KERNEL_OF_BLOCKS(moe_tile_products, kMoeTileThreads, kMoeTileBlocks, MoeTileArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ uint64_t arrived[kTileWarps * kMoeTileStages];
  __shared__ HiddenProducts products;
  const bool down = args.down != 0;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  if (down) let_next_kernel_start();
  RingCopies copies(arrived + warp * kMoeTileStages, args.stages);
  auto* const q = reinterpret_cast<int8_t*>(shared + args.x_at);

  Items items = {};
  // The unit whose copies start next.
  int ahead_item = 0;
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
    const UnitWeights w = weights_of(args, ahead, place.part, ahead_unit);
    copies.copy(stage, shared + stage * args.stage_bytes,
                static_cast<int>(tile_row_stride(w.row_bytes)), w.rows, w.row_bytes, warp,
                kTileWarps, kMoeTileOutputs);
    if (++ahead_unit == units_of(args, ahead)) {
      ahead_unit = 0;
      ++ahead_item;
    }
  };

  // The addresses of all experts, into the nearest cache.
  const auto* const addresses = reinterpret_cast<const uint8_t*>(args.table.experts);
  const int address_bytes =
      (args.table.n_experts + args.table.has_shared) * static_cast<int>(sizeof(ExpertPointers));
  for (int i = kCacheLine * thread; !down && i < address_bytes; i += kCacheLine * kMoeTileThreads) {
    prefetch_near(addresses + i);
  }
  bool warm_icache = !down;
  bool begun = false;
  int item = 0;
  int unit = 0;
  int stage = 0;
  int tile_index = -1;
  TileExpert tile = {};
  StagedColumns staged = {};
#pragma unroll 1
  while (true) {
    if (!warm_icache && !begun) {
      begun = true;
      // The launch for h waits before it lets the next one start: the map is complete when that
      // one starts.
      if (!down) {
        wait_for_previous_kernel();
        let_next_kernel_start();
      }
      items = all_items(args);
      item = ahead_item = items.begin;
#pragma unroll 1
      for (int i = 0; i < args.stages; ++i) copy_next(i);
      if (down) wait_for_previous_kernel();
    }
    if (!warm_icache && item >= items.end) return;
    ItemPlace place = {};
    UnitWeights w = {};
    if (warm_icache) {
      w = weights_of(args, tile, 0, 0);
      const int blocks = min(args.n_embd / 32, 2 * kTileWarps);
      staged = {q, reinterpret_cast<const RoundedBlock*>(q + kColumns * 32 * blocks), blocks};
    } else {
      place = place_of(items, item);
      if (place.tile != tile_index) {
        tile_index = place.tile;
        tile = tile_at(args, items, place.tile);
        // All tiles of one row have the same x.
        const bool known = args.tiles == nullptr && !down && item > items.begin;
        if (!known) staged = stage_columns(args, tile, q);
      }
      w = weights_of(args, tile, place.part, unit);
      copies.wait(stage);
    }
    __syncthreads();
    uint8_t* const own = shared + stage * args.stage_bytes;
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
      const float value = sum_of<1>(shown, column, output);
      if (down) {
        const int64_t slot = slot_of(args, tile.tile.begin + column);
        args.out[slot * args.n_embd + place.part * kMoeTileOutputs + output] = value;
      } else {
        const ExpertShape& shape = shape_of(args, tile);
        products[matrix_of(shape, unit)][column][begin_of(shape, unit) + output] = value;
      }
    }
    before_bulk_copies();
    __syncthreads();
    if (warm_icache) {
      warm_icache = false;
      continue;
    }
    copy_next(stage);
    stage = stage + 1 == args.stages ? 0 : stage + 1;
    if (++unit < units_of(args, tile)) continue;
    if (!down) put_hidden(args, tile, place.part, products);
    unit = 0;
    ++item;
  }
}

/// Rule 7 of docs/numerics.md. The first kCombined ranks are read at once.
inline constexpr int kCombined = 8;
CHIMERE_KERNEL(moe_tile_combine, kMoeTileCombineThreads, MoeTileArgs, args) {
  let_next_kernel_start();
  const int o =
      static_cast<int>(blockIdx.x) * kMoeTileCombineThreads + static_cast<int>(threadIdx.x);
  const auto index = static_cast<int>(blockIdx.y);
  const int row = row_of_slot(args, index * ranks_of(args));
  const int64_t first = static_cast<int64_t>(row) * args.n_used;
  // The routing is complete: the products with down start after those for h have waited for it.
  int expert[kCombined];
  float weight[kCombined];
#pragma unroll
  for (int k = 0; k < kCombined; ++k) {
    expert[k] = k < args.n_used ? args.ids[first + k] : -1;
    weight[k] = k < args.n_used ? args.weights[first + k] : 0;
  }
  wait_for_previous_kernel();
  if (o >= args.n_embd) return;
  const float* out = args.out + static_cast<int64_t>(index) * ranks_of(args) * args.n_embd + o;
  float dots[kCombined];
#pragma unroll
  for (int k = 0; k < kCombined; ++k) {
    dots[k] = expert[k] >= 0 ? out[static_cast<int64_t>(k) * args.n_embd] : 0;
  }
  float t = 0;
  const auto add = [&](int of, float by, float v) CHIMERE_INLINED {
    if (args.biased != 0) v = biased(v, args.table.experts[of].down_bias, o);
    t = fmaf(by, v, t);
  };
#pragma unroll
  for (int k = 0; k < kCombined; ++k) {
    if (expert[k] >= 0) add(expert[k], weight[k], dots[k]);
  }
  for (int k = kCombined; k < args.n_used && args.ids[first + k] >= 0; ++k) {
    add(args.ids[first + k], args.weights[first + k], out[static_cast<int64_t>(k) * args.n_embd]);
  }
  if (args.table.has_shared != 0) {
    const float shared = args.shared_gate != nullptr ? sigmoid(args.shared_gate[row]) : 1.0F;
    t = fmaf(shared, out[static_cast<int64_t>(args.n_used) * args.n_embd], t);
  }
  float* y = args.y + row * args.y_stride + o;
  *y = *y + t * args.scale;
}

}  // namespace chimere::kernels::cuda
