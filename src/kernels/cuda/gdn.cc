#include "kernels/cuda/gdn.h"

#include <algorithm>

#include "kernels/cuda/gdn_args.h"
#include "kernels/cuda/norm.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kConvEdges = {"gdn_conv", "gdn_conv_edges"};
constexpr Kernel kConvTiles = {"gdn_conv", "gdn_conv_rows"};
constexpr Kernel kGdnPrefillProducts = {"gdn_prefill", "gdn_prefill_products"};
constexpr Kernel kGdnPrefillScan = {"gdn_prefill", "gdn_prefill_scan"};
constexpr Kernel kGdnPrefillSolve = {"gdn_prefill_128", "gdn_prefill_solve"};
constexpr Kernel kGdnPrefillAdvance = {"gdn_prefill_128", "gdn_prefill_advance"};
constexpr Kernel kFold = {"gdn_fold", "gdn_fold"};
constexpr Kernel kDecode32 = {"gdn_decode", "gdn_decode_32"};
constexpr Kernel kDecode16 = {"gdn_decode", "gdn_decode_16"};
constexpr Kernel kMixMany = {"gdn_decode_128", "gdn_decode_128_many"};
constexpr Kernel kMixFew = {"gdn_decode_128", "gdn_decode_128_few"};
constexpr Kernel kMixRowsOfSequence = {"gdn_decode_128_rows", "gdn_decode_128_rows"};
/// These kernels warm the instruction cache for at most this many blocks: about one per
/// multiprocessor.
constexpr int64_t kFewBlocks = 128;

uint32_t u32(int64_t x) { return static_cast<uint32_t>(x); }
int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }
int whole_warps(int threads) { return (threads + 31) / 32 * 32; }

GdnDims dims_of(const GdnShape& shape) {
  return {shape.n_k_heads, shape.n_v_heads, shape.head_dim, shape.conv_kernel,
          shape.tiled_heads ? 1 : 0};
}

SlotArgs slot_args(const RecurrentView& state) {
  return {state.base, state.slot_stride, state.rows, state.row_stride};
}

BatchArgs batch_args(const DeviceBatch& batch) {
  BatchArgs args = batch.args;
  if (batch.extent.keeps == 0) args.keep_row = nullptr;
  return args;
}

/// Folds the rows of the step's sequences into the states that are not nullptr.
void fold(Stream& stream, const DeviceBatch& batch, const GdnShape& shape,
          const RecurrentView* conv, const RecurrentView* scan) {
  if (batch.extent.folds == 0) return;
  GdnFoldArgs args = {};
  args.batch = batch.args;
  args.dims = dims_of(shape);
  int64_t blocks = 0;
  if (scan != nullptr) {
    args.scan = slot_args(*scan);
    blocks += int64_t{shape.n_v_heads} * (shape.head_dim / kFoldStateRows);
  }
  if (conv != nullptr) {
    args.conv = slot_args(*conv);
    blocks += blocks_of(shape.conv_dim(), kFoldThreads);
  }
  const Launch launch = {.grid = {u32(blocks), u32(batch.extent.n_sequences)},
                         .block = {kFoldThreads},
                         .overlaps_previous = true};
  stream.launch(kFold, launch, args);
}

GdnScanArgs scan_args(const DeviceBatch& batch, const GdnShape& shape, ConstMatrixView qkv,
                      ConstMatrixView alpha, ConstMatrixView beta, const float* a,
                      const float* dt_bias, RecurrentView state, MatrixView out) {
  GdnScanArgs scan = {};
  scan.batch = batch_args(batch);
  scan.dims = dims_of(shape);
  scan.qkv = {qkv.data, qkv.stride};
  scan.alpha = {alpha.data, alpha.stride};
  scan.beta = {beta.data, beta.stride};
  scan.a = a;
  scan.dt_bias = dt_bias;
  scan.state = slot_args(state);
  scan.out = {out.data, out.stride};
  return scan;
}

/// Whether prefill uses tensor cores (gdn_prefill_128.cu).
bool takes_tensor_cores(const GdnShape& shape) { return shape.head_dim == 128; }

/// Parts of the scratch memory, in floats. `edges` is for gdn_conv, the others for gdn_scan.
struct ScratchFloats {
  int64_t edges;
  int64_t products;
  int64_t solved;
  int64_t mixed;
  int64_t decays;
  int64_t carry;
};

