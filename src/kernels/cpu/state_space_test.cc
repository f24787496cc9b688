// causal_conv, ssd_scan and selective_scan: the oracle against the formulas in double precision,
// and every instruction set against the oracle, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/batch_test_data.h"
#include "kernels/cpu/ops_test_data.h"

namespace chimere::kernels::test {
namespace {

struct Shapes {
  ConvShape conv;
  SsdShape ssd;
  SelectiveShape selective;
};

Shapes random_shapes(Rng& rng) {
  Shapes s;
  s.ssd.head_dim = 16 * uniform_int(rng, 1, 5);
  s.ssd.n_groups = uniform_int(rng, 1, 3);
  s.ssd.n_heads = s.ssd.n_groups * uniform_int(rng, 1, 3);
  s.ssd.state_dim = uniform_int(rng, 1, 40);
  s.conv = {.channels = 16 * uniform_int(rng, 1, 11),
            .taps = uniform_int(rng, 2, 8),
            .silu = uniform_int(rng, 0, 1) == 0};
  s.selective = {.channels = 16 * uniform_int(rng, 1, 6), .state_dim = uniform_int(rng, 1, 20)};
  return s;
}

/// The state of one op and what its rows keep.
struct State {
  int64_t slot_stride;
  std::vector<float> slots;
  int64_t row_stride;
  std::vector<float> rows;

  State(Rng& rng, int64_t floats, int n_slots, int64_t row_floats, int n_rows)
      : slot_stride(floats + 16),
        slots(normal_floats(rng, n_slots * slot_stride)),
        row_stride(row_floats + 16),
        rows(normal_floats(rng, n_rows * row_stride, 0.5F)) {}
  RecurrentView view() { return {slots.data(), slot_stride, rows.data(), row_stride}; }
};

/// Inputs, outputs and states of the three ops.
struct Layer {
  Shapes shapes;
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
  State conv_state;
  State ssd_state;
  State state;

  Layer(Rng& rng, const Shapes& s, int rows, int slots, int row_blocks)
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
        state(rng, s.selective.state_floats(), slots, s.selective.row_floats(), row_blocks) {}

  static std::vector<float> negative(Rng& rng, int64_t n) {
    std::uniform_real_distribution<float> log_a(-5, 3);
    std::vector<float> v;
    for (int64_t i = 0; i < n; ++i) v.push_back(-std::exp(log_a(rng)));
    return v;
  }

  std::vector<State*> states() { return {&conv_state, &ssd_state, &state}; }
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
  Layer part(int64_t first, int64_t count) const {
    Layer p = *this;
    for (Matrix* m : p.matrices()) {
      m->data.erase(m->data.begin(), m->data.begin() + first * m->stride);
      m->rows = count;
    }
    return p;
  }
};

void expect_same_rows(const Layer& got, int64_t from, const Layer& want, int64_t to, int64_t count,
                      const std::string& what) {
  for (size_t op = 0; op < 3; ++op) {
    const Matrix& g = *got.results()[op];
    const Matrix& w = *want.results()[op];
    for (int64_t r = 0; r < count; ++r) {
      EXPECT_TRUE(same_bits(g.row(from + r), w.row(to + r), g.cols))
          << what << ", op " << op << ", row " << r;
    }
  }
}

TEST(StateSpace, EveryInstructionSetGivesTheOraclesBits) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 12; ++round) {
    const Scenario scenario(rng, 20, 0, 11);
    const Batch batch(scenario.sequences);
    const Layer start(rng, random_shapes(rng), batch.view().n_rows, scenario.n_slots,
                      scenario.n_row_blocks);
    Layer want = start;
    want.run(*make_ref_ops(), batch.view());
    for (const Matrix* m : want.results()) {
      for (int64_t r = 0; r < m->rows; ++r) {
        for (int64_t i = 0; i < m->cols; ++i) ASSERT_TRUE(std::isfinite(m->row(r)[i]));
      }
    }
    for (const CpuVariant& variant : cpu_variants()) {
      Layer got = start;
      got.run(*variant.ops, batch.view());
      expect_same_rows(got, 0, want, 0, batch.view().n_rows, variant.name);
      for (size_t op = 0; op < 3; ++op) {
        EXPECT_TRUE(same_bits(got.states()[op]->slots, want.states()[op]->slots)) << op;
        EXPECT_TRUE(same_bits(got.states()[op]->rows, want.states()[op]->rows)) << op;
      }
    }
  }
}

