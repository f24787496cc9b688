#include "kernels/cpu/state_space.h"

#include <algorithm>

#include "kernels/cpu/for_units.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu {
namespace {

/// Passes the part of a state at `offset` from row to row of a sequence: `fold(row block, before,
/// after)` for each unfolded row, `run(slice, first row, rows, before, after)` for each of its
/// decode rows, and for its chunks: whole, or row by row. The state goes from slot to slot, or
/// through `scratch` where it is not to be written.
template <bool kWholeChunks, class Fold, class Run>
void pass_state(const BatchView& batch, int64_t sequence, const RecurrentView& state,
                int64_t offset, float* scratch, const Fold& fold, const Run& run) {
  float* const read = state.slot(batch.read_slot[sequence]) + offset;
  if (const auto unfolded = batch.unfolded(sequence); !unfolded.empty()) {
    const float* before = state.slot(batch.fold_from[sequence]) + offset;
    for (const int32_t row : unfolded) {
      fold(row, before, read);
      before = read;
    }
  }
  const float* before = read;
  const int32_t last = batch.sequence_slices[sequence + 1];
  for (int32_t i = batch.sequence_slices[sequence]; i < last; ++i) {
    const Slice& slice = batch.slices[i];
    const bool whole = kWholeChunks && slice.row_class == RowClass::kPrefill;
    const int32_t count = whole ? slice.row_count : 1;
    for (int32_t r = slice.row_begin; r < slice.row_begin + slice.row_count; r += count) {
      const int32_t slot = batch.write_slot[r + count - 1];
      float* const after = slot < 0 ? scratch : state.slot(slot) + offset;
      run(i, r, count, before, after);
      before = after;
    }
  }
}

}  // namespace

void StateSpace::multiply_groups(const BatchView& batch, const SsdShape& shape,
                                 ConstMatrixView xbc) {
  chunk_of_slice_.clear();
  int32_t chunks = 0;
  for (const Slice& slice : batch.slices) {
    chunk_of_slice_.push_back(chunks);
    chunks += slice.row_class == RowClass::kPrefill ? 1 : 0;
  }
  if (chunks == 0) return;
  const int64_t groups = shape.n_groups;
  const int64_t floats = ssd_products_floats(shape.state_dim);
  float* const products = products_.at_least(chunks * groups * floats);
  const auto slices = static_cast<int64_t>(batch.slices.size());
  for_units(pool_, slices * groups, chunks * groups * floats, [&](int64_t i, int) {
    const Slice& slice = batch.slices[i / groups];
    if (slice.row_class != RowClass::kPrefill) return;
    const int64_t group = i % groups;
    SsdProducts p;
    p.state_dim = shape.state_dim;
    p.n_rows = slice.row_count;
    p.b = xbc.row(slice.row_begin) + shape.inner() + group * shape.state_dim;
    p.c = p.b + shape.bc_dim();
    p.stride = xbc.stride;
    p.bt = products + (chunk_of_slice_[i / groups] * groups + group) * floats;
    p.cb = p.bt + 64 * int64_t{shape.state_dim};
    kernels_.ssd_products(p);
  });
}

