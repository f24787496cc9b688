#include "kernels/cpu/convolution.h"

#include <algorithm>

#include "kernels/cpu/for_units.h"

namespace chimere::kernels::cpu {
namespace {

struct RowRange {
  int64_t begin;
  int64_t count;
};

RowRange rows_of_sequence(const BatchView& batch, int64_t sequence) {
  const int32_t first = batch.sequence_slices[sequence];
  const int32_t last = batch.sequence_slices[sequence + 1];
  if (first == last) return {0, 0};
  const Slice& end = batch.slices[last - 1];
  const int64_t begin = batch.slices[first].row_begin;
  return {begin, end.row_begin + end.row_count - begin};
}

}  // namespace

void convolve(ThreadPool& pool, const VectorKernels& kernels, const BatchView& batch,
              const Convolution& c, RecurrentView state, MatrixView x) {
  const int64_t channels = c.shape.channels;
  const int64_t units = (channels + c.unit - 1) / c.unit;
  const int64_t ns = (batch.n_rows + 2 * batch.n_sequences) * channels;
  for_units(pool, batch.n_sequences * units, ns, [&](int64_t i, int /*worker*/) {
    const int64_t sequence = i / units;
    const int64_t unit = i % units;
    const int64_t channel = unit * c.unit;
    const auto width = static_cast<int>(std::min<int64_t>(c.unit, channels - channel));
    const RowRange rows = rows_of_sequence(batch, sequence);
    if (rows.count == 0) return;
    float* const slots = state.base + channel;
    float* const before = slots + batch.read_slot[sequence] * state.slot_stride;
    float* const row_blocks = state.rows == nullptr ? nullptr : state.rows + channel;
    if (const auto unfolded = batch.unfolded(sequence); !unfolded.empty()) {
      ConvFold f;
      f.past = c.shape.taps - 1;
      f.channels = width;
      f.before = slots + batch.fold_from[sequence] * state.slot_stride;
      f.after = before;
      f.tap_stride = channels;
      f.rows = row_blocks;
      f.row_stride = state.row_stride;
      f.row_blocks = unfolded.data();
      f.n_rows = static_cast<int64_t>(unfolded.size());
      kernels.fold_conv(f);
    }
    ConvUnit u;
    u.weight = c.weight + channel * c.shape.taps;
    u.bias = c.bias == nullptr ? nullptr : c.bias + channel;
    u.taps = c.shape.taps;
    u.channels = width;
    u.silu = c.shape.silu;
    u.normalise = unit < c.n_normalised;
    u.eps = c.eps;
    u.x = x.row(rows.begin) + channel;
    u.x_stride = x.stride;
    u.n_rows = rows.count;
    u.slots = slots;
    u.slot_stride = state.slot_stride;
    u.before = before;
    u.tap_stride = channels;
    u.write_slot = batch.write_slot.data() + rows.begin;
    if (!batch.keep_row.empty()) u.keep_row = batch.keep_row.data() + rows.begin;
    u.rows = row_blocks;
    u.row_stride = state.row_stride;
    kernels.conv(u);
  });
}

}  // namespace chimere::kernels::cpu
