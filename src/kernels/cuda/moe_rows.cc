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

int64_t round_up(int64_t bytes) { return (bytes + 15) / 16 * 16; }

CodebookPlace codebook_of(int32_t type) { return codebook_place(static_cast<DType>(type)); }

bool takes(const ExpertShape& s) {
  const auto is_rounded = [](int32_t type) { return scale_group(static_cast<DType>(type)) != 0; };
  return s.gate_type == s.up_type && is_rounded(s.gate_type) && is_rounded(s.down_type);
}

/// What the two launches differ in.
struct LaunchShape {
  int64_t items;
  int64_t tiles;   ///< consecutive items that read the same rows
  int64_t x_rows;  ///< rounded rows that an item reads
  int64_t x_elements;
  int64_t codebook_words;
  int64_t stage_bytes;
  int warps;
  int blocks;  ///< per multiprocessor
};

std::optional<MoeRowsLaunch> plan_launch(const LaunchShape& shape, int64_t rows_in_all,
                                         int multiprocessors, int64_t shared_bytes) {
  const int64_t blocks = std::min(shape.items, int64_t{shape.blocks} * multiprocessors);
  // The rows of consecutive items.
  const int64_t own = (shape.items + blocks - 1) / blocks;
  const int64_t rows = std::min(rows_in_all, (own + shape.tiles - 2) / shape.tiles + 1);
  const int64_t x_bytes = round_up(rounded_bytes(1, shape.x_elements));
  const int64_t x_at = 4 * shape.codebook_words;
  const int64_t stages_at = x_at + rows * shape.x_rows * x_bytes;
  const int64_t of_stage = shape.warps * shape.stage_bytes;
  const int64_t limit =
      (shared_bytes >= kLargeSharedBytes ? shared_bytes / shape.blocks : shared_bytes) -
      kOtherSharedBytes;
  const int64_t stages = std::min<int64_t>(kMoeRowsStages, (limit - stages_at) / of_stage);
  if (stages < 2) return {};
  return MoeRowsLaunch{static_cast<int32_t>(blocks),      static_cast<int32_t>(shape.items),
                       static_cast<int32_t>(shape.tiles), static_cast<int32_t>(x_at),
                       static_cast<int32_t>(x_bytes),     static_cast<int32_t>(stages_at),
                       static_cast<int32_t>(stages),      static_cast<int32_t>(shape.stage_bytes),
                       stages_at + stages * of_stage};
}

}  // namespace

std::optional<MoeRowsPlan> plan_moe_rows(const ExpertTable& table, int64_t rows, int n_used,
                                         int64_t n_embd, int multiprocessors,
                                         int64_t shared_bytes) {
  const ExpertTableArgs& t = table.args();
  if (rows < 2 || n_embd % kMoeRowsDownTile != 0 || !takes(t.routed)) return {};
  if (t.has_shared != 0 && !takes(t.shared)) return {};
  const auto words = [&](int32_t ExpertShape::*type) {
    return codebook_of(t.routed.*type).words +
           (t.has_shared != 0 ? codebook_of(t.shared.*type).words : 0);
  };
  const auto row_bytes = [&](int64_t ExpertShape::*bytes) {
    return std::max(t.routed.*bytes, t.has_shared != 0 ? t.shared.*bytes : 0);
  };
  const int64_t ranks = table.slots(n_used);
  const int64_t hidden_tiles = table.h_width() / kMoeHiddenTile;
  const LaunchShape gate_up = {
      .items = rows * ranks * hidden_tiles,
      .tiles = ranks * hidden_tiles,
      .x_rows = 1,
      .x_elements = n_embd,
      .codebook_words = words(&ExpertShape::gate_type),
      .stage_bytes = round_up(2 * kMoeRowsHidden * row_bytes(&ExpertShape::gate_row_bytes)),
      .warps = kMoeRowsGateUpThreads / 32,
      .blocks = kMoeRowsGateUpBlocks};
  const LaunchShape down = {
      .items = rows * n_embd / kMoeRowsDownTile,
      .tiles = n_embd / kMoeRowsDownTile,
      .x_rows = ranks,
      .x_elements = table.h_width(),
      .codebook_words = words(&ExpertShape::down_type),
      .stage_bytes = round_up(kMoeRowsDownOutputs * row_bytes(&ExpertShape::down_row_bytes)),
      .warps = kMoeRowsDownThreads / 32,
      .blocks = kMoeRowsDownBlocks};
  auto first = plan_launch(gate_up, rows, multiprocessors, shared_bytes);
  const auto second = plan_launch(down, rows, multiprocessors, shared_bytes);
  if (!first || !second) return {};
  first->tiles = static_cast<int32_t>(hidden_tiles);
  return MoeRowsPlan{*first, *second};
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
  const ExpertShape& routed = args.table.routed;
  const ExpertShape& shared = args.table.shared;
  const bool has_shared = args.table.has_shared != 0;
  const auto launch = [&](const Kernel& kernel, const MoeRowsLaunch& of, int threads,
                          int32_t ExpertShape::*type) {
    args.routed_codebook = codebook_of(routed.*type);
    args.shared_codebook = has_shared ? codebook_of(shared.*type) : CodebookPlace{};
    args.items = of.items;
    args.tiles = of.tiles;
    args.x_at = of.x_at;
    args.x_bytes = of.x_bytes;
    args.stages_at = of.stages_at;
    args.stages = of.stages;
    args.stage_bytes = of.stage_bytes;
    stream.launch(kernel,
                  {.grid = {static_cast<uint32_t>(of.blocks)},
                   .block = {static_cast<uint32_t>(threads)},
                   .shared_bytes = static_cast<uint32_t>(of.shared_bytes),
                   .overlaps_previous = true},
                  args);
  };
  launch(kGateUp, plan.gate_up, kMoeRowsGateUpThreads, &ExpertShape::gate_type);
  launch(kDown, plan.down, kMoeRowsDownThreads, &ExpertShape::down_type);
}

}  // namespace chimere::kernels::cuda