// Rows that are kept, and folded by the next step, leave the bits of rows that write the state; the
// next rows, prefill or decode rows, are then the same.
TEST(StateSpace, FoldingHasTheBitsOfComputing) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 8; ++round) {
    const int rows = uniform_int(rng, 1, 12);
    const int kept = uniform_int(rng, 1, rows);
    const int next = uniform_int(rng, 1, 20);
    const bool decode = uniform_int(rng, 0, 1) == 0;
    const RowClass next_class = decode ? RowClass::kDecode : RowClass::kPrefill;
    const bool in_place = uniform_int(rng, 0, 1) == 0;
    const Layer start(rng, random_shapes(rng), rows + next, /*slots=*/3, rows);

    SequenceSpec direct;
    direct.slices = {{RowClass::kDecode, kept}};
    direct.write_slots.assign(static_cast<size_t>(kept), -1);
    direct.write_slots.back() = 0;
    SequenceSpec after;
    after.slices = {{next_class, next}};
    after.write_slots.assign(static_cast<size_t>(next), -1);
    after.write_slots.back() = 0;
    SequenceSpec revocable;
    revocable.slices = {{RowClass::kDecode, rows}};
    revocable.write_slots.assign(static_cast<size_t>(rows), -1);
    for (int r = rows; r-- > 0;) revocable.keep_rows.push_back(r);
    SequenceSpec folding = after;
    folding.fold_from = 0;
    folding.unfolded = {revocable.keep_rows.begin(), revocable.keep_rows.begin() + kept};
    folding.read_slot = in_place ? 0 : 2;
    folding.write_slots.back() = folding.read_slot;

    for (const CpuVariant& variant : cpu_variants()) {
      Layer want = start.part(0, kept);
      want.run(*variant.ops, Batch({direct}).view());
      Layer want_next = start.part(rows, next);
      for (size_t op = 0; op < 3; ++op) *want_next.states()[op] = *want.states()[op];
      want_next.run(*variant.ops, Batch({after}).view());

      Layer got = start.part(0, rows);
      got.run(*variant.ops, Batch({revocable}).view());
      expect_same_rows(got, 0, want, 0, kept, variant.name);
      Layer got_next = start.part(rows, next);
      for (size_t op = 0; op < 3; ++op) {
        EXPECT_TRUE(same_bits(got.states()[op]->slots, got_next.states()[op]->slots)) << op;
        *got_next.states()[op] = *got.states()[op];
      }
      got_next.run(*variant.ops, Batch({folding}).view());
      expect_same_rows(got_next, 0, want_next, 0, next, variant.name);
      for (size_t op = 0; op < 3; ++op) {
        const State& g = *got_next.states()[op];
        EXPECT_TRUE(same_bits(g.slots.data() + folding.read_slot * g.slot_stride,
                              want_next.states()[op]->slots.data(), g.slot_stride - 16))
            << variant.name << ", op " << op << ", kept " << kept << " of " << rows;
      }
    }
  }
}

