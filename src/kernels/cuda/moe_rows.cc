#include "kernels/cuda/moe_rows.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kRows = {"moe_rows", "moe_rows"};

/// With two rows moe_decode.cu is faster: 0.15 ms a step for 35B-A3B's shapes on an H200.
constexpr int64_t kLeastRows = 3;

int64_t round_up(int64_t bytes) { return (bytes + 15) / 16 * 16; }

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool takes(const ExpertShape& s) {
  const auto is_rounded = [](int32_t type) { return scale_group(static_cast<DType>(type)) != 0; };
  return s.gate_type == s.up_type && is_rounded(s.gate_type) && is_rounded(s.down_type);
}

/// Gives every different codebook a place in shared memory and returns the bytes of all.
int64_t place_codebooks(const ExpertTableArgs& t, MoeRowsLayout& layout) {
  const std::array<std::pair<int32_t, MoeRowsCodebook*>, 4> all = {{
      {t.routed.gate_type, &layout.routed.gate_codebook},
      {t.routed.down_type, &layout.routed.down_codebook},
      {t.shared.gate_type, &layout.shared.gate_codebook},
      {t.shared.down_type, &layout.shared.down_codebook},
  }};
  int64_t end = 0;
  const size_t types = t.has_shared != 0 ? all.size() : 2;
  for (size_t i = 0; i < types; ++i) {
    MoeRowsCodebook& codebook = *all[i].second;
    const CodebookPlace place = codebook_place(static_cast<DType>(all[i].first));
    const auto same =
        std::find_if(all.begin(), all.begin() + static_cast<ptrdiff_t>(i), [&](const auto& other) {
          const CodebookPlace& p = other.second->place;
          return p.begin == place.begin && p.words == place.words;
        });
    if (same != all.begin() + static_cast<ptrdiff_t>(i)) {
      codebook.at = same->second->at;
      continue;
    }
    codebook = {place, static_cast<int32_t>(end)};
    end += round_up(int64_t{4} * place.words);
  }
  return end;
}

/// Sets the units' sizes. `ranks`: routed experts whose rows of down a unit has.
void size_units(const ExpertTableArgs& t, int ranks, MoeRowsLayout& layout) {
  int64_t most = 0;
  bool bulk = true;
  const auto include = [&](const ExpertShape& shape, int64_t of_unit) {
    const int64_t gate = kMoeRowsHidden * shape.gate_row_bytes;
    const int64_t down = kMoeRowsOutputs * shape.down_row_bytes;
    most = std::max({most, 2 * gate, of_unit * down});
    bulk = bulk && gate % 16 == 0 && down % 16 == 0;
  };
  include(t.routed, ranks);
  if (t.has_shared != 0) include(t.shared, 1);
  layout.ranks_of_unit = ranks;
  layout.stage_bytes = static_cast<int32_t>(round_up(most));
  layout.bulk = bulk ? 1 : 0;
}

}  // namespace

