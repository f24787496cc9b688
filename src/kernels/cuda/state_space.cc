#include "kernels/cuda/state_space.h"

#include <algorithm>

#include "kernels/cuda/state_space_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kCausalConv = {"state_space", "causal_conv"};
constexpr Kernel kCausalConvEdges = {"state_space", "causal_conv_edges"};
constexpr Kernel kCausalConvTiles = {"state_space", "causal_conv_tiles"};
constexpr Kernel kSsdScan = {"state_space", "ssd_scan"};
constexpr Kernel kSsdPrefillProducts = {"ssd_prefill", "ssd_prefill_products"};
constexpr Kernel kSsdPrefillAdvance = {"ssd_prefill", "ssd_prefill_advance"};
constexpr Kernel kSelectiveScan = {"state_space", "selective_scan"};
constexpr Kernel kSelectiveScan16 = {"state_space", "selective_scan_16"};

BatchArgs recurrent_batch(const DeviceBatch& batch) {
  BatchArgs args = batch.args;
  if (batch.extent.folds == 0) args.fold_begin = nullptr;
  if (batch.extent.keeps == 0) args.keep_row = nullptr;
  return args;
}

SlotArgs recurrent_slots(const RecurrentView& state) {
  return {state.base, state.slot_stride, state.rows, state.row_stride};
}

Launch recurrent_launch(const DeviceBatch& batch, int64_t blocks, int threads,
                        int64_t shared_floats) {
  return {.grid = {static_cast<uint32_t>(blocks), static_cast<uint32_t>(batch.extent.n_sequences)},
          .block = {static_cast<uint32_t>(threads)},
          .shared_bytes = static_cast<uint32_t>(shared_floats * int64_t{sizeof(float)}),
          .overlaps_previous = true};
}

int64_t scan_blocks(int64_t count, int64_t block) { return (count + block - 1) / block; }

/// Whether chunks are multiplied on tensor cores (ssd_prefill.cu).
bool takes_tensor_cores(const SsdShape& shape) {
  return shape.state_dim == kSsdPrefillStates && shape.head_dim % kSsdPrefillColumns == 0;
}

/// Parts of the scratch memory, in bytes.
struct SsdScratch {
  int64_t decays = 0;
  int64_t products = 0;
  int64_t steps = 0;
  int64_t carry = 0;
};

SsdScratch ssd_scratch(const SsdShape& shape, const BatchExtent& extent) {
  SsdScratch bytes;
  if (extent.prefill_rows == 0 || !takes_tensor_cores(shape)) return bytes;
  const int64_t rows = extent.n_rows;
  bytes.decays = (rows * shape.n_heads * int64_t{sizeof(double)} + 15) / 16 * 16;
  bytes.products = rows * shape.n_groups * kSsdChunkRows * int64_t{sizeof(float)};
  bytes.steps = (rows * shape.n_heads * int64_t{sizeof(float)} + 15) / 16 * 16;
  if (extent.runs > 1) {
    bytes.carry = extent.n_sequences * shape.state_floats() * int64_t{sizeof(float)};
  }
  return bytes;
}

}  // namespace

int64_t conv_scratch_bytes(const ConvShape& shape, const BatchExtent& extent) {
  if (extent.sequence_rows <= kCausalConvTile) return 0;
  const int64_t tiles = int64_t{extent.n_rows} / kCausalConvTile + extent.n_sequences;
  return tiles * shape.state_floats() * int64_t{sizeof(float)};
}

void causal_conv(Stream& stream, const DeviceBatch& batch, const ConvShape& shape,
                 const float* weight, const float* bias, RecurrentView state, MatrixView x,
                 uint8_t* scratch) {
  CausalConvArgs args = {};
  args.batch = recurrent_batch(batch);
  args.channels = shape.channels;
  args.taps = shape.taps;
  args.silu = shape.silu ? 1 : 0;
  args.weight = weight;
  args.bias = bias;
  args.state = recurrent_slots(state);
  args.x = {x.data, x.stride};
  const int64_t blocks = scan_blocks(shape.channels, kConvThreads);
  if (batch.extent.sequence_rows <= kCausalConvTile) {
    stream.launch(kCausalConv, recurrent_launch(batch, blocks, kConvThreads, 0), args);
    return;
  }
  args.edges = reinterpret_cast<float*>(scratch);
  const int64_t tiles = scan_blocks(batch.extent.sequence_rows, kCausalConvTile);
  const Launch by_tile = {.grid = {static_cast<uint32_t>(blocks), static_cast<uint32_t>(tiles),
                                   static_cast<uint32_t>(batch.extent.n_sequences)},
                          .block = {kConvThreads},
                          .overlaps_previous = true};
  stream.launch(kCausalConvEdges, by_tile, args);
  stream.launch(kCausalConvTiles, by_tile, args);
}

