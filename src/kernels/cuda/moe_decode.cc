#include "kernels/cuda/moe_decode.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kGateUp = {"moe_decode", "moe_decode_gate_up"};
constexpr Kernel kDownNarrow = {"moe_decode", "moe_decode_down_narrow"};
constexpr Kernel kDownWide = {"moe_decode", "moe_decode_down_wide"};

/// What ExpertPointers::gate points to.
const WeightView& gate_of(const ExpertWeights& e) { return e.gated() ? e.gate : e.up; }

ExpertShape shape_of(const ExpertWeights& e) {
  const WeightView& gate = gate_of(e);
  return {static_cast<int32_t>(gate.type),
          static_cast<int32_t>(e.up.type),
          static_cast<int32_t>(e.down.type),
          static_cast<int32_t>(e.up.n_out),
          e.gated() ? 1 : 0,
          packed_row_bytes(gate.type, gate.n_in),
          packed_row_bytes(e.up.type, e.up.n_in),
          packed_row_bytes(e.down.type, e.down.n_in)};
}

ExpertPointers pointers_of(const ExpertWeights& e) {
  auto bytes = [](const WeightView& w) { return static_cast<const uint8_t*>(w.data); };
  return {bytes(gate_of(e)), bytes(e.up), bytes(e.down), e.gated() ? e.gate_bias : e.up_bias,
          e.up_bias,         e.down_bias};
}

/// Sets what finds the experts' matrices without the table, if they lie at equal distances.
void find_steps(const std::vector<ExpertPointers>& experts, ExpertTableArgs& args) {
  args.first = experts.front();
  args.regular = 1;
  const auto step_of = [&](const uint8_t* ExpertPointers::*matrix) {
    if (experts.size() < 2) return int64_t{0};
    const auto address = [&](size_t e) { return reinterpret_cast<intptr_t>(experts[e].*matrix); };
    const int64_t step = address(1) - address(0);
    for (size_t e = 2; e < experts.size(); ++e) {
      if (address(e) - address(e - 1) != step) args.regular = 0;
    }
    return step;
  };
  args.gate_step = step_of(&ExpertPointers::gate);
  args.up_step = step_of(&ExpertPointers::up);
  args.down_step = step_of(&ExpertPointers::down);
}

/// Shared memory available on every supported GPU, less what the system and the kernels' static
/// arrays take.
constexpr int64_t kMaxStageBytes = int64_t{94} << 10;

/// Resident blocks per multiprocessor: two for gate_up if shared memory holds all of the shared
/// expert's rows, three otherwise. A launch with no more blocks than that is bound by latency.
constexpr int kBlocksAtOnce = 3;
constexpr int kWholeBlocksAtOnce = 2;

int64_t round_up(int64_t bytes) { return (bytes + 15) / 16 * 16; }

bool is_rounded(int32_t type) { return scale_group(static_cast<DType>(type)) != 0; }

/// Bytes of a rounded row of n elements in shared memory.
int64_t x_bytes(int64_t n) {
  return round_up(n + n / kActivationBlock * static_cast<int64_t>(sizeof(RoundedBlock)));
}

int32_t words_of(const MoeDecodeKind& kind) {
  return kind.codebook[0].words + kind.codebook[1].words;
}

CodebookPlace codebook_of(int32_t type) { return codebook_place(static_cast<DType>(type)); }

/// Shared memory for gate and up of one output; 0: not staged.
int64_t gate_up_bytes(const ExpertShape& s) {
  return s.gate_type == s.up_type && is_rounded(s.gate_type) ? 2 * s.gate_row_bytes : 0;
}
int64_t down_bytes(const ExpertShape& s) { return is_rounded(s.down_type) ? s.down_row_bytes : 0; }

/// How many outputs of `bytes` each fit, an even number up to `most`.
int32_t outputs_in(int64_t memory, int64_t bytes, int most) {
  if (bytes == 0) return 0;
  return static_cast<int32_t>(std::clamp<int64_t>(memory / bytes, 0, most) / 2 * 2);
}

void launch_gate_up(Stream& stream, int multiprocessors, const RowSet& rows, int ranks,
                    MoeDecodeArgs args) {
  constexpr int kWarps = kMoeGateUpThreads / 32;
  const ExpertShape& routed = args.table.routed;
  const ExpertShape& shared = args.table.shared;
  const uint32_t tiles = static_cast<uint32_t>(args.h_width / kMoeHiddenTile);
  const int64_t blocks = int64_t{tiles} * ranks * rows.count;
  const bool few = blocks <= int64_t{kWholeBlocksAtOnce} * multiprocessors;
  const auto codebooks = [](const ExpertShape& s, MoeDecodeKind& kind) {
    kind.codebook[0] = codebook_of(s.gate_type);
    if (s.up_type != s.gate_type) kind.codebook[1] = codebook_of(s.up_type);
  };
  codebooks(routed, args.routed);
  if (args.table.has_shared != 0) codebooks(shared, args.shared);
  args.x_at = 4 * std::max(words_of(args.routed), words_of(args.shared));
  args.stages_at = args.x_at + static_cast<int32_t>(x_bytes(args.n_embd));
  // With many blocks, one more resident block is worth more than staging all of the shared expert's
  // rows.
  int64_t output = gate_up_bytes(routed);
  if (few || output == 0) output = std::max(output, gate_up_bytes(shared));
  const int64_t stage =
      std::min(kMoeWarpHidden * output, (kMaxStageBytes - args.stages_at) / kWarps) / 16 * 16;
  args.stage_bytes = static_cast<int32_t>(stage);
  args.routed.at_once = outputs_in(stage, gate_up_bytes(routed), kMoeWarpHidden);
  args.shared.at_once = outputs_in(stage, gate_up_bytes(shared), kMoeWarpHidden);
  args.warm_icache = blocks <= int64_t{kBlocksAtOnce} * multiprocessors ? 1 : 0;
  stream.launch(kGateUp,
                {.grid = {tiles, static_cast<uint32_t>(ranks), static_cast<uint32_t>(rows.count)},
                 .block = {kMoeGateUpThreads},
                 .shared_bytes = static_cast<uint32_t>(args.stages_at + kWarps * args.stage_bytes),
                 .overlaps_previous = true},
                args);
}

