#include "kernels/cuda/linear_decode.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/linear_decode_args.h"
#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kRoundRows = {"rounding", "round_rows"};
constexpr Kernel kLinearFloat = {"linear_float", "linear_float"};
constexpr Kernel kLinearFloatLong = {"linear_float", "linear_float_long"};
constexpr Kernel kLinearFloatRows = {"linear_float", "linear_float_rows"};
constexpr Kernel kLinearDecode1 = {"linear_decode", "linear_decode_1"};
constexpr Kernel kLinearDecodeByWarps = {"linear_decode", "linear_decode_by_warps"};
constexpr Kernel kLinearDecode8 = {"linear_decode", "linear_decode_8"};
constexpr Kernel kLinearTile8 = {"linear_tile", "linear_tile_8"};
constexpr Kernel kLinearTile8Teams = {"linear_tile", "linear_tile_8_teams"};
constexpr Kernel kLinearTile8Wide = {"linear_tile", "linear_tile_8_wide"};
constexpr Kernel kLinearTile8WideFew = {"linear_tile", "linear_tile_8_wide_few"};
constexpr Kernel kLinearTile16 = {"linear_tile", "linear_tile_16"};
constexpr Kernel kLinearTile16Few = {"linear_tile", "linear_tile_16_few"};
constexpr Kernel kLinearTile16WideFew = {"linear_tile", "linear_tile_16_wide_few"};
constexpr Kernel kLinearTile32 = {"linear_tile", "linear_tile_32"};

uint32_t ceil_div(int64_t a, int64_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

/// Common to all launches for one input.
struct Operands {
  Stream& stream;
  const LinearDevice& device;
  ConstMatrixView x;
  const RoundedRows& rounded;
  const RowSet& rows;
  const uint32_t* codebook;
};

/// Sets the jobs, with `outputs_of_block` outputs per block, in args; returns the number of blocks.
uint32_t put_jobs(const Operands& operands, std::span<const LinearJob> jobs,
                  int64_t outputs_of_block, LinearDecodeArgs& args) {
  args.x = operands.x.data;
  args.x_stride = operands.x.stride;
  args.rounded = operands.rounded;
  args.row_ids = operands.rows.ids;
  args.codebook = operands.codebook;
  args.rows = operands.rows.count;
  args.n_in = static_cast<int32_t>(operands.x.cols);
  args.n_jobs = static_cast<int32_t>(jobs.size());
  uint32_t blocks = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const LinearJob& job = jobs[j];
    const int64_t row_bytes = packed_row_bytes(job.w.type, job.w.n_in);
    args.jobs[j] = {static_cast<const uint8_t*>(job.w.data),
                    row_bytes,
                    job.y.data,
                    job.y.stride,
                    static_cast<int32_t>(job.w.type),
                    static_cast<int32_t>(job.w.n_out),
                    job.accumulate ? 1 : 0,
                    job.scale,
                    static_cast<int32_t>(blocks),
                    static_cast<int32_t>(tile_row_stride(row_bytes))};
    blocks += ceil_div(job.w.n_out, outputs_of_block);
  }
  return blocks;
}

void launch_float(const Operands& operands, std::span<const LinearJob> jobs) {
  LinearDecodeArgs args = {};
  if (operands.rows.count > kFloatRows) {
    const uint32_t blocks = put_jobs(operands, jobs, kFloatRowsOutputs, args);
    operands.stream.launch(kLinearFloatRows,
                           {.grid = {blocks, ceil_div(args.rows, kFloatRows)},
                            .block = {kLinearDecodeThreads},
                            .shared_bytes = uint32_t{kFloatRowsSharedBytes},
                            .overlaps_previous = true},
                           args);
    return;
  }
  const uint32_t blocks = put_jobs(operands, jobs, kFloatOutputs, args);
  args.warm_icache = blocks <= kFewFloatBlocks ? 1 : 0;
  const int rows = std::min(args.rows, kFloatRows);
  const bool is_long = takes_long_stage(rows, args.n_in);
  operands.stream.launch(is_long ? kLinearFloatLong : kLinearFloat,
                         {.grid = {blocks, ceil_div(args.rows, kFloatRows)},
                          .block = {kLinearDecodeThreads},
                          .shared_bytes = static_cast<uint32_t>(
                              float_shared_bytes(rows, is_long ? kLongFloatStage : kFloatStage)),
                          .overlaps_previous = true},
                         args);
}

