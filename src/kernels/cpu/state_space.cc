#include "kernels/cpu/state_space.h"

#include <algorithm>

#include "kernels/cpu/for_units.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu {
namespace {

/// Passes the part of a state at `offset` from row to row of a sequence: `fold(row block, before,
/// after)` for each unfolded row, `step(row, before, after)` for each of its rows. The state goes
/// from slot to slot, or through `scratch` where it is not to be written.
template <class Fold, class Step>
void pass_state(const BatchView& batch, int64_t sequence, const RecurrentView& state,
                int64_t offset, float* scratch, const Fold& fold, const Step& step) {
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
    for (int32_t r = slice.row_begin; r < slice.row_begin + slice.row_count; ++r) {
      const int32_t slot = batch.write_slot[r];
      float* const after = slot < 0 ? scratch : state.slot(slot) + offset;
      step(r, before, after);
      before = after;
    }
  }
}

}  // namespace

void StateSpace::ssd_scan(const BatchView& batch, const SsdShape& shape, const SsdWeights& weights,
                          ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state,
                          MatrixView out) {
  const int dim = shape.head_dim;
  const int64_t heads = shape.n_heads;
  const int64_t head_floats = static_cast<int64_t>(dim) * shape.state_dim;
  const int64_t ns = batch.n_rows * heads * head_floats / 8;
  for_units(pool_, batch.n_sequences * heads, ns, [&](int64_t i, int worker) {
    const int64_t sequence = i / heads;
    const int64_t head = i % heads;
    const int64_t in_head = head * dim;
    const int64_t group = head / shape.heads_of_group();
    const int64_t in_group = shape.inner() + group * shape.state_dim;
    const int64_t in_decays = int64_t{shape.inner()} + shape.bc_dim() + head;
    float* const scratch = scratch_.get(worker, head_floats + dim);
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
    pass_state(batch, sequence, state, head * head_floats, scratch, fold, step);
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
    const auto step = [&](int32_t r, const float* before, float* after) {
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
    pass_state(batch, sequence, state, unit * unit_floats, scratch, fold, step);
  });
}

}  // namespace chimere::kernels::cpu