void launch_down(Stream& stream, int multiprocessors, const RowSet& rows, int ranks,
                 MoeDecodeArgs args) {
  const ExpertShape& routed = args.table.routed;
  const ExpertShape& shared = args.table.shared;
  const auto tiles = static_cast<uint32_t>((args.n_embd + kMoeDownTile - 1) / kMoeDownTile);
  args.routed.codebook[0] = codebook_of(routed.down_type);
  if (args.table.has_shared != 0) args.shared.codebook[0] = codebook_of(shared.down_type);
  args.stages_at = 4 * (words_of(args.routed) + words_of(args.shared));
  args.x_bytes = static_cast<int32_t>(x_bytes(args.h_width));
  const int64_t output = std::max(down_bytes(routed), down_bytes(shared));
  const int64_t stage =
      std::min(args.x_bytes + kMoeDownTile * output, (kMaxStageBytes - args.stages_at) / ranks) /
      16 * 16;
  args.stage_bytes = static_cast<int32_t>(stage);
  args.routed.at_once = outputs_in(stage - args.x_bytes, down_bytes(routed), kMoeDownTile);
  args.shared.at_once = outputs_in(stage - args.x_bytes, down_bytes(shared), kMoeDownTile);
  args.warm_icache =
      int64_t{tiles} * rows.count <= int64_t{kBlocksAtOnce} * multiprocessors ? 1 : 0;
  const int threads = 32 * ranks;
  stream.launch(threads <= kMoeDownNarrowThreads ? kDownNarrow : kDownWide,
                {.grid = {tiles, static_cast<uint32_t>(rows.count)},
                 .block = {static_cast<uint32_t>(threads)},
                 .shared_bytes = static_cast<uint32_t>(args.stages_at + ranks * args.stage_bytes),
                 .overlaps_previous = true},
                args);
}

}  // namespace

Result<ExpertTable> ExpertTable::create(Memory& memory, std::span<const ExpertWeights> experts,
                                        const ExpertWeights* shared) {
  if (experts.size() > kMoeMostExperts) {
    return unsupported("a layer has " + std::to_string(experts.size()) +
                       " experts; the GPU kernels support at most " +
                       std::to_string(kMoeMostExperts) + ": use --backend cpu");
  }
  ExpertTable table;
  std::vector<ExpertPointers> pointers;
  for (const ExpertWeights& e : experts) {
    if (!(shape_of(e) == shape_of(experts.front()))) {
      return unsupported(
          "the experts of a layer differ in their types or shapes; the GPU kernels support only "
          "equal ones: use --backend cpu");
    }
    pointers.push_back(pointers_of(e));
    table.biased_ = table.biased_ || e.down_bias != nullptr;
  }
  table.args_.n_experts = static_cast<int32_t>(experts.size());
  table.args_.routed = shape_of(experts.front());
  find_steps(pointers, table.args_);
  if (shared != nullptr) {
    pointers.push_back(pointers_of(*shared));
    table.args_.last = pointers.back();
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

int64_t moe_decode_scratch_bytes(const ExpertTable& table, int64_t rows, int n_used) {
  const int64_t slots = rows * table.slots(n_used);
  return slots * table.h_width() * static_cast<int64_t>(sizeof(float)) +
         rounded_bytes(slots, table.h_width());
}

void moe_decode(Stream& stream, int multiprocessors, const ExpertTable& table, ConstMatrixView x,
                const RoundedRows& rounded, const RowSet& rows, const Routing& routing,
                const float* shared_gate, const MoeOptions& options, const uint32_t* codebook,
                uint8_t* scratch, MatrixView y) {
  const int64_t slots = rows.count * table.slots(routing.n_used);
  const int64_t width = table.h_width();
  MoeDecodeArgs args = {};
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
  args.activation = options.activation;
  args.scale = options.scale;
  args.rows = rows.count;
  args.n_embd = static_cast<int32_t>(x.cols);
  args.n_used = routing.n_used;
  args.h_width = static_cast<int32_t>(width);
  args.biased = table.biased() ? 1 : 0;
  const auto ranks = static_cast<int>(table.slots(routing.n_used));
  launch_gate_up(stream, multiprocessors, rows, ranks, args);
  launch_down(stream, multiprocessors, rows, ranks, args);
}

}  // namespace chimere::kernels::cuda