/// A kernel of linear_tile.cu.
struct TileShape {
  const Kernel* kernel;
  int rows;
  bool staged;     ///< rows of x are staged in shared memory
  int blocks = 0;  ///< staged only: resident ones per multiprocessor
};
constexpr TileShape kTile8 = {&kLinearTile8, 8, true, kLinearTileBlocks};
constexpr TileShape kTile16 = {&kLinearTile16, 16, false};
constexpr TileShape kTile16Few = {&kLinearTile16Few, 16, true, kLinearTile16Blocks};
constexpr TileShape kTile32 = {&kLinearTile32, 32, false};

/// Shared memory available on every supported GPU, less what the system takes.
constexpr int64_t kMaxTileBytes = int64_t{96} << 10;

int codebook_bytes(const LinearJob& job) { return 4 * codebook_place(job.w.type).words; }

/// Shared memory of a block: a codebook, stages of weight rows, rows of x.
struct TileMemory {
  int64_t weights_at = 0;
  int64_t stage_bytes = 0;
  int64_t x_at = 0;
  int64_t bytes = 0;
};

TileMemory tile_memory(const TileShape& shape, std::span<const LinearJob> jobs, int stages) {
  TileMemory memory;
  // Partial sums reuse the memory of the weights.
  memory.stage_bytes = int64_t{kPartials} * shape.rows * kTileStride * 4;
  for (const LinearJob& job : jobs) {
    memory.stage_bytes =
        std::max(memory.stage_bytes,
                 kDecodeTileOutputs * tile_row_stride(packed_row_bytes(job.w.type, job.w.n_in)));
    memory.weights_at = std::max<int64_t>(memory.weights_at, codebook_bytes(job));
  }
  memory.x_at = memory.weights_at + stages * memory.stage_bytes;
  memory.bytes = memory.x_at + (shape.staged ? rounded_bytes(shape.rows, jobs.front().w.n_in) : 0);
  return memory;
}

bool share_codebook(std::span<const LinearJob> jobs) {
  return std::ranges::all_of(jobs, [&](const LinearJob& job) {
    return codebook_place(job.w.type).begin == codebook_place(jobs.front().w.type).begin &&
           codebook_bytes(job) == codebook_bytes(jobs.front());
  });
}

/// Sets how linear_tile_8 multiplies. No tile may read the sums of x's blocks if they are replaced.
void choose_product(std::span<const LinearJob> jobs, bool wide, LinearDecodeArgs& args) {
  const auto has = [&](auto predicate) {
    return std::ranges::any_of(jobs, [&](const LinearJob& job) { return predicate(job.w.type); });
  };
  const bool reads_sums = has([](DType t) { return has_minimum(t) && !takes_matrices(t); });
  const bool totals = has([](DType t) { return has_minimum(t) && takes_matrices(t); });
  const bool whole = args.n_in / 32 % matrix_blocks(wide) == 0;
  args.matrices = whole && !(reads_sums && totals) ? 1 : 0;
  args.totals = args.matrices != 0 && totals ? 1 : 0;
}

/// Whether the kernels for the types of most models take the matrix.
bool is_of_few_types(const LinearJob& job) {
  return takes_matrices(job.w.type) && reinterpret_cast<uintptr_t>(job.w.data) % 16 == 0;
}

/// Whether a block's shared memory for one stage fits: on every supported GPU, or on this one for
/// linear_tile_16_few, and for linear_tile_8 where a multiprocessor has at most one block.
bool fits(const TileShape& shape, const Operands& operands, std::span<const LinearJob> jobs) {
  constexpr int64_t kStaticBytes = 1 << 10;  // and what the system takes
  const int64_t bytes = tile_memory(shape, jobs, 1).bytes;
  if (bytes <= kMaxTileBytes) return true;
  uint32_t tiles = 0;
  for (const LinearJob& job : jobs) tiles += ceil_div(job.w.n_out, kDecodeTileOutputs);
  const bool may =
      &shape == &kTile16Few ||
      (&shape == &kTile8 && tiles <= static_cast<uint32_t>(operands.device.multiprocessors));
  return may && bytes + kStaticBytes <= operands.device.shared_bytes;
}