int64_t ssd_scratch_bytes(const SsdShape& shape, const BatchExtent& extent) {
  const SsdScratch bytes = ssd_scratch(shape, extent);
  return bytes.decays + bytes.products + bytes.steps + bytes.carry;
}

void ssd_scan(Stream& stream, const DeviceBatch& batch, const SsdShape& shape,
              const SsdWeights& weights, ConstMatrixView xbc, ConstMatrixView dt,
              RecurrentView state, MatrixView out, uint8_t* scratch) {
  const BatchExtent& extent = batch.extent;
  SsdArgs args = {};
  args.batch = recurrent_batch(batch);
  args.n_heads = shape.n_heads;
  args.head_dim = shape.head_dim;
  args.n_groups = shape.n_groups;
  args.state_dim = shape.state_dim;
  args.columns = shape.head_dim % kScanColumns == 0 ? kScanColumns : kChannelUnit;
  args.a = weights.a;
  args.d = weights.d;
  args.dt_bias = weights.dt_bias;
  args.xbc = {xbc.data, xbc.stride};
  args.dt = {dt.data, dt.stride};
  args.state = recurrent_slots(state);
  args.out = {out.data, out.stride};
  const int64_t blocks = int64_t{shape.n_heads} * (shape.head_dim / args.columns);
  const int64_t floats =
      int64_t{shape.state_dim} * args.columns + 2 * scan_row_floats(shape.state_dim);
  const Launch by_row = recurrent_launch(batch, blocks, args.columns, floats);
  if (extent.prefill_rows == 0 || !takes_tensor_cores(shape)) {
    args.run = kAllRuns;
    stream.launch(kSsdScan, by_row, args);
    return;
  }
  const SsdScratch bytes = ssd_scratch(shape, extent);
  args.decays = reinterpret_cast<double*>(scratch);
  args.products = reinterpret_cast<float*>(scratch + bytes.decays);
  args.steps = reinterpret_cast<float*>(scratch + bytes.decays + bytes.products);
  args.carry = reinterpret_cast<float*>(scratch + bytes.decays + bytes.products + bytes.steps);
  const int64_t of_decays = scan_blocks(shape.n_heads, kSsdDecayHeads);
  const Launch products = {.grid = {static_cast<uint32_t>(shape.n_groups + of_decays),
                                    static_cast<uint32_t>(extent.n_slices)},
                           .block = {kSsdPrefillThreads},
                           .overlaps_previous = true};
  stream.launch(kSsdPrefillProducts, products, args);
  const Launch advance = {
      .grid = {static_cast<uint32_t>(shape.head_dim / kSsdPrefillColumns),
               static_cast<uint32_t>(shape.n_heads), static_cast<uint32_t>(extent.n_sequences)},
      .block = {kSsdPrefillThreads},
      .overlaps_previous = true};
  for (args.run = 0; args.run < extent.runs; ++args.run) {
    const bool folds = args.run == 0 && extent.folds > 0;
    if (extent.decode_rows > 0 || folds) stream.launch(kSsdScan, by_row, args);
    stream.launch(kSsdPrefillAdvance, advance, args);
  }
}

void selective_scan(Stream& stream, const DeviceBatch& batch, const SelectiveShape& shape,
                    const SelectiveWeights& weights, const SelectiveInputs& inputs,
                    RecurrentView state, MatrixView out) {
  SelectiveArgs args = {};
  args.batch = recurrent_batch(batch);
  args.channels = shape.channels;
  args.state_dim = shape.state_dim;
  args.a = weights.a;
  args.d = weights.d;
  args.dt_bias = weights.dt_bias;
  args.x = {inputs.x.data, inputs.x.stride};
  args.dt = {inputs.dt.data, inputs.dt.stride};
  args.b = {inputs.b.data, inputs.b.stride};
  args.c = {inputs.c.data, inputs.c.stride};
  args.state = recurrent_slots(state);
  args.out = {out.data, out.stride};
  const int64_t blocks = scan_blocks(shape.channels, kScanColumns);
  const bool small = shape.state_dim == kSmallStates;
  const int64_t floats = small ? 0 : int64_t{shape.state_dim} * kScanColumns;
  stream.launch(small ? kSelectiveScan16 : kSelectiveScan,
                recurrent_launch(batch, blocks, kScanColumns, floats), args);
}

}  // namespace chimere::kernels::cuda
