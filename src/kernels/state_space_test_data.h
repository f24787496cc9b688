// Random layers of convolutions over time and state-space recurrences, for tests.
#ifndef CHIMERE_KERNELS_STATE_SPACE_TEST_DATA_H_
#define CHIMERE_KERNELS_STATE_SPACE_TEST_DATA_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/api.h"
#include "kernels/batch_test_data.h"

namespace chimere::kernels::test {

struct StateSpaceShapes {
  ConvShape conv;
  SsdShape ssd;
  SelectiveShape selective;
};

inline StateSpaceShapes random_state_space(Rng& rng) {
  StateSpaceShapes s;
  s.ssd.head_dim = 16 * uniform_int(rng, 1, 5);
  s.ssd.n_groups = uniform_int(rng, 1, 3);
  s.ssd.n_heads = s.ssd.n_groups * uniform_int(rng, 1, 3);
  s.ssd.state_dim = uniform_int(rng, 1, 40);
  s.conv = {.channels = 16 * uniform_int(rng, 1, 11),
            .taps = uniform_int(rng, 2, 8),
            .silu = uniform_int(rng, 0, 1) == 0};
  s.selective = {.channels = 16 * uniform_int(rng, 1, 6),
                 .state_dim = uniform_int(rng, 0, 1) == 0 ? 16 : uniform_int(rng, 1, 20)};
  return s;
}

/// The state of one op and what its rows keep.
struct RecurrentStates {
  int64_t slot_stride;
  std::vector<float> slots;
  int64_t row_stride;
  std::vector<float> rows;

  RecurrentStates(Rng& rng, int64_t floats, int n_slots, int64_t row_floats, int n_rows)
      : slot_stride(floats + 16),
        slots(normal_floats(rng, n_slots * slot_stride)),
        row_stride(row_floats + 16),
        rows(normal_floats(rng, n_rows * row_stride, 0.5F)) {}
  RecurrentView view() { return {slots.data(), slot_stride, rows.data(), row_stride}; }
};

/// Inputs, outputs and states of the three ops.
struct StateSpaceLayer {
  StateSpaceShapes shapes;
  Matrix conv_x;
  Matrix xbc;
  Matrix ssd_dt;
  Matrix ssd_out;
  Matrix x;
  Matrix dt;
  Matrix b;
  Matrix c;
  Matrix out;
  std::vector<float> conv_weight;
  std::vector<float> conv_bias;
  bool has_bias;
  std::vector<float> ssd_a;
  std::vector<float> ssd_d;
  std::vector<float> ssd_bias;
  std::vector<float> a;
  std::vector<float> d;
  std::vector<float> dt_bias;
  RecurrentStates conv_state;
  RecurrentStates ssd_state;
  RecurrentStates state;

  StateSpaceLayer(Rng& rng, const StateSpaceShapes& s, int rows, int slots, int row_blocks)
      : shapes(s),
        conv_x(rng, rows, s.conv.channels),
        xbc(rng, rows, s.ssd.conv_dim()),
        ssd_dt(rng, rows, s.ssd.n_heads, 2),
        ssd_out(rows, s.ssd.inner(), NAN),
        x(rng, rows, s.selective.channels),
        dt(rng, rows, s.selective.channels, 2),
        b(rng, rows, s.selective.state_dim),
        c(rng, rows, s.selective.state_dim),
        out(rows, s.selective.channels, NAN),
        conv_weight(normal_floats(rng, int64_t{s.conv.channels} * s.conv.taps)),
        conv_bias(normal_floats(rng, s.conv.channels)),
        has_bias(uniform_int(rng, 0, 2) > 0),
        ssd_a(negative(rng, s.ssd.n_heads)),
        ssd_d(normal_floats(rng, s.ssd.n_heads)),
        ssd_bias(normal_floats(rng, s.ssd.n_heads)),
        a(negative(rng, s.selective.state_floats())),
        d(normal_floats(rng, s.selective.channels)),
        dt_bias(normal_floats(rng, s.selective.channels)),
        conv_state(rng, s.conv.state_floats(), slots, s.conv.row_floats(), row_blocks),
        ssd_state(rng, s.ssd.state_floats(), slots, s.ssd.row_floats(), row_blocks),
        state(rng, s.selective.state_floats(), slots, s.selective.row_floats(), row_blocks) {
    // The first floats a row of selective_scan keeps are its time steps: negative ones would let
    // the state grow by up to e^(e^3) a row.
    for (int64_t r = 0; r < row_blocks; ++r) {
      float* const steps = state.rows.data() + r * state.row_stride;
      for (int i = 0; i < s.selective.channels; ++i) steps[i] = std::fabs(steps[i]);
    }
  }

  static std::vector<float> negative(Rng& rng, int64_t n) {
    std::uniform_real_distribution<float> log_a(-5, 3);
    std::vector<float> v;
    for (int64_t i = 0; i < n; ++i) v.push_back(-std::exp(log_a(rng)));
    return v;
  }

  std::vector<RecurrentStates*> states() { return {&conv_state, &ssd_state, &state}; }
  std::vector<Matrix*> matrices() {
    return {&conv_x, &xbc, &ssd_dt, &ssd_out, &x, &dt, &b, &c, &out};
  }
  std::vector<const Matrix*> results() const { return {&conv_x, &ssd_out, &out}; }

  void run(Ops& ops, const BatchView& batch) {
    ops.causal_conv(batch, shapes.conv, conv_weight.data(), has_bias ? conv_bias.data() : nullptr,
                    conv_state.view(), conv_x.view());
    ops.ssd_scan(batch, shapes.ssd, {ssd_a.data(), ssd_d.data(), ssd_bias.data()}, xbc.view(),
                 ssd_dt.view(), ssd_state.view(), ssd_out.view());
    ops.selective_scan(batch, shapes.selective, {a.data(), d.data(), dt_bias.data()},
                       {x.view(), dt.view(), b.view(), c.view()}, state.view(), out.view());
  }

  /// The same weights and states with rows [first, first + count) alone.
  StateSpaceLayer part(int64_t first, int64_t count) const {
    StateSpaceLayer p = *this;
    for (Matrix* m : p.matrices()) {
      m->data.erase(m->data.begin(), m->data.begin() + first * m->stride);
      m->rows = count;
    }
    return p;
  }
};

}  // namespace chimere::kernels::test

#endif  // CHIMERE_KERNELS_STATE_SPACE_TEST_DATA_H_