ScratchFloats scratch_floats(const GdnShape& shape, const BatchExtent& extent) {
  ScratchFloats floats = {};
  floats.edges =
      (int64_t{extent.n_rows} / kConvTile + extent.n_sequences) * shape.conv_state_floats();
  if (extent.prefill_rows > 0) {
    const int64_t rows = extent.n_rows;
    floats.products = rows * shape.n_k_heads * 2 * kChunkRows;
    if (takes_tensor_cores(shape)) {
      floats.solved = rows * shape.n_v_heads * 2 * shape.head_dim;
      floats.mixed = rows * shape.n_v_heads * kChunkRows;
      floats.decays = blocks_of(rows * shape.n_v_heads * 2, 4) * 4;
    }
  }
  if (extent.runs > 1) floats.carry = extent.n_sequences * shape.scan_state_floats();
  return floats;
}

void launch_decode(Stream& stream, const BatchExtent& extent, GdnDecodeArgs args) {
  const GdnDims& dims = args.scan.dims;
  // As many columns as a part has rows, so that a block has head_dim threads.
  args.columns = dims.head_dim % 32 == 0 ? 32 : 16;
  const Launch launch = {.grid = {u32(dims.n_v_heads * blocks_of(dims.head_dim, args.columns)),
                                  u32(extent.n_sequences)},
                         .block = {u32(whole_warps(dims.head_dim))},
                         .overlaps_previous = true};
  stream.launch(args.columns == 32 ? kDecode32 : kDecode16, launch, args);
}

template <class T>
bool aligned16(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

/// Whether gdn_decode_128 and gdn_decode_128_rows support the layer.
bool takes_one_launch(const GdnShape& shape, const GdnOperands& o) {
  return shape.head_dim == kMixDim && shape.conv_kernel == kMixTaps && aligned16(o.conv_weight) &&
         aligned16(o.scan_state.base) && o.scan_state.slot_stride % 4 == 0;
}

}  // namespace

int64_t gdn_scratch_bytes(const GdnShape& shape, const BatchExtent& extent) {
  const ScratchFloats floats = scratch_floats(shape, extent);
  return std::max(floats.edges,
                  floats.products + floats.solved + floats.mixed + floats.decays + floats.carry) *
         int64_t{sizeof(float)};
}

namespace {

/// gdn_conv without folding.
void conv_rows(Stream& stream, const DeviceBatch& batch, const GdnShape& shape, const float* weight,
               float eps, RecurrentView state, MatrixView qkv, uint8_t* scratch) {
  GdnConvArgs args = {};
  args.batch = batch_args(batch);
  args.dims = dims_of(shape);
  args.weight = weight;
  args.eps = eps;
  args.state = slot_args(state);
  args.qkv = {qkv.data, qkv.stride};
  args.edges = reinterpret_cast<float*>(scratch);
  const uint32_t sequences = u32(batch.extent.n_sequences);
  const uint32_t tiles = u32(blocks_of(batch.extent.sequence_rows, kConvTile));
  const Launch edges = {.grid = {u32(blocks_of(shape.conv_dim(), 256)), sequences, tiles},
                        .block = {256}};
  stream.launch(kConvEdges, edges, args);
  const Launch rows = {.grid = {u32(2 * shape.n_k_heads + shape.n_v_heads), tiles, sequences},
                       .block = {u32(whole_warps(shape.head_dim))},
                       .shared_bytes = u32(kConvRows * shape.head_dim * int64_t{sizeof(float)}),
                       .overlaps_previous = true};
  stream.launch(kConvTiles, rows, args);
}

/// gdn_scan without folding.
void scan_rows(Stream& stream, const DeviceBatch& batch, const GdnShape& shape, ConstMatrixView qkv,
               ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
               RecurrentView state, MatrixView out, uint8_t* scratch) {
  const BatchExtent& extent = batch.extent;
  auto* floats = reinterpret_cast<float*>(scratch);
  GdnPrefillArgs args = {};
  args.products = floats;
  GdnScanArgs& scan = args.scan;
  scan = scan_args(batch, shape, qkv, alpha, beta, a, dt_bias, state, out);
  const ScratchFloats parts = scratch_floats(shape, extent);
  args.solved = args.products + parts.products;
  args.mixed = args.solved + parts.solved;
  args.decays = args.mixed + parts.mixed;
  scan.carry = args.decays + parts.decays;
  const bool tensor_cores = takes_tensor_cores(shape);
  if (extent.prefill_rows > 0) {
    const Launch products = {.grid = {u32(shape.n_k_heads), u32(extent.n_slices)},
                             .block = {kGdnPrefillThreads},
                             .overlaps_previous = true};
    stream.launch(kGdnPrefillProducts, products, args);
    if (tensor_cores) {
      const Launch solve = {.grid = {u32(shape.n_v_heads), u32(extent.n_slices)},
                            .block = {kGdnPrefillThreads},
                            .overlaps_previous = true};
      stream.launch(kGdnPrefillSolve, solve, args);
    }
  }
  for (scan.run = 0; scan.run < extent.runs; ++scan.run) {
    if (extent.prefill_rows > 0 && tensor_cores) {
      const Launch launch = {.grid = {u32(shape.head_dim / kPrefillColumns), u32(shape.n_v_heads),
                                      u32(extent.n_sequences)},
                             .block = {kGdnPrefillThreads},
                             .overlaps_previous = true};
      stream.launch(kGdnPrefillAdvance, launch, args);
    } else if (extent.prefill_rows > 0) {
      const Launch launch = {
          .grid = {u32(blocks_of(shape.head_dim, kPrefillColumns)), u32(shape.n_v_heads),
                   u32(extent.n_sequences)},
          .block = {kGdnPrefillThreads},
          .shared_bytes = u32(kGdnPrefillSharedBytes +
                              shape.head_dim * kPrefillColumns * int64_t{sizeof(float)})};
      stream.launch(kGdnPrefillScan, launch, args);
    }
    if (extent.decode_rows > 0) {
      GdnDecodeArgs decode = {};
      decode.scan = scan;
      launch_decode(stream, extent, decode);
    }
  }
}

}  // namespace