/// Whether linear_tile_16_few and linear_tile_16_wide_few compute the product.
bool takes_16_few(const Operands& operands, std::span<const LinearJob> jobs) {
  return operands.rows.count > kTile8.rows && operands.rows.count <= kTile16Few.rows &&
         operands.x.cols / 32 % matrix_blocks(/*wide=*/false) == 0 &&
         std::ranges::all_of(jobs, is_of_few_types) && fits(kTile16Few, operands, jobs);
}

/// The smallest shape that covers all rows in one tile and fits; nullptr: none fits.
const TileShape* tile_shape(const Operands& operands, std::span<const LinearJob> jobs) {
  if (takes_16_few(operands, jobs)) return &kTile16Few;
  for (const TileShape* shape : {&kTile8, &kTile16, &kTile32}) {
    if ((operands.rows.count <= shape->rows || shape == &kTile32) && fits(*shape, operands, jobs)) {
      return shape;
    }
  }
  return nullptr;
}

void launch_tiles(const Operands& operands, const TileShape& shape,
                  std::span<const LinearJob> jobs) {
  LinearDecodeArgs args = {};
  const int multiprocessors = operands.device.multiprocessors;
  const uint32_t tiles = put_jobs(operands, jobs, kDecodeTileOutputs, args);
  // One tile per block, unless there are more tiles than resident blocks.
  const auto resident = static_cast<uint32_t>(shape.blocks * multiprocessors);
  const bool stay = shape.staged && tiles > resident && share_codebook(jobs) &&
                    tile_memory(shape, jobs, kLinearTileStages).bytes <= kMaxTileBytes;
  const bool takes_wide =
      &shape != &kTile16Few || args.n_in / 32 % matrix_blocks(/*wide=*/true) == 0;
  const bool wide = shape.staged && takes_wide && tiles <= static_cast<uint32_t>(multiprocessors);
  const uint32_t blocks = stay ? resident : tiles;
  args.block_tiles = static_cast<int32_t>(tiles / blocks);
  args.more_tiles = static_cast<int32_t>(tiles % blocks);
  choose_product(jobs, wide, args);
  args.stages = stay ? kLinearTileStages : 1;
  const TileMemory memory = tile_memory(shape, jobs, args.stages);
  args.weights_at = static_cast<int32_t>(memory.weights_at);
  args.stage_bytes = static_cast<int32_t>(memory.stage_bytes);
  args.x_at = static_cast<int32_t>(memory.x_at);
  const bool few_types = args.matrices != 0 && std::ranges::all_of(jobs, is_of_few_types);
  const Kernel* kernel = shape.kernel;
  if (&shape == &kTile16Few) {
    if (wide) kernel = &kLinearTile16WideFew;
  } else if (wide) {
    kernel = few_types ? &kLinearTile8WideFew : &kLinearTile8Wide;
  } else if (stay && few_types && tiles <= blocks * kLinearTileStages) {
    kernel = &kLinearTile8Teams;
  }
  operands.stream.launch(
      *kernel,
      {.grid = {blocks, ceil_div(args.rows, shape.rows)},
       .block = {static_cast<uint32_t>(wide ? kWideTileThreads : kLinearDecodeThreads)},
       .shared_bytes = static_cast<uint32_t>(memory.bytes),
       .overlaps_previous = true},
      args);
}

void launch_integers(const Operands& operands, std::span<const LinearJob> jobs) {
  int64_t outputs = 0;
  int codebook = 0;
  for (const LinearJob& job : jobs) {
    outputs += job.w.n_out;
    codebook = std::max(codebook, codebook_bytes(job));
  }
  const LinearDecodePlan plan =
      plan_linear_decode(outputs, operands.rows.count, operands.device.multiprocessors);
  if (plan.rows > 1) {
    const TileShape* const shape = tile_shape(operands, jobs);
    if (shape != nullptr) return launch_tiles(operands, *shape, jobs);
  }
  LinearDecodeArgs args = {};
  args.passes = plan.passes;
  const uint32_t blocks = put_jobs(
      operands, jobs, int64_t{kLinearDecodeOutputs} * plan.passes / (plan.by_warps ? 2 : 1), args);
  const Kernel& kernel = plan.rows > 1   ? kLinearDecode8
                         : plan.by_warps ? kLinearDecodeByWarps
                                         : kLinearDecode1;
  operands.stream.launch(kernel,
                         {.grid = {blocks, ceil_div(args.rows, plan.rows)},
                          .block = {kLinearDecodeThreads},
                          .shared_bytes = static_cast<uint32_t>(codebook),
                          .overlaps_previous = true},
                         args);
}

}  // namespace

