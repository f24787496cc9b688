#include "kernels/cuda/moe_step.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kGateUp1 = {"moe_step", "moe_step_gate_up_1"};
constexpr Kernel kGateUp = {"moe_step", "moe_step_gate_up"};
constexpr Kernel kDown = {"moe_step", "moe_step_down"};

/// Blocks from which on they do more each, so that they wait for codebooks and experts less often;
/// and how much at most.
constexpr int64_t kManyBlocks = 256;
constexpr int64_t kMostPasses = 8;

int32_t passes_for(int64_t blocks) {
  return static_cast<int32_t>(std::clamp<int64_t>(blocks / kManyBlocks, 1, kMostPasses));
}

ExpertShape shape_of(const ExpertWeights& e) {
  return {static_cast<int32_t>(e.gate.type),          static_cast<int32_t>(e.up.type),
          static_cast<int32_t>(e.down.type),          static_cast<int32_t>(e.gate.n_out),
          packed_row_bytes(e.gate.type, e.gate.n_in), packed_row_bytes(e.up.type, e.up.n_in),
          packed_row_bytes(e.down.type, e.down.n_in)};
}

ExpertPointers pointers_of(const ExpertWeights& e) {
  auto bytes = [](const WeightView& w) { return static_cast<const uint8_t*>(w.data); };
  return {bytes(e.gate), bytes(e.up), bytes(e.down)};
}

int64_t codebook_bytes_of(int32_t type) { return codebook_copies_bytes(static_cast<DType>(type)); }

int64_t gate_up_codebook_bytes(const ExpertShape& s) {
  const int64_t gate = codebook_bytes_of(s.gate_type);
  return s.up_type == s.gate_type ? gate : gate + codebook_bytes_of(s.up_type);
}

}  // namespace

Result<ExpertTable> ExpertTable::create(Memory& memory, std::span<const ExpertWeights> experts,
                                        const ExpertWeights* shared) {
  if (experts.size() > kMoeMostExperts) {
    return unsupported("a layer has " + std::to_string(experts.size()) +
                       " experts; the kernels for cards take at most " +
                       std::to_string(kMoeMostExperts) + ": use --backend cpu");
  }
  ExpertTable table;
  std::vector<ExpertPointers> pointers;
  for (const ExpertWeights& e : experts) {
    if (!(shape_of(e) == shape_of(experts.front()))) {
      return unsupported(
          "the experts of a layer differ in their types or shapes; the kernels for cards take only "
          "equal ones: use --backend cpu");
    }
    pointers.push_back(pointers_of(e));
  }
  table.args_.n_experts = static_cast<int32_t>(experts.size());
  table.args_.routed = shape_of(experts.front());
  if (shared != nullptr) {
    pointers.push_back(pointers_of(*shared));
    table.args_.shared = shape_of(*shared);
    table.args_.has_shared = 1;
  }
  const size_t bytes = pointers.size() * sizeof(ExpertPointers);
  CHIMERE_TRY(table.memory_, memory.reserve(bytes));
  CHIMERE_CHECK_OK(table.memory_->commit(bytes));
  CHIMERE_CHECK_OK(memory.write(table.memory_->data(), pointers.data(), bytes));
  table.args_.experts = reinterpret_cast<const ExpertPointers*>(table.memory_->data());
  return table;
}

int64_t ExpertTable::h_width() const {
  const int64_t widest = std::max(args_.routed.n_ff, args_.shared.n_ff);
  return (widest + kMoeHiddenTile - 1) / kMoeHiddenTile * kMoeHiddenTile;
}

int64_t moe_step_scratch_bytes(const ExpertTable& table, int64_t rows, int n_used) {
  const int64_t slots = rows * table.slots(n_used);
  return slots * table.h_width() * static_cast<int64_t>(sizeof(float)) +
         rounded_bytes(slots, table.h_width());
}

void moe_step(Stream& stream, const ExpertTable& table, ConstMatrixView x,
              const RoundedRows& rounded, const RowSet& rows, const Routing& routing,
              const float* shared_gate, const uint32_t* codebook, uint8_t* scratch, MatrixView y) {
  const int64_t slots = rows.count * table.slots(routing.n_used);
  const int64_t width = table.h_width();
  MoeStepArgs args = {};
  args.table = table.args();
  args.x = x.data;
  args.x_stride = x.stride;
  args.x_rounded = rounded;
  args.ids = routing.ids;
  args.weights = routing.weights;
  args.shared_gate = shared_gate;
  args.y = y.data;
  args.y_stride = y.stride;
  args.h_rounded = rounded_rows_at(scratch, slots, width);
  args.h = reinterpret_cast<float*>(scratch + rounded_bytes(slots, width));
  args.row_ids = rows.ids;
  args.codebook = codebook;
  args.rows = rows.count;
  args.n_embd = static_cast<int32_t>(x.cols);
  args.n_used = routing.n_used;
  args.h_width = static_cast<int32_t>(width);
  const ExpertShape& routed = args.table.routed;
  const ExpertShape& shared = args.table.shared;
  int64_t gate_up_bytes = gate_up_codebook_bytes(routed);
  int64_t down_bytes = codebook_bytes_of(routed.down_type);
  if (args.table.has_shared != 0) {
    gate_up_bytes = std::max(gate_up_bytes, gate_up_codebook_bytes(shared));
    down_bytes += codebook_bytes_of(shared.down_type);
  }
  const int64_t tiles = width / kMoeHiddenTile;
  args.gate_passes = passes_for(tiles * slots);
  stream.launch(rows.count == 1 ? kGateUp1 : kGateUp,
                {.grid = {static_cast<uint32_t>((tiles + args.gate_passes - 1) / args.gate_passes),
                          static_cast<uint32_t>(slots)},
                 .block = {kMoeGateUpThreads},
                 .shared_bytes = static_cast<uint32_t>(gate_up_bytes),
                 .overlaps_previous = true},
                args);
  const int64_t of_a_pass = int64_t{kMoeDownThreads} / 32 * kMoeDownOutputs;
  const int64_t blocks = (args.n_embd + of_a_pass - 1) / of_a_pass;
  args.passes = passes_for(blocks * rows.count);
  stream.launch(kDown,
                {.grid = {static_cast<uint32_t>((blocks + args.passes - 1) / args.passes),
                          static_cast<uint32_t>(rows.count)},
                 .block = {kMoeDownThreads},
                 .shared_bytes = static_cast<uint32_t>(down_bytes),
                 .overlaps_previous = true},
                args);
}

}  // namespace chimere::kernels::cuda
