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
#include "kernels/state_space_test_data.h"

namespace chimere::kernels::test {
namespace {

using Layer = StateSpaceLayer;
using Shapes = StateSpaceShapes;
using State = RecurrentStates;

void expect_same_rows(const Layer& got, int64_t from, const Layer& want, int64_t to, int64_t count,
                      const std::string& what, bool with_ssd = true) {
  for (size_t op = 0; op < 3; ++op) {
    if (op == 1 && !with_ssd) continue;
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
    const Scenario scenario(rng, round % 2 == 0 ? 20 : kMaxChunkRows, 0, 11);
    const Batch batch(scenario.sequences);
    const Layer start(rng, random_state_space(rng), batch.view().n_rows, scenario.n_slots,
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
    const Layer start(rng, random_state_space(rng), rows + next, /*slots=*/3, rows);

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

// A chunk, or a decode row, has the bits of a call of its own. The rows of convolutions and of
// selective scans have the bits of decode rows.
TEST(StateSpace, ARowDependsOnNoOtherRowOfItsBatch) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 6; ++round) {
    const Scenario scenario(rng, 20, 0);
    const Batch batch(scenario.sequences);
    const Layer start(rng, random_state_space(rng), batch.view().n_rows, scenario.n_slots + 1, 0);
    for (const CpuVariant& variant : cpu_variants()) {
      Layer together = start;
      together.run(*variant.ops, batch.view());
      int64_t begin = 0;
      for (const SequenceSpec& s : scenario.sequences) {
        for (const bool as_decode : {false, true}) {
          Layer alone = start;
          int32_t slot = s.read_slot;
          int64_t row = begin;
          for (const auto& [row_class, rows] : s.slices) {
            const bool whole = row_class == RowClass::kPrefill && !as_decode;
            const int count = whole ? rows : 1;
            for (int done = 0; done < rows; done += count, row += count) {
              const int32_t wanted = s.write_slots[static_cast<size_t>(row - begin + count - 1)];
              SequenceSpec part = s;
              part.slices = {{whole ? RowClass::kPrefill : RowClass::kDecode, count}};
              part.read_slot = slot;
              slot = wanted >= 0 ? wanted : scenario.n_slots;
              part.write_slots.assign(static_cast<size_t>(count), -1);
              part.write_slots.back() = slot;
              Layer step = start.part(row, count);
              for (size_t op = 0; op < 3; ++op) *step.states()[op] = *alone.states()[op];
              step.run(*variant.ops, Batch({part}).view());
              for (size_t op = 0; op < 3; ++op) *alone.states()[op] = *step.states()[op];
              expect_same_rows(step, 0, together, row, count, variant.name, !as_decode);
            }
          }
        }
        begin += s.rows();
      }
    }
  }
}

double plain_softplus(double x) { return std::log1p(std::exp(x)); }

// The formulas in double precision, one sequence from a state of zeros.
TEST(StateSpace, TheOracleComputesTheFormulas) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 6; ++round) {
    const int chunk = uniform_int(rng, 1, kMaxChunkRows);
    const int decode = uniform_int(rng, 1, 4);
    const int second = uniform_int(rng, 1, 20);
    const int rows = chunk + decode + second;
    const Shapes shapes = random_state_space(rng);
    Layer got(rng, shapes, rows, 1, 0);
    for (State* s : got.states()) std::ranges::fill(s->slots, 0.0F);
    const Layer in = got;
    SequenceSpec all;
    all.slices = {
        {RowClass::kPrefill, chunk}, {RowClass::kDecode, decode}, {RowClass::kPrefill, second}};
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
