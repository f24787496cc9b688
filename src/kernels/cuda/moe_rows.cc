#include "kernels/cuda/moe_rows.h"

#include <algorithm>

#include "kernels/cuda/moe_rows_args.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kGateUp = {"moe_rows", "moe_rows_gate_up"};
constexpr Kernel kDown = {"moe_rows", "moe_rows_down"};

/// Static shared memory of a block, and what the system takes from it.
constexpr int64_t kOtherSharedBytes = 3 << 10;
/// GPUs whose blocks may have this much divide it among several blocks.
constexpr int64_t kLargeSharedBytes = int64_t{160} << 10;

/// With two rows moe_decode.cu is faster: 0.15 ms a step for 35B-A3B's shapes on an H200.
constexpr int64_t kLeastRows = 3;

int64_t round_up(int64_t bytes) { return (bytes + 15) / 16 * 16; }

CodebookPlace codebook_of(int32_t type) { return codebook_place(static_cast<DType>(type)); }

bool takes(const ExpertShape& s) {
  const auto is_rounded = [](int32_t type) { return scale_group(static_cast<DType>(type)) != 0; };
  return s.gate_type == s.up_type && is_rounded(s.gate_type) && is_rounded(s.down_type);
}

/// A kind of expert in a launch, as far as it does not depend on what else is in shared memory.
MoeRowsKind kind_of(int32_t type, int64_t unit_bytes, int64_t copy_bytes) {
  MoeRowsKind kind = {};
  kind.codebook = codebook_of(type);
  kind.stage_bytes = static_cast<int32_t>(round_up(unit_bytes));
  kind.bulk = copy_bytes % 16 == 0 ? 1 : 0;
  return kind;
}

/// The most dynamic shared memory of a block.
int64_t limit_of(int64_t shared_bytes, int blocks) {
  return (shared_bytes >= kLargeSharedBytes ? shared_bytes / blocks : shared_bytes) -
         kOtherSharedBytes;
}

/// Sets the stages of `warps` warps to as many as `limit` takes after `begin` bytes and returns
/// where they end; 0: two do not fit.
int64_t place_stages(MoeRowsKind& kind, int64_t begin, int64_t limit, int warps) {
  const int64_t of_stage = int64_t{warps} * kind.stage_bytes;
  const int64_t stages = std::min<int64_t>(kMoeRowsStages, (limit - begin) / of_stage);
  if (stages < 2) return 0;
  kind.stages_at = static_cast<int32_t>(begin);
  kind.stages = static_cast<int32_t>(stages);
  return begin + stages * of_stage;
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rows whose consecutive items, `per_row` for each, a block can have.
int64_t rows_of_block(int64_t items, int64_t blocks, int64_t per_row, int64_t rows) {
  if (items == 0) return 0;
  return std::min(rows, (divide_up(items, blocks) + per_row - 2) / per_row + 1);
}

/// A multiprocessor's blocks stay, so the shared expert's get as many as their bytes deserve.
std::optional<MoeRowsLaunch> plan_gate_up(const ExpertTableArgs& t, int64_t rows, int n_used,
                                          int64_t n_embd, int multiprocessors,
                                          int64_t shared_bytes) {
  MoeRowsLaunch launch;
  const auto kind = [&](const ExpertShape& shape, int64_t slots) {
    const int64_t copy = kMoeRowsHidden * shape.gate_row_bytes;
    MoeRowsKind k = kind_of(shape.gate_type, 2 * copy, copy);
    k.tiles = shape.n_ff / kMoeHiddenTile;
    k.items = static_cast<int32_t>(slots * k.tiles);
    return k;
  };
  launch.routed = kind(t.routed, rows * n_used);
  if (t.has_shared != 0) launch.shared = kind(t.shared, rows);
  const int64_t routed = launch.routed.items;
  const int64_t shared = launch.shared.items;
  int64_t blocks =
      std::min(routed + shared, int64_t{kMoeRowsGateUpBlocks} * std::max(multiprocessors, 1));
  if (shared > 0) {
    const int64_t cost = shared * t.shared.gate_row_bytes;
    const int64_t of_shared =
        divide_up(blocks * cost, cost + routed * int64_t{t.routed.gate_row_bytes});
    launch.shared_blocks =
        static_cast<int32_t>(std::clamp<int64_t>(of_shared, 1, std::min(shared, blocks - 1)));
  }
  blocks = std::min(blocks, launch.shared_blocks + routed);
  launch.blocks = static_cast<int32_t>(blocks);
  const int64_t x_rows =
      std::max(rows_of_block(routed, blocks - launch.shared_blocks,
                             int64_t{n_used} * launch.routed.tiles, rows),
               rows_of_block(shared, std::max(launch.shared_blocks, 1), launch.shared.tiles, rows));
  // A block has one of the codebooks, and its warps' rings have room for either kind.
  launch.x_at = 4 * std::max(launch.routed.codebook.words, launch.shared.codebook.words);
  launch.x_bytes = moe_rows_x_bytes(static_cast<int>(n_embd / 32));
  const int64_t stages_at = launch.x_at + x_rows * launch.x_bytes;
  const int32_t stage_bytes = std::max(launch.routed.stage_bytes, launch.shared.stage_bytes);
  launch.routed.stage_bytes = stage_bytes;
  launch.shared.stage_bytes = stage_bytes;
  launch.shared_bytes =
      place_stages(launch.routed, stages_at, limit_of(shared_bytes, kMoeRowsGateUpBlocks),
                   kMoeRowsGateUpThreads / 32);
  if (launch.shared_bytes == 0) return {};
  launch.shared.stages_at = launch.routed.stages_at;
  launch.shared.stages = launch.routed.stages;
  return launch;
}

/// `outputs`: of a unit of the routed experts.
std::optional<MoeRowsLaunch> plan_down(const ExpertTableArgs& t, int64_t rows, int64_t ranks,
                                       int64_t h_width, int64_t n_embd, int multiprocessors,
                                       int64_t shared_bytes, int outputs) {
  MoeRowsLaunch launch;
  const auto kind = [](const ExpertShape& shape, int of_unit) {
    const int64_t copy = of_unit * shape.down_row_bytes;
    MoeRowsKind k = kind_of(shape.down_type, copy, copy);
    k.outputs = of_unit;
    return k;
  };
  constexpr int kWarps = kMoeRowsDownThreads / 32;
  launch.routed = kind(t.routed, outputs);
  launch.shared.codebook_at = 4 * launch.routed.codebook.words;
  const int64_t tiles = n_embd / kMoeRowsDownTile;
  const int64_t resident = int64_t{kMoeRowsDownBlocks} * std::max(multiprocessors, 1);
  const int64_t per_row = std::clamp<int64_t>(resident / rows, 1, tiles);
  const int64_t items = divide_up(tiles, per_row);
  launch.blocks_per_row = static_cast<int32_t>(per_row);
  launch.blocks = static_cast<int32_t>(rows * per_row);
  int64_t stages_at = launch.shared.codebook_at;
  if (t.has_shared != 0) {
    const int32_t codebook_at = launch.shared.codebook_at;
    launch.shared = kind(t.shared, kMoeRowsDownFewerOutputs);
    launch.shared.codebook_at = codebook_at;
    stages_at += 4 * launch.shared.codebook.words;
  }
  launch.outs_at = static_cast<int32_t>(stages_at);
  launch.x_at = launch.outs_at +
                static_cast<int32_t>(items * ranks * kMoeRowsDownTile * int64_t{sizeof(float)});
  launch.x_bytes = moe_rows_x_bytes(static_cast<int>(h_width / 32));
  stages_at = launch.x_at + ranks * launch.x_bytes;
  if (t.has_shared != 0) {
    launch.shared.stages_at = static_cast<int32_t>(stages_at);
    launch.shared.stages = 1;  // a warp has one or two units
    stages_at += int64_t{kWarps} * launch.shared.stages * launch.shared.stage_bytes;
  }
  launch.shared_bytes =
      place_stages(launch.routed, stages_at, limit_of(shared_bytes, kMoeRowsDownBlocks), kWarps);
  if (launch.shared_bytes == 0) return {};
  return launch;
}

}  // namespace