void StateSpace::ssd_scan(const BatchView& batch, const SsdShape& shape, const SsdWeights& weights,
                          ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state,
                          MatrixView out) {
  const int dim = shape.head_dim;
  const int64_t heads = shape.n_heads;
  const int64_t head_floats = static_cast<int64_t>(dim) * shape.state_dim;
  const int64_t ns = batch.n_rows * heads * head_floats / 8;
  multiply_groups(batch, shape, xbc);
  const float* const products = products_.at_least(0);
  for_units(pool_, batch.n_sequences * heads, ns, [&](int64_t i, int worker) {
    const int64_t sequence = i / heads;
    const int64_t head = i % heads;
    const int64_t in_head = head * dim;
    const int64_t group = head / shape.heads_of_group();
    const int64_t in_group = shape.inner() + group * shape.state_dim;
    const int64_t in_decays = int64_t{shape.inner()} + shape.bc_dim() + head;
    float* const scratch = scratch_.get(worker, head_floats + dim + ssd_chunk_floats(dim));
    const auto chunk = [&](int32_t slice, int32_t r, int32_t count, const float* before,
                           float* after) {
      SsdChunk s;
      s.head_dim = dim;
      s.state_dim = shape.state_dim;
      s.n_rows = count;
      s.bt = products + (chunk_of_slice_[slice] * int64_t{shape.n_groups} + group) *
                            ssd_products_floats(shape.state_dim);
      s.cb = s.bt + 64 * int64_t{shape.state_dim};
      s.x = xbc.row(r) + in_head;
      s.c = xbc.row(r) + in_group + shape.bc_dim();
      s.stride = xbc.stride;
      s.dt = dt.row(r) + head;
      s.dt_stride = dt.stride;
      s.dt_bias = weights.dt_bias[head];
      s.a = weights.a[head];
      s.d = weights.d[head];
      s.before = before;
      s.after = after;
      s.out = out.row(r) + in_head;
      s.out_stride = out.stride;
      s.scratch = scratch + head_floats + dim;
      kernels_.ssd_chunk(s);
    };
    SsdStep s;
    s.head_dim = dim;
    s.state_dim = shape.state_dim;
    s.d = weights.d[head];
    const auto fold = [&](int32_t row, const float* before, float* after) {
      const float* const kept = state.row(row);
      s.before = before;
      s.after = after;
      s.u = kept + in_head;
      s.b = kept + in_group;
      s.g = kept[in_decays];
      kernels_.ssd_fold(s);
    };
    const auto step = [&](int32_t r, const float* before, float* after) {
      const float delta = softplus(dt.row(r)[head] + weights.dt_bias[head]);
      s.before = before;
      s.after = after;
      s.x = xbc.row(r) + in_head;
      s.b = xbc.row(r) + in_group;
      s.c = s.b + shape.bc_dim();
      s.g = exp_f32(delta * weights.a[head]);
      s.out = out.row(r) + in_head;
      float* u = scratch + head_floats;
      if (const int32_t keep = batch.keep(r); keep >= 0) {
        float* const kept = state.row(keep);
        u = kept + in_head;
        if (head % shape.heads_of_group() == 0) {
          std::copy_n(s.b, shape.state_dim, kept + in_group);
        }
        kept[in_decays] = s.g;
      }
      for (int p = 0; p < dim; ++p) u[p] = delta * s.x[p];
      s.u = u;
      kernels_.ssd_step(s);
    };
    const auto run = [&](int32_t slice, int32_t r, int32_t count, const float* before,
                         float* after) {
      if (batch.slices[slice].row_class == RowClass::kPrefill) {
        chunk(slice, r, count, before, after);
      } else {
        step(r, before, after);
      }
    };
    pass_state<true>(batch, sequence, state, head * head_floats, scratch, fold, run);
  });
}

void StateSpace::selective_scan(const BatchView& batch, const SelectiveShape& shape,
                                const SelectiveWeights& weights, const SelectiveInputs& in,
                                RecurrentView state, MatrixView out) {
  const int64_t units = shape.channels / kChannelUnit;
  const int64_t unit_floats = int64_t{shape.state_dim} * kChannelUnit;
  const int64_t ns = batch.n_rows * units * unit_floats / 4;
  for_units(pool_, batch.n_sequences * units, ns, [&](int64_t i, int worker) {
    const int64_t sequence = i / units;
    const int64_t unit = i % units;
    const int64_t channel = unit * kChannelUnit;
    float* const scratch = scratch_.get(worker, unit_floats);
    SelectiveStep s;
    s.state_dim = shape.state_dim;
    s.a = weights.a + unit * unit_floats;
    s.d = weights.d + channel;
    s.dt_bias = weights.dt_bias + channel;
    const auto fold = [&](int32_t row, const float* before, float* after) {
      const float* const kept = state.row(row);
      s.before = before;
      s.after = after;
      s.dt = kept + channel;
      s.x = kept + shape.channels + channel;
      s.b = kept + 2 * int64_t{shape.channels};
      kernels_.selective_fold(s);
    };
    const auto step = [&](int32_t /*slice*/, int32_t r, int32_t /*count*/, const float* before,
                          float* after) {
      s.before = before;
      s.after = after;
      s.dt = in.dt.row(r) + channel;
      s.x = in.x.row(r) + channel;
      s.b = in.b.row(r);
      s.c = in.c.row(r);
      s.out = out.row(r) + channel;
      s.kept_dt = s.kept_u = nullptr;
      if (const int32_t keep = batch.keep(r); keep >= 0) {
        float* const kept = state.row(keep);
        s.kept_dt = kept + channel;
        s.kept_u = kept + shape.channels + channel;
        if (unit == 0) std::copy_n(s.b, shape.state_dim, kept + 2 * int64_t{shape.channels});
      }
      kernels_.selective_step(s);
    };
    pass_state<false>(batch, sequence, state, unit * unit_floats, scratch, fold, step);
  });
}

}  // namespace chimere::kernels::cpu
