#include "kernels/cuda/moe_chunk.h"

#include <algorithm>

#include "kernels/cuda/chunk_tile_args.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kMap = {"moe_chunk", "moe_chunk_map"};
constexpr Kernel kGateUp32 = {"moe_chunk", "moe_chunk_gate_up_32"};
constexpr Kernel kGateUp64 = {"moe_chunk", "moe_chunk_gate_up_64"};
constexpr Kernel kDown32 = {"moe_chunk", "moe_chunk_down_32"};
constexpr Kernel kDown64 = {"moe_chunk", "moe_chunk_down_64"};
constexpr Kernel kCombine = {"moe_chunk", "moe_chunk_combine"};

bool takes_tensor_cores(const ExpertShape& s) {
  const int gate = scale_group(static_cast<DType>(s.gate_type));
  return gate != 0 && gate == scale_group(static_cast<DType>(s.up_type)) &&
         takes_integer_dot(static_cast<DType>(s.down_type));
}

bool takes_tensor_cores(const ExpertTableArgs& t) {
  return takes_tensor_cores(t.routed) && (t.has_shared == 0 || takes_tensor_cores(t.shared));
}

/// Every expert has at most one tile that is not full.
int64_t most_tiles(const ExpertTable& table, int64_t slots, int columns) {
  return slots / columns + std::min<int64_t>(slots, table.args().n_experts + 1);
}

/// The parts of the scratch memory, one after the other in falling order of alignment.
struct Scratch {
  RoundedRows h;
  float* out;
  int32_t* slot_at;
  MoeTile* tiles;
  int32_t* n_tiles;
  int64_t bytes;

  Scratch(const ExpertTable& table, int64_t slots, int64_t n_embd, uint8_t* memory) {
    const int64_t width = table.h_width();
    h = rounded_rows_at(memory, slots, width);
    uint8_t* at = memory + rounded_bytes(slots, width);
    out = reinterpret_cast<float*>(at);
    at += slots * n_embd * static_cast<int64_t>(sizeof(float));
    slot_at = reinterpret_cast<int32_t*>(at);
    at += slots * static_cast<int64_t>(sizeof(int32_t));
    tiles = reinterpret_cast<MoeTile*>(at);
    at += most_tiles(table, slots, 32) * static_cast<int64_t>(sizeof(MoeTile));
    n_tiles = reinterpret_cast<int32_t*>(at);
    at += sizeof(int32_t);
    bytes = at - memory;
  }
};

int words_of(int32_t type) { return codebook_place(static_cast<DType>(type)).words; }

}  // namespace

int plan_moe_chunk(int64_t slots, int n_experts) {
  return slots <= int64_t{24} * n_experts ? 32 : 64;
}

int64_t moe_chunk_scratch_bytes(const ExpertTable& table, int64_t rows, int n_used,
                                int64_t n_embd) {
  return std::max(moe_step_scratch_bytes(table, rows, n_used),
                  Scratch(table, rows * table.slots(n_used), n_embd, nullptr).bytes);
}

void moe_chunk(Stream& stream, const ExpertTable& table, ConstMatrixView x,
               const RoundedRows& rounded, const RowSet& rows, const Routing& routing,
               const float* shared_gate, const uint32_t* codebook, uint8_t* scratch, MatrixView y) {
  if (!takes_tensor_cores(table.args())) {
    moe_step(stream, table, x, rounded, rows, routing, shared_gate, codebook, scratch, y);
    return;
  }
  const int64_t slots = rows.count * table.slots(routing.n_used);
  const Scratch parts(table, slots, x.cols, scratch);
  MoeChunkArgs args = {};
  args.table = table.args();
  args.x_rounded = rounded;
  args.ids = routing.ids;
  args.weights = routing.weights;
  args.shared_gate = shared_gate;
  args.y = y.data;
  args.y_stride = y.stride;
  args.h = parts.h;
  args.out = parts.out;
  args.slot_at = parts.slot_at;
  args.tiles = parts.tiles;
  args.n_tiles = parts.n_tiles;
  args.row_ids = rows.ids;
  args.codebook = codebook;
  args.rows = rows.count;
  args.n_embd = static_cast<int32_t>(x.cols);
  args.n_used = routing.n_used;
  args.h_width = static_cast<int32_t>(table.h_width());
  args.columns = plan_moe_chunk(slots, args.table.n_experts);

  const ExpertShape& routed = args.table.routed;
  const ExpertShape& shared = args.table.shared;
  const bool narrow = args.columns == 32;
  const int stages = narrow ? chunk_shared_bytes<32>() : chunk_shared_bytes<64>();
  const int gate_up_words = std::max(words_of(routed.gate_type) + words_of(routed.up_type),
                                     words_of(shared.gate_type) + words_of(shared.up_type));
  const int down_words = std::max(words_of(routed.down_type), words_of(shared.down_type));
  const auto tiles = static_cast<uint32_t>(most_tiles(table, slots, args.columns));
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
  launch(narrow ? kGateUp32 : kGateUp64, tiles_of(args.h_width, kMoeChunkHidden), kChunkThreads,
         stages + 4 * gate_up_words);
  launch(narrow ? kDown32 : kDown64, tiles_of(args.n_embd, kChunkOutputs), kChunkThreads,
         stages + 4 * down_words);
  launch(kCombine, {static_cast<uint32_t>(rows.count)}, kMoeCombineThreads, 0);
}

}  // namespace chimere::kernels::cuda