void gdn_conv(Stream& stream, const DeviceBatch& batch, const GdnShape& shape, const float* weight,
              float eps, RecurrentView state, MatrixView qkv, uint8_t* scratch) {
  fold(stream, batch, shape, &state, nullptr);
  conv_rows(stream, batch, shape, weight, eps, state, qkv, scratch);
}

void gdn_scan(Stream& stream, const DeviceBatch& batch, const GdnShape& shape, ConstMatrixView qkv,
              ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
              RecurrentView state, MatrixView out, uint8_t* scratch) {
  fold(stream, batch, shape, nullptr, &state);
  scan_rows(stream, batch, shape, qkv, alpha, beta, a, dt_bias, state, out, scratch);
}

bool decode_only(const BatchExtent& extent) { return extent.prefill_rows == 0 && extent.runs <= 1; }

void gdn_mix(Stream& stream, const DeviceBatch& batch, const GdnShape& shape,
             const GdnOperands& operands, MatrixView qkv, ConstMatrixView alpha,
             ConstMatrixView beta, ConstMatrixView z, MatrixView out, const RoundedRows& rounded,
             uint8_t* scratch, uint32_t* barrier_counters) {
  const GdnOperands& o = operands;
  fold(stream, batch, shape, &o.conv_state, &o.scan_state);
  if (!decode_only(batch.extent)) {
    conv_rows(stream, batch, shape, o.conv_weight, o.eps, o.conv_state, qkv, scratch);
    scan_rows(stream, batch, shape, qkv, alpha, beta, o.a, o.dt_bias, o.scan_state, out, scratch);
    gated_rms_norm(stream, out, z, o.norm, shape.head_dim, o.eps, out, rounded);
    return;
  }
  if (takes_one_launch(shape, o)) {
    GdnMixArgs args = {};
    args.scan = scan_args(batch, shape, qkv, alpha, beta, o.a, o.dt_bias, o.scan_state, out);
    args.conv_weight = o.conv_weight;
    args.conv_state = slot_args(o.conv_state);
    args.folded = batch.extent.folds;
    args.barrier_counters = barrier_counters;
    args.z = {z.data, z.stride};
    args.norm = o.norm;
    args.rounded = rounded;
    args.eps = o.eps;
    const bool single = batch.extent.sequence_rows <= 1 && batch.extent.keeps == 0;
    const bool few = int64_t{shape.n_v_heads} * batch.extent.n_sequences <= kFewBlocks;
    const size_t shared = single ? sizeof(GdnMixShared) + kMixStateBytes : sizeof(GdnMixRowsShared);
    const Launch launch = {.grid = {u32(shape.n_v_heads), u32(batch.extent.n_sequences)},
                           .block = {u32(single ? kMixThreads : kMixRowsThreads)},
                           .shared_bytes = u32(static_cast<int64_t>(shared)),
                           .overlaps_previous = true};
    stream.launch(!single ? kMixRowsOfSequence : few ? kMixFew : kMixMany, launch, args);
    return;
  }
  GdnDecodeArgs args = {};
  args.scan = scan_args(batch, shape, qkv, alpha, beta, o.a, o.dt_bias, o.scan_state, out);
  args.conv_weight = o.conv_weight;
  args.conv_state = slot_args(o.conv_state);
  args.folded = batch.extent.folds;
  args.barrier_counters = barrier_counters;
  args.eps = o.eps;
  launch_decode(stream, batch.extent, args);
  gated_rms_norm(stream, out, z, o.norm, shape.head_dim, o.eps, out, rounded);
}

}  // namespace chimere::kernels::cuda
