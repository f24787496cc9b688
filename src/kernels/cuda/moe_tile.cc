#include "kernels/cuda/moe_tile.h"

#include <algorithm>

#include "kernels/cuda/linear_decode_args.h"
#include "kernels/cuda/moe_tile_args.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kMap = {"moe_tile", "moe_tile_map"};
constexpr Kernel kProducts = {"moe_tile", "moe_tile_products"};
constexpr Kernel kCombine = {"moe_tile", "moe_tile_combine"};

/// The kernels' static shared memory, and what the system takes from each block.
constexpr int64_t kOtherSharedBytes = 4 << 10;
/// GPUs whose blocks may have this much hold kMoeTileBlocks blocks with half of it.
constexpr int64_t kLargeSharedBytes = int64_t{160} << 10;

bool takes(const ExpertShape& s) {
  return moe_tile_takes(static_cast<DType>(s.gate_type)) &&
         moe_tile_takes(static_cast<DType>(s.up_type)) &&
         moe_tile_takes(static_cast<DType>(s.down_type));
}

/// Bytes of a unit's weights, whose memory takes its sums later.
int64_t stage_bytes(int64_t row_bytes) {
  constexpr int64_t kSums = int64_t{kPartials} * kRoundedTile * kTileStride * sizeof(float);
  return std::max(kSums, kMoeTileOutputs * tile_row_stride(row_bytes));
}

int64_t slots_of(const ExpertTable& table, int64_t rows, int n_used) {
  return rows * table.slots(n_used);
}

/// Parts of the scratch memory, in falling order of alignment.
struct Scratch {
  RoundedRows h;
  float* out;
  MoeTile* tiles;
  int32_t* slot_at;
  int32_t* n_routed;
  int64_t bytes;

  Scratch(const ExpertTable& table, int64_t slots, int64_t n_embd, uint8_t* memory) {
    const int64_t width = table.h_width();
    h = rounded_rows_at(memory, slots, width);
    uint8_t* at = memory + rounded_bytes(slots, width);
    out = reinterpret_cast<float*>(at);
    at += slots * n_embd * static_cast<int64_t>(sizeof(float));
    tiles = reinterpret_cast<MoeTile*>(at);
    at += slots * static_cast<int64_t>(sizeof(MoeTile));
    slot_at = reinterpret_cast<int32_t*>(at);
    at += slots * static_cast<int64_t>(sizeof(int32_t));
    n_routed = reinterpret_cast<int32_t*>(at);
    at += sizeof(int32_t);
    bytes = at - memory;
  }
};

}  // namespace

std::optional<MoeTilePlan> plan_moe_tiles(const ExpertTable& table, int64_t n_embd,
                                          int64_t shared_bytes) {
  const ExpertTableArgs& t = table.args();
  if (!takes(t.routed) || (t.has_shared != 0 && !takes(t.shared))) return {};
  const int64_t up = stage_bytes(std::max({t.routed.gate_row_bytes, t.routed.up_row_bytes,
                                           t.shared.gate_row_bytes, t.shared.up_row_bytes}));
  const int64_t down = stage_bytes(std::max(t.routed.down_row_bytes, t.shared.down_row_bytes));
  const int64_t limit =
      (shared_bytes >= kLargeSharedBytes ? shared_bytes / kMoeTileBlocks : shared_bytes) -
      kOtherSharedBytes;
  const int64_t x_up = rounded_bytes(kRoundedTile, n_embd);
  const int64_t x_down = rounded_bytes(kRoundedTile, table.h_width());
  for (int stages = kMoeTileStages; stages > 0; --stages) {
    if (std::max(stages * up + x_up, stages * down + x_down) > limit) continue;
    return MoeTilePlan{stages, static_cast<int32_t>(up), static_cast<int32_t>(down)};
  }
  return {};
}

bool prefers_moe_tiles(const ExpertTable& table, int64_t rows, int n_used) {
  const ExpertTableArgs& t = table.args();
  return t.routed.gated == 0 || rows * n_used >= 2 * int64_t{t.n_experts};
}

int64_t moe_tile_scratch_bytes(const ExpertTable& table, int64_t rows, int n_used, int64_t n_embd) {
  return Scratch(table, slots_of(table, rows, n_used), n_embd, nullptr).bytes;
}

void moe_tile(Stream& stream, int multiprocessors, const MoeTilePlan& plan,
              const ExpertTable& table, const RoundedRows& rounded, const RowSet& rows,
              const Routing& routing, const float* shared_gate, const MoeOptions& options,
              uint8_t* scratch, MatrixView y) {
  const int64_t slots = slots_of(table, rows.count, routing.n_used);
  const Scratch parts(table, slots, y.cols, scratch);
  MoeTileArgs args = {};
  args.table = table.args();
  args.x = rounded;
  args.ids = routing.ids;
  args.weights = routing.weights;
  args.shared_gate = shared_gate;
  args.y = y.data;
  args.y_stride = y.stride;
  args.h = parts.h;
  args.out = parts.out;
  args.slot_at = parts.slot_at;
  args.tiles = rows.count > 1 ? parts.tiles : nullptr;
  args.n_routed = parts.n_routed;
  args.row_ids = rows.ids;
  args.activation = options.activation;
  args.scale = options.scale;
  args.rows = rows.count;
  args.n_embd = static_cast<int32_t>(y.cols);
  args.n_used = routing.n_used;
  args.h_width = static_cast<int32_t>(table.h_width());
  args.shared_cost = std::max(1, args.table.shared.n_ff / args.table.routed.n_ff);
  args.stages = plan.stages;
  args.biased = table.biased() ? 1 : 0;

  const int64_t most = int64_t{kMoeTileBlocks} * multiprocessors;
  const auto launch = [&](bool down, int64_t items, int32_t stage, int64_t width) {
    args.down = down ? 1 : 0;
    args.stage_bytes = stage;
    args.x_at = plan.stages * stage;
    stream.launch(
        kProducts,
        {.grid = {static_cast<uint32_t>(std::min(most, items))},
         .block = {kMoeTileThreads},
         .shared_bytes = static_cast<uint32_t>(args.x_at + rounded_bytes(kRoundedTile, width)),
         .overlaps_previous = true},
        args);
  };
  if (args.tiles != nullptr) {
    stream.launch(kMap, {.grid = {1}, .block = {kMoeMapThreads}, .overlaps_previous = true}, args);
  }
  launch(false, slots * args.h_width / kMoeHiddenTile, plan.up_stage_bytes, args.n_embd);
  launch(true, slots * args.n_embd / kMoeTileOutputs, plan.down_stage_bytes, args.h_width);
  stream.launch(kCombine,
                {.grid = {static_cast<uint32_t>((args.n_embd + kMoeTileCombineThreads - 1) /
                                                kMoeTileCombineThreads),
                          static_cast<uint32_t>(rows.count)},
                 .block = {kMoeTileCombineThreads},
                 .overlaps_previous = true},
                args);
}

}  // namespace chimere::kernels::cuda