LinearDecodePlan plan_linear_decode(int64_t outputs, int rows, int multiprocessors) {
  LinearDecodePlan plan;
  if (rows > 1) plan.rows = 8;
  // Use enough blocks for one wave of four per multiprocessor. Beyond that, give each block more
  // outputs, so that codebooks and rows are loaded less often.
  if (plan.rows > 1) return plan;
  const int64_t blocks = outputs / kLinearDecodeOutputs;
  plan.by_warps = blocks < int64_t{2} * multiprocessors;
  plan.passes =
      static_cast<int>(std::clamp<int64_t>(blocks / (int64_t{4} * multiprocessors), 1, 4));
  return plan;
}

int64_t rounded_bytes(int64_t rows, int64_t n) {
  return rows * (n + n / kActivationBlock * static_cast<int64_t>(sizeof(RoundedBlock)));
}

RoundedRows rounded_rows_at(uint8_t* memory, int64_t rows, int64_t n) {
  RoundedRows rounded;
  rounded.q = reinterpret_cast<int8_t*>(memory);
  rounded.blocks = reinterpret_cast<RoundedBlock*>(memory + rows * n);
  return rounded;
}

namespace {

/// Offset of the tiles, behind the rows.
int64_t tiles_at(int64_t rows, int64_t n) { return (rounded_bytes(rows, n) + 15) / 16 * 16; }
int64_t rows_of_tiles(int64_t rows) {
  return (rows + kRoundedTile - 1) / kRoundedTile * kRoundedTile;
}

}  // namespace

int64_t tiled_rounded_bytes(int64_t rows, int64_t n) {
  return tiles_at(rows, n) + rounded_bytes(rows_of_tiles(rows), n);
}

RoundedRows tiled_rounded_rows_at(uint8_t* memory, int64_t rows, int64_t n) {
  RoundedRows rounded = rounded_rows_at(memory, rows, n);
  const RoundedRows tiles = rounded_rows_at(memory + tiles_at(rows, n), rows_of_tiles(rows), n);
  rounded.tile_q = tiles.q;
  rounded.tile_blocks = tiles.blocks;
  return rounded;
}

void round_rows(Stream& stream, ConstMatrixView x, const RoundedRows& rounded) {
  const RoundRowsArgs args = {x.data, x.stride, rounded, static_cast<int32_t>(x.rows),
                              static_cast<int32_t>(x.cols)};
  stream.launch(kRoundRows,
                {.grid = {ceil_div(x.rows * x.cols, kRoundThreads)},
                 .block = {kRoundThreads},
                 .overlaps_previous = true},
                args);
}

void linear_decode(Stream& stream, const LinearDevice& device, ConstMatrixView x,
                   const RoundedRows& rounded, const RowSet& rows, const uint32_t* codebook,
                   std::span<const LinearJob> jobs) {
  const Operands operands = {stream, device, x, rounded, rows, codebook};
  for (const bool integers : {true, false}) {
    std::vector<LinearJob> kind;
    for (const LinearJob& job : jobs) {
      if (takes_integer_dot(job.w.type) == integers) kind.push_back(job);
    }
    const std::span<const LinearJob> all = kind;
    for (size_t begin = 0; begin < all.size(); begin += kMaxLinearJobs) {
      const auto some = all.subspan(begin, std::min<size_t>(kMaxLinearJobs, all.size() - begin));
      if (integers) {
        launch_integers(operands, some);
      } else {
        launch_float(operands, some);
      }
    }
  }
}

}  // namespace chimere::kernels::cuda
