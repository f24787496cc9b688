#include "kernels/cuda/state_space.h"

#include <algorithm>

#include "kernels/cuda/state_space_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kCausalConv = {"state_space", "causal_conv"};
constexpr Kernel kSsdScan = {"state_space", "ssd_scan"};
constexpr Kernel kSelectiveScan = {"state_space", "selective_scan"};

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

int64_t blocks_of_channels(int64_t channels, int64_t block) {
  return (channels + block - 1) / block;
}

}  // namespace

void causal_conv(Stream& stream, const DeviceBatch& batch, const ConvShape& shape,
                 const float* weight, const float* bias, RecurrentView state, MatrixView x) {
  CausalConvArgs args = {};
  args.batch = recurrent_batch(batch);
  args.channels = shape.channels;
  args.taps = shape.taps;
  args.silu = shape.silu ? 1 : 0;
  args.weight = weight;
  args.bias = bias;
  args.state = recurrent_slots(state);
  args.x = {x.data, x.stride};
  const int64_t blocks = blocks_of_channels(shape.channels, kConvThreads);
  stream.launch(kCausalConv, recurrent_launch(batch, blocks, kConvThreads, 0), args);
}

void ssd_scan(Stream& stream, const DeviceBatch& batch, const SsdShape& shape,
              const SsdWeights& weights, ConstMatrixView xbc, ConstMatrixView dt,
              RecurrentView state, MatrixView out) {
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
  const int64_t floats = int64_t{shape.state_dim} * args.columns;
  stream.launch(kSsdScan, recurrent_launch(batch, blocks, kScanColumns, floats), args);
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
  const int64_t blocks = blocks_of_channels(shape.channels, kScanColumns);
  const int64_t floats = int64_t{shape.state_dim} * kScanColumns;
  stream.launch(kSelectiveScan, recurrent_launch(batch, blocks, kScanColumns, floats), args);
}

}  // namespace chimere::kernels::cuda
