#include "kernels/cuda/attention.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/attention_rules.h"
#include "kernels/cuda/attention_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kRopeTable = {"rope_append", "rope_table"};
constexpr Kernel kAppend = {"rope_append", "qk_norm_rope_append"};
constexpr std::array<Kernel, 3> kAttend = {
    {{"attend", "attend_1"}, {"attend", "attend_2"}, {"attend", "attend_4"}}};
constexpr std::array<Kernel, 3> kAttendSplit = {{{"attend_split", "attend_split_1"},
                                                 {"attend_split", "attend_split_2"},
                                                 {"attend_split", "attend_split_4"}}};
constexpr Kernel kFold = {"attend", "attend_fold"};

static_assert(kSplit == kAttentionSplit && kPage == kKvPageTokens);

/// Largest memory for partial results of splits. More rows than fit fill a GPU without blocks for
/// splits.
constexpr int64_t kMaxPartsBytes = int64_t{64} << 20;

uint32_t u32(int64_t x) { return static_cast<uint32_t>(x); }
int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

KvType kv_type(DType t) {
  switch (t) {
    case DType::kF16:
      return KvType::kF16;
    case DType::kBF16:
      return KvType::kBF16;
    case DType::kQ8_0:
      return KvType::kQ8_0;
    case DType::kQ4_0:
      return KvType::kQ4_0;
    default:
      return KvType::kF32;
  }
}

KvArgs kv_args(const KvView& kv) {
  return {kv.base, kv.page_bytes, kv_type(kv.k_type), kv_type(kv.v_type)};
}

AttentionDims dims_of(const AttentionShape& shape) {
  return {shape.n_heads, shape.n_kv_heads, shape.head_dim, shape.rope_dims, shape.gated ? 1 : 0};
}

/// attend_prefill_N for heads of N elements, or nullptr.
const Kernel* prefill_kernel(int head_dim) {
  static constexpr Kernel k32 = {"attend_prefill", "attend_prefill_32"};
  static constexpr Kernel k64 = {"attend_prefill", "attend_prefill_64"};
  static constexpr Kernel k128 = {"attend_prefill", "attend_prefill_128"};
  static constexpr Kernel k256 = {"attend_prefill", "attend_prefill_256"};
  switch (head_dim) {
    case 32:
      return &k32;
    case 64:
      return &k64;
    case 128:
      return &k128;
    case 256:
      return &k256;
    default:
      return nullptr;
  }
}

void attend_prefill(Stream& stream, const BatchExtent& extent, AttendArgs args) {
  args.row_class = kPrefillRows;
  args.rows_per_slice = extent.prefill_rows;
  const int64_t group = args.dims.n_heads / args.dims.n_kv_heads;
  const int64_t tiles = blocks_of(extent.prefill_rows * group, kPrefillQueries);
  const Launch launch = {.grid = {u32(extent.n_slices * tiles), u32(args.dims.n_kv_heads)},
                         .block = {kPrefillThreads},
                         .shared_bytes = u32(prefill_shared_bytes(args.dims.head_dim)),
                         .overlaps_previous = true};
  stream.launch(*prefill_kernel(args.dims.head_dim), launch, args);
}

/// The one of three kernels that takes 1, 2 or 4 heads in a block.
const Kernel& for_heads(const std::array<Kernel, 3>& kernels, int heads) {
  return kernels[static_cast<size_t>(std::min(heads, 3) - 1)];
}

/// Whether attend_split_N can copy the rows, 16 bytes at a time.
bool allows_copies(const ConstMatrixView& rows) {
  return reinterpret_cast<uintptr_t>(rows.data) % 16 == 0 && rows.stride % 4 == 0;
}

/// Launches attend_N. `args`: with the rows' class and the plan; also for attend_fold after it.
void attend_rows(Stream& stream, const AttentionShape& shape, const AttendPlan& plan, int64_t rows,
                 int multiprocessors, int64_t shared_bytes, AttendArgs& args) {
  args.tiles = plan.tiles;
  const int64_t blocks = rows * shape.n_kv_heads * plan.tiles * std::max(plan.splits, 1);
  args.warms_icache = blocks <= int64_t{2} * multiprocessors ? 1 : 0;
  args.prefetches = 4 * blocks <= multiprocessors ? 1 : 0;
  // Request so much shared memory that every multiprocessor gets the same number of blocks.
  int64_t block_bytes = attend_shared_bytes(plan.heads, shape.head_dim, plan.splits == 0);
  const int64_t share = blocks_of(blocks, multiprocessors);
  if (4 * blocks > multiprocessors && share <= 2) {
    block_bytes = std::max(block_bytes, shared_bytes / (share + 1) / 16 * 16 + 1024);
  }
  const Launch launch = {.grid = {u32(rows), u32(int64_t{shape.n_kv_heads} * plan.tiles),
                                  u32(std::max(plan.splits, 1))},
                         .block = {kAttendThreads},
                         .shared_bytes = u32(block_bytes),
                         .overlaps_previous = true};
  stream.launch(for_heads(kAttend, plan.heads), launch, args);
}