std::optional<MoeRowsPlan> plan_moe_rows(const ExpertTable& table, int64_t rows, int n_used,
                                         int64_t n_embd, int multiprocessors,
                                         int64_t shared_bytes) {
  const ExpertTableArgs& t = table.args();
  const int64_t slots = table.slots(n_used);
  if (rows < kLeastRows || n_embd % kMoeHiddenTile != 0 || !takes(t.routed)) return {};
  if (t.has_shared != 0 && !takes(t.shared)) return {};
  if (rows * slots > std::numeric_limits<uint16_t>::max()) return {};

  MoeRowsPlan plan;
  MoeRowsLayout& layout = plan.layout;
  layout.routed.tiles = t.routed.n_ff / kMoeHiddenTile;
  layout.shared.tiles = t.has_shared != 0 ? t.shared.n_ff / kMoeHiddenTile : 0;
  const int64_t items = rows * (int64_t{n_used} * layout.routed.tiles + layout.shared.tiles);
  const int64_t groups_of_row = n_embd / kMoeRowsOutputs;
  const int64_t groups = rows * groups_of_row;
  const int64_t blocks = std::min(int64_t{std::max(multiprocessors, 1)},
                                  std::max(items, divide_up(groups, kMoeRowsMostWarps)));
  plan.blocks = static_cast<int32_t>(blocks);
  const int64_t codebook_bytes = place_codebooks(t, layout);
  layout.x_bytes = moe_rows_x_bytes(static_cast<int>(n_embd / 32));
  layout.h_bytes = moe_rows_x_bytes(static_cast<int>(table.h_width() / 32));

  // Places what is not a ring and returns its bytes.
  const auto place_all = [&](int warps, int64_t blocks_per_row) {
    // Rows of which a block has elements of y.
    const int64_t block_rows =
        blocks_per_row > 0
            ? 1
            : std::min(rows, (divide_up(groups, blocks) + groups_of_row - 2) / groups_of_row + 1);
    int64_t end = codebook_bytes;
    const auto place = [&](int32_t& at, int64_t bytes) {
      at = static_cast<int32_t>(end);
      end += round_up(bytes);
    };
    const int64_t out_bytes =
        int64_t{warps} * kMoeRowsGroups * kMoeRowsOutputs * static_cast<int64_t>(sizeof(float));
    place(layout.slots_at,
          std::max(rows * n_used * static_cast<int64_t>(sizeof(MoeRowsSlot)), out_bytes));
    layout.outs_at = layout.slots_at;
    place(layout.ranks_at, block_rows * (n_used + 1) * static_cast<int64_t>(sizeof(MoeRowsRank)));
    place(layout.used_at, block_rows * static_cast<int64_t>(sizeof(int32_t)));
    place(layout.x_at, std::max(int64_t{2} * layout.x_bytes, block_rows * slots * layout.h_bytes));
    layout.blocks_per_row = static_cast<int32_t>(blocks_per_row);
    layout.stages_at = static_cast<int32_t>(end);
    return end;
  };
  // The first that fits: the even division needs memory for h of two rows.
  const int64_t limit = shared_bytes - kMoeRowsDeclaredBytes;
  for (const int warps : {kMoeRowsMostWarps, kMoeRowsMostWarps / 2}) {
    for (const int64_t blocks_per_row : {int64_t{0}, blocks / rows}) {
      for (const int ranks : {4, 2}) {
        const int64_t end = place_all(warps, blocks_per_row);
        size_units(t, ranks, layout);
        const int64_t of_stage = int64_t{warps} * layout.stage_bytes;
        const int64_t stages =
            std::min<int64_t>(moe_rows_most_stages(warps), (limit - end) / of_stage);
        if (stages < 2) continue;
        layout.stages = static_cast<int32_t>(stages);
        plan.warps = warps;
        plan.shared_bytes = end + stages * of_stage;
        return plan;
      }
    }
  }
  return {};
}

int64_t moe_rows_counters(int64_t rows) { return kMoeRowsFinished + rows; }

void moe_rows(Stream& stream, const MoeRowsPlan& plan, const ExpertTable& table,
              const RoundedRows& rounded, const RowSet& rows, const Routing& routing,
              const float* shared_gate, const MoeOptions& options, const uint32_t* codebook,
              uint8_t* scratch, uint32_t* counters, MatrixView y) {
  MoeRowsArgs args = {};
  args.table = table.args();
  args.layout = plan.layout;
  args.x = rounded;
  args.ids = routing.ids;
  args.weights = routing.weights;
  args.shared_gate = shared_gate;
  args.y = y.data;
  args.y_stride = y.stride;
  args.h = rounded_rows_at(scratch, rows.count * table.slots(routing.n_used), table.h_width());
  args.row_ids = rows.ids;
  args.codebook = codebook;
  args.counters = counters;
  args.activation = options.activation;
  args.scale = options.scale;
  args.rows = rows.count;
  args.n_embd = static_cast<int32_t>(y.cols);
  args.n_used = routing.n_used;
  args.h_width = static_cast<int32_t>(table.h_width());
  args.biased = table.biased() ? 1 : 0;
  stream.launch(kRows,
                {.grid = {static_cast<uint32_t>(plan.blocks)},
                 .block = {static_cast<uint32_t>(32 * plan.warps)},
                 .shared_bytes = static_cast<uint32_t>(plan.shared_bytes),
                 .overlaps_previous = true},
                args);
}

}  // namespace chimere::kernels::cuda