// A row has the same bits as a decode row of a call of its own.
TEST(StateSpace, ARowDependsOnNeitherItsBatchNorItsClass) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 6; ++round) {
    const Scenario scenario(rng, 20, 0);
    const Batch batch(scenario.sequences);
    const Layer start(rng, random_shapes(rng), batch.view().n_rows, scenario.n_slots + 1, 0);
    for (const CpuVariant& variant : cpu_variants()) {
      Layer together = start;
      together.run(*variant.ops, batch.view());
      int64_t row = 0;
      for (const SequenceSpec& s : scenario.sequences) {
        Layer alone = start;
        int32_t slot = s.read_slot;
        for (const int32_t wanted : s.write_slots) {
          SequenceSpec part = s;
          part.slices = {{RowClass::kDecode, 1}};
          part.read_slot = slot;
          slot = wanted >= 0 ? wanted : scenario.n_slots;
          part.write_slots = {slot};
          Layer step = start.part(row, 1);
          for (size_t op = 0; op < 3; ++op) *step.states()[op] = *alone.states()[op];
          step.run(*variant.ops, Batch({part}).view());
          for (size_t op = 0; op < 3; ++op) *alone.states()[op] = *step.states()[op];
          expect_same_rows(step, 0, together, row, 1, variant.name);
          ++row;
        }
      }
    }
  }
}

double plain_softplus(double x) { return std::log1p(std::exp(x)); }

// The formulas in double precision, one sequence from a state of zeros.
TEST(StateSpace, TheOracleComputesTheFormulas) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 6; ++round) {
    const int rows = uniform_int(rng, 1, 30);
    const Shapes shapes = random_shapes(rng);
    Layer got(rng, shapes, rows, 1, 0);
    for (State* s : got.states()) std::ranges::fill(s->slots, 0.0F);
    const Layer in = got;
    SequenceSpec all;
    all.slices = {{RowClass::kPrefill, rows}};
    all.write_slots.assign(static_cast<size_t>(rows), -1);
    got.run(*make_ref_ops(), Batch({all}).view());

    for (int c = 0; c < shapes.conv.channels; ++c) {
      for (int r = 0; r < rows; ++r) {
        double y = in.has_bias ? in.conv_bias[c] : 0;
        for (int t = 0; t < shapes.conv.taps; ++t) {
          const int at = r - (shapes.conv.taps - 1) + t;
          if (at >= 0) y += double{in.conv_weight[c * shapes.conv.taps + t]} * in.conv_x.row(at)[c];
        }
        if (shapes.conv.silu) y /= 1 + std::exp(-y);
        ASSERT_NEAR(got.conv_x.row(r)[c], y, 1e-5);
      }
    }
    const SsdShape& ssd = shapes.ssd;
    for (int h = 0; h < ssd.n_heads; ++h) {
      const int group = h / (ssd.n_heads / ssd.n_groups);
      for (int p = 0; p < ssd.head_dim; ++p) {
        std::vector<double> s(static_cast<size_t>(ssd.state_dim));
        for (int r = 0; r < rows; ++r) {
          const float* const row = in.xbc.row(r);
          const float* const b = row + ssd.inner() + group * ssd.state_dim;
          const float* const c = b + ssd.n_groups * ssd.state_dim;
          const double x = row[h * ssd.head_dim + p];
          const double dt = plain_softplus(double{in.ssd_dt.row(r)[h]} + in.ssd_bias[h]);
          double y = in.ssd_d[h] * x;
          for (int n = 0; n < ssd.state_dim; ++n) {
            s[n] = s[n] * std::exp(dt * in.ssd_a[h]) + dt * x * b[n];
            y += s[n] * c[n];
          }
          ASSERT_NEAR(got.ssd_out.row(r)[h * ssd.head_dim + p], y, 1e-3);
        }
      }
    }
    const SelectiveShape& sel = shapes.selective;
    for (int ch = 0; ch < sel.channels; ++ch) {
      std::vector<double> s(static_cast<size_t>(sel.state_dim));
      for (int r = 0; r < rows; ++r) {
        const double x = in.x.row(r)[ch];
        const double dt = plain_softplus(double{in.dt.row(r)[ch]} + in.dt_bias[ch]);
        double y = in.d[ch] * x;
        for (int n = 0; n < sel.state_dim; ++n) {
          const double a = in.a[(ch / 16 * sel.state_dim + n) * 16 + ch % 16];
          s[n] = s[n] * std::exp(dt * a) + dt * x * in.b.row(r)[n];
          y += s[n] * in.c.row(r)[n];
        }
        ASSERT_NEAR(got.out.row(r)[ch], y, 1e-3);
      }
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::test