/// Launches attend_split_N, likewise.
void attend_splits(Stream& stream, const AttentionShape& shape, const AttendSplitPlan& plan,
                   int64_t rows, AttendArgs& args) {
  args.tiles = static_cast<int32_t>(blocks_of(args.group, plan.heads));
  args.warms_icache = 1;
  const Launch launch = {.grid = {u32(rows), u32(int64_t{shape.n_kv_heads} * args.tiles),
                                  u32(std::max(args.max_splits, 1))},
                         .block = {kAttendSplitThreads},
                         .shared_bytes = u32(plan.shared_bytes),
                         .overlaps_previous = true};
  stream.launch(for_heads(kAttendSplit, plan.heads), launch, args);
}

}  // namespace

int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type) {
  const int64_t bytes = int64_t{kPage} * shape.n_kv_heads *
                        (row_bytes(k_type, shape.head_dim) + row_bytes(v_type, shape.head_dim));
  return blocks_of(bytes, 64) * 64;
}

void rope_table(Stream& stream, const DeviceBatch& batch, int rope_dims, const double* frequencies,
                float* table) {
  const RopeTableArgs args = {batch.args.row_position, frequencies, table, batch.extent.n_rows,
                              rope_dims / 2};
  constexpr int kThreads = 128;
  const Launch launch = {.grid = {u32(blocks_of(int64_t{args.rows} * args.half, kThreads))},
                         .block = {kThreads},
                         .overlaps_previous = true};
  stream.launch(kRopeTable, launch, args);
}

void qk_norm_rope_append(Stream& stream, const DeviceBatch& batch, const AttentionShape& shape,
                         const float* rope, const float* q_norm, const float* k_norm, float eps,
                         MatrixView qg, ConstMatrixView k, ConstMatrixView v, KvView kv) {
  AppendArgs args = {};
  args.batch = batch.args;
  args.batch.page_begin += int64_t{kv.group} * batch.extent.n_sequences;
  args.dims = dims_of(shape);
  args.rope = rope;
  args.q_norm = q_norm;
  args.k_norm = k_norm;
  args.eps = eps;
  args.qg = {qg.data, qg.stride};
  args.k = {k.data, k.stride};
  args.v = {v.data, v.stride};
  args.kv = kv_args(kv);
  const Launch launch = {
      .grid = {u32(batch.extent.n_rows),
               u32(blocks_of(shape.n_heads + 2 * int64_t{shape.n_kv_heads}, kAppendWarps))},
      .block = {kAppendWarps * 32},
      .overlaps_previous = true};
  stream.launch(kAppend, launch, args);
}

bool prefill_uses_tensor_cores(const AttentionShape& shape, DType k_type, DType v_type) {
  // Tensor cores take f16: these types round to it with little loss, f32 and bf16 would lose more.
  auto fits = [](DType t) { return t == DType::kF16 || t == DType::kQ8_0 || t == DType::kQ4_0; };
  return prefill_kernel(shape.head_dim) != nullptr && fits(k_type) && fits(v_type);
}

AttendPlan plan_attend(const AttentionShape& shape, const BatchExtent& extent, int rows_per_slice,
                       int multiprocessors) {
  AttendPlan plan;
  const int group = shape.n_heads / shape.n_kv_heads;
  const int64_t rows = int64_t{extent.n_slices} * rows_per_slice;
  int64_t splits = blocks_of(extent.positions, kSplit);
  if (shape.window > 0) {  // which may begin anywhere in a split; rows may see their slice's end
    const int64_t most = int64_t{shape.window} + rows_per_slice - 1;
    splits = std::min(splits, blocks_of(most - 1, kSplit) + 1);
  }
  const int64_t parts_bytes =
      rows * shape.n_heads * splits * (shape.head_dim + 2) * int64_t{sizeof(float)};
  // Rows whose heads alone keep the GPU busy need no blocks for splits.
  const bool splits_apart = splits > 1 && parts_bytes <= kMaxPartsBytes &&
                            rows * shape.n_kv_heads < 2 * int64_t{multiprocessors};
  if (splits_apart) {
    plan.splits = static_cast<int>(splits);
    plan.parts_bytes = parts_bytes;
  }
  const int64_t blocks = rows * shape.n_kv_heads * (splits_apart ? splits : 1);
  // As long as every multiprocessor has work: blocks with few heads finish as soon as their keys
  // have arrived, blocks with many heads need a second block beside them to hide latency.
  while (plan.heads < 4 && plan.heads < group) {
    const int heads = 2 * plan.heads;
    if (4 * blocks * blocks_of(group, heads) < int64_t{multiprocessors} * (heads > 2 ? 6 : 3)) {
      break;
    }
    plan.heads = heads;
  }
  plan.tiles = static_cast<int>(blocks_of(group, plan.heads));
  return plan;
}

