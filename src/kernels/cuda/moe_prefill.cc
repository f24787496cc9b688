#include "kernels/cuda/moe_prefill.h"

#include <algorithm>

#include "kernels/cuda/half_rows.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/cuda/prefill_tile_args.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kMap = {"moe_prefill", "moe_prefill_map"};
constexpr Kernel kGateUp = {"moe_prefill", "moe_prefill_gate_up"};
constexpr Kernel kDown = {"moe_prefill", "moe_prefill_down"};
constexpr Kernel kCombine = {"moe_prefill", "moe_prefill_combine"};

bool takes_tensor_cores(const ExpertShape& s) {
  return takes_integer_dot(static_cast<DType>(s.gate_type)) &&
         takes_integer_dot(static_cast<DType>(s.up_type)) &&
         takes_integer_dot(static_cast<DType>(s.down_type));
}

bool takes_tensor_cores(const ExpertTableArgs& t) {
  return takes_tensor_cores(t.routed) && (t.has_shared == 0 || takes_tensor_cores(t.shared));
}

/// Upper bound: every expert has at most one partial tile.
int64_t max_tiles(const ExpertTable& table, int64_t slots) {
  return slots / kTileRows + std::min<int64_t>(slots, table.args().n_experts + 1);
}

/// Parts of the scratch memory, in falling order of alignment.
struct Scratch {
  HalfRows h_halves;
  float* h_or_out;  ///< `out` is written after h has been rounded
  int32_t* slot_at;
  MoeTile* tiles;
  int32_t* n_tiles;
  int64_t bytes;

  Scratch(const ExpertTable& table, int64_t slots, int64_t n_embd, uint8_t* memory) {
    const int64_t width = table.h_width();
    h_halves = half_rows_at(memory, slots, width);
    uint8_t* at = memory + half_rows_bytes(slots, width);
    h_or_out = reinterpret_cast<float*>(at);
    at += slots * std::max(n_embd, width) * static_cast<int64_t>(sizeof(float));
    slot_at = reinterpret_cast<int32_t*>(at);
    at += slots * static_cast<int64_t>(sizeof(int32_t));
    tiles = reinterpret_cast<MoeTile*>(at);
    at += max_tiles(table, slots) * static_cast<int64_t>(sizeof(MoeTile));
    n_tiles = reinterpret_cast<int32_t*>(at);
    at += sizeof(int32_t);
    bytes = at - memory;
  }
};

int words_of(int32_t type) { return codebook_place(static_cast<DType>(type)).words; }

}  // namespace

int64_t moe_prefill_scratch_bytes(const ExpertTable& table, int64_t rows, int n_used,
                                  int64_t n_embd) {
  return std::max(moe_decode_scratch_bytes(table, rows, n_used),
                  Scratch(table, rows * table.slots(n_used), n_embd, nullptr).bytes);
}

bool moe_prefill_takes_halves(const ExpertTable& table) { return takes_tensor_cores(table.args()); }

void moe_prefill(Stream& stream, int multiprocessors, const ExpertTable& table, ConstMatrixView x,
                 const RoundedRows& rounded, const HalfRows& halves, const RowSet& rows,
                 const Routing& routing, const float* shared_gate, const MoeOptions& options,
                 const uint32_t* codebook, uint8_t* scratch, MatrixView y) {
  if (!takes_tensor_cores(table.args())) {
    moe_decode(stream, multiprocessors, table, x, rounded, rows, routing, shared_gate, options,
               codebook, scratch, y);
    return;
  }
  const int64_t slots = rows.count * table.slots(routing.n_used);
  const Scratch parts(table, slots, x.cols, scratch);
  MoePrefillArgs args = {};
  args.table = table.args();
  args.x = halves;
  args.ids = routing.ids;
  args.weights = routing.weights;
  args.shared_gate = shared_gate;
  args.y = y.data;
  args.y_stride = y.stride;
  args.h = parts.h_or_out;
  args.h_halves = parts.h_halves;
  args.out = parts.h_or_out;
  args.slot_at = parts.slot_at;
  args.tiles = parts.tiles;
  args.n_tiles = parts.n_tiles;
  args.row_ids = rows.ids;
  args.codebook = codebook;
  args.activation = options.activation;
  args.scale = options.scale;
  args.rows = rows.count;
  args.n_embd = static_cast<int32_t>(x.cols);
  args.n_used = routing.n_used;
  args.h_width = static_cast<int32_t>(table.h_width());

  const ExpertShape& routed = args.table.routed;
  const ExpertShape& shared = args.table.shared;
  const int gate_up_words = std::max(words_of(routed.gate_type) + words_of(routed.up_type),
                                     words_of(shared.gate_type) + words_of(shared.up_type));
  const int down_words = std::max(words_of(routed.down_type), words_of(shared.down_type));
  const auto tiles = static_cast<uint32_t>(max_tiles(table, slots));
  auto launch = [&](const Kernel& kernel, Dim grid, int threads, int shared_bytes) {
    stream.launch(kernel,
                  {.grid = grid,
                   .block = {static_cast<uint32_t>(threads)},
                   .shared_bytes = static_cast<uint32_t>(shared_bytes),
                   .overlaps_previous = true},
                  args);
  };
  auto tiles_of = [&](int64_t n, int tile) {
    return Dim{static_cast<uint32_t>((n + tile - 1) / tile), tiles};
  };
  launch(kMap, {1}, kMoeMapThreads, 0);
  const bool gated = routed.gated != 0 || (args.table.has_shared != 0 && shared.gated != 0);
  launch(kGateUp, tiles_of(args.h_width, gated ? kMoePrefillHidden : kTileOutputs), kTileThreads,
         kTileSharedBytes + 4 * gate_up_words);
  half_rows_of_two(stream, {args.h, slots, args.h_width, args.h_width},
                   int64_t{rows.count} * routing.n_used, routed.n_ff, shared.n_ff, parts.h_halves);
  launch(kDown, tiles_of(args.n_embd, kTileOutputs), kTileThreads,
         kTileSharedBytes + 4 * down_words);
  launch(kCombine, {static_cast<uint32_t>(rows.count)}, kMoeCombineThreads, 0);
}

}  // namespace chimere::kernels::cuda