std::optional<MoeRowsPlan> plan_moe_rows(const ExpertTable& table, int64_t rows, int n_used,
                                         int64_t n_embd, int multiprocessors,
                                         int64_t shared_bytes) {
  const ExpertTableArgs& t = table.args();
  if (rows < kLeastRows || n_embd % kMoeRowsDownTile != 0 || !takes(t.routed)) return {};
  if (t.has_shared != 0 && !takes(t.shared)) return {};
  const auto gate_up = plan_gate_up(t, rows, n_used, n_embd, multiprocessors, shared_bytes);
  if (!gate_up) return {};
  for (const int outputs : {kMoeRowsDownOutputs, kMoeRowsDownFewerOutputs}) {
    const auto down = plan_down(t, rows, table.slots(n_used), table.h_width(), n_embd,
                                multiprocessors, shared_bytes, outputs);
    if (down) return MoeRowsPlan{*gate_up, *down};
  }
  return {};
}

void moe_rows(Stream& stream, const MoeRowsPlan& plan, const ExpertTable& table,
              const RoundedRows& rounded, const RowSet& rows, const Routing& routing,
              const float* shared_gate, const MoeOptions& options, const uint32_t* codebook,
              uint8_t* scratch, MatrixView y) {
  MoeRowsArgs args = {};
  args.table = table.args();
  args.x = rounded;
  args.ids = routing.ids;
  args.weights = routing.weights;
  args.shared_gate = shared_gate;
  args.y = y.data;
  args.y_stride = y.stride;
  args.h = rounded_rows_at(scratch, rows.count * table.slots(routing.n_used), table.h_width());
  args.row_ids = rows.ids;
  args.codebook = codebook;
  args.activation = options.activation;
  args.scale = options.scale;
  args.n_embd = static_cast<int32_t>(y.cols);
  args.n_used = routing.n_used;
  args.h_width = static_cast<int32_t>(table.h_width());
  args.biased = table.biased() ? 1 : 0;
  const auto launch = [&](const Kernel& kernel, const MoeRowsLaunch& of, int threads) {
    args.routed = of.routed;
    args.shared = of.shared;
    args.shared_blocks = of.shared_blocks;
    args.blocks_per_row = of.blocks_per_row;
    args.outs_at = of.outs_at;
    args.x_at = of.x_at;
    args.x_bytes = of.x_bytes;
    stream.launch(kernel,
                  {.grid = {static_cast<uint32_t>(of.blocks)},
                   .block = {static_cast<uint32_t>(threads)},
                   .shared_bytes = static_cast<uint32_t>(of.shared_bytes),
                   .overlaps_previous = true},
                  args);
  };
  launch(kGateUp, plan.gate_up, kMoeRowsGateUpThreads);
  launch(kDown, plan.down, kMoeRowsDownThreads);
}

}  // namespace chimere::kernels::cuda