AttendSplitPlan plan_attend_split(const AttentionShape& shape, DType k_type, DType v_type,
                                  const BatchExtent& extent, int rows_per_slice,
                                  const AttendPlan& plan, int multiprocessors,
                                  int64_t shared_bytes) {
  // With many splits attend_N is as fast, since its blocks hide each other's latency.
  constexpr int kMaxSplits = 4;
  const bool one_split = plan.splits == 0 && extent.positions <= kSplit;
  if (shape.head_dim % 32 != 0 || plan.splits > kMaxSplits || (plan.splits == 0 && !one_split)) {
    return {};
  }
  const int64_t pages = blocks_of(std::min(extent.positions, kSplit), kPage);
  const int64_t head_bytes =
      kPage * (row_bytes(k_type, shape.head_dim) + row_bytes(v_type, shape.head_dim));
  const int64_t tiled =
      int64_t{extent.n_slices} * rows_per_slice * shape.n_kv_heads * std::max(plan.splits, 1);
  const int group = shape.n_heads / shape.n_kv_heads;
  for (const int heads : {1, 2, 4}) {
    const int64_t bytes = attend_split_shared_bytes(heads, shape.head_dim, pages, head_bytes);
    if (bytes > shared_bytes) break;
    if (tiled * blocks_of(group, heads) <= multiprocessors) return {heads, bytes};
    if (heads >= group) break;
  }
  return {};
}

int64_t attend_scratch_bytes(const AttentionShape& shape, const BatchExtent& extent,
                             int multiprocessors) {
  return std::max(plan_attend(shape, extent, extent.decode_rows, multiprocessors).parts_bytes,
                  plan_attend(shape, extent, extent.prefill_rows, multiprocessors).parts_bytes);
}

void attend(Stream& stream, const DeviceBatch& batch, const AttentionShape& shape,
            ConstMatrixView qg, KvView kv, MatrixView out, const RoundedRows& rounded,
            int multiprocessors, int64_t shared_bytes, uint8_t* scratch) {
  AttendArgs args = {};
  args.batch = batch.args;
  args.dims = dims_of(shape);
  args.batch.page_begin += int64_t{kv.group} * batch.extent.n_sequences;
  args.scale = shape.scale;
  args.window = shape.window;
  args.sinks = shape.sinks;
  args.qg = {qg.data, qg.stride};
  args.kv = kv_args(kv);
  args.out = {out.data, out.stride};
  args.rounded = rounded;
  for (const int32_t row_class : {kPrefillRows, kDecodeRows}) {
    const int rows_per_slice =
        row_class == kPrefillRows ? batch.extent.prefill_rows : batch.extent.decode_rows;
    if (rows_per_slice == 0) continue;
    if (row_class == kPrefillRows && prefill_uses_tensor_cores(shape, kv.k_type, kv.v_type)) {
      attend_prefill(stream, batch.extent, args);
      continue;
    }
    const AttendPlan plan = plan_attend(shape, batch.extent, rows_per_slice, multiprocessors);
    args.row_class = row_class;
    args.rows_per_slice = rows_per_slice;
    args.parts = plan.splits > 0 ? reinterpret_cast<float*>(scratch) : nullptr;
    args.max_splits = plan.splits;
    args.group = args.dims.n_heads / args.dims.n_kv_heads;
    const int64_t rows = int64_t{batch.extent.n_slices} * rows_per_slice;
    AttendSplitPlan few;
    if (allows_copies(qg)) {
      few = plan_attend_split(shape, kv.k_type, kv.v_type, batch.extent, rows_per_slice, plan,
                              multiprocessors, shared_bytes);
    }
    if (few.heads > 0) {
      attend_splits(stream, shape, few, rows, args);
    } else {
      attend_rows(stream, shape, plan, rows, multiprocessors, shared_bytes, args);
    }
    if (plan.splits == 0) continue;
    const Launch fold = {.grid = {u32(rows), u32(shape.n_heads)},
                         .block = {kFoldThreads},
                         .overlaps_previous = true};
    stream.launch(kFold, fold, args);
  }
}

}  // namespace chimere::kernels::cuda
