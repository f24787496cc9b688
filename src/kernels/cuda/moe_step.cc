#include "kernels/cuda/moe_step.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kGateUp = {"moe_step", "moe_step_gate_up"};
constexpr Kernel kDownNarrow = {"moe_step", "moe_step_down_narrow"};
constexpr Kernel kDownWide = {"moe_step", "moe_step_down_wide"};

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

int codebook_words_of(int32_t type) { return codebook_place(static_cast<DType>(type)).words; }

int gate_up_codebook_words(const ExpertShape& s) {
  const int gate = codebook_words_of(s.gate_type);
  return s.up_type == s.gate_type ? gate : gate + codebook_words_of(s.up_type);
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
  int gate_up_words = gate_up_codebook_words(routed);
  int down_words = codebook_words_of(routed.down_type);
  if (args.table.has_shared != 0) {
    gate_up_words = std::max(gate_up_words, gate_up_codebook_words(shared));
    down_words += codebook_words_of(shared.down_type);
  }
  stream.launch(
      kGateUp,
      {.grid = {static_cast<uint32_t>(width / kMoeHiddenTile), static_cast<uint32_t>(slots)},
       .block = {kMoeGateUpThreads},
       .shared_bytes = static_cast<uint32_t>(4 * gate_up_words),
       .overlaps_previous = true},
      args);
  const int parts = (routing.n_used + kMoeDownRanks - 1) / kMoeDownRanks + args.table.has_shared;
  const int threads = kMoeDownThreadsOfPart * parts;
  const int tiles = (args.n_embd + kMoeDownTile - 1) / kMoeDownTile;
  stream.launch(threads <= kMoeDownNarrowThreads ? kDownNarrow : kDownWide,
                {.grid = {static_cast<uint32_t>(tiles), static_cast<uint32_t>(rows.count)},
                 .block = {static_cast<uint32_t>(threads)},
                 .shared_bytes = static_cast<uint32_t>(4 * down_words),
                 .overlaps_previous = true},
                args);
}

}  // namespace chimere::kernels::cuda
