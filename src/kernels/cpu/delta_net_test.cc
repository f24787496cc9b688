// gdn_conv and gdn_scan on every instruction set against the oracle, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <memory>

#include "base/fresh_seed.h"
#include "kernels/batch_test_data.h"
#include "kernels/cpu/ops_test_data.h"

namespace chimere::kernels::test {
namespace {

GdnShape random_shape(Rng& rng) {
  constexpr int kDims[] = {16, 32, 48, 64, 128, 256};
  GdnShape s;
  s.head_dim = kDims[uniform_int(rng, 0, 5)];
  s.n_k_heads = s.head_dim > 64 ? uniform_int(rng, 1, 2) : uniform_int(rng, 1, 5);
  s.n_v_heads = s.n_k_heads * uniform_int(rng, 1, s.head_dim > 64 ? 2 : 4);
  s.conv_kernel = uniform_int(rng, 0, 2) == 0 ? uniform_int(rng, 2, 8) : 4;
  s.tiled_heads = uniform_int(rng, 0, 1) == 0;
  return s;
}

/// Inputs, outputs and states of both ops.
struct Layer {
  GdnShape shape;
  Matrix qkv;
  Matrix alpha;
  Matrix beta;
  Matrix out;
  std::vector<float> conv_weight;
  std::vector<float> a;
  std::vector<float> dt_bias;
  int64_t slot_stride;
  std::vector<float> conv_state;
  std::vector<float> scan_state;
  int64_t row_stride;
  std::vector<float> conv_rows;
  std::vector<float> scan_rows;

  Layer(Rng& rng, const GdnShape& s, int rows, int slots, int row_blocks)
      : shape(s),
        qkv(rng, rows, s.conv_dim()),
        alpha(rng, rows, s.n_v_heads, 2),
        beta(rng, rows, s.n_v_heads, 2),
        out(rows, s.value_dim(), NAN),
        conv_weight(normal_floats(rng, static_cast<int64_t>(s.conv_dim()) * s.conv_kernel)),
        dt_bias(normal_floats(rng, s.n_v_heads)),
        slot_stride(std::max(s.conv_state_floats(), s.scan_state_floats()) + 16),
        conv_state(normal_floats(rng, slots * slot_stride)),
        scan_state(normal_floats(rng, slots * slot_stride)),
        row_stride(std::max(s.conv_row_floats(), s.scan_row_floats()) + 16),
        conv_rows(normal_floats(rng, row_blocks * row_stride, 0.5F)),
        scan_rows(normal_floats(rng, row_blocks * row_stride, 0.5F)) {
    std::uniform_real_distribution<float> log_a(-5, 3);
    for (int h = 0; h < s.n_v_heads; ++h) a.push_back(-std::exp(log_a(rng)));
  }

  void run(Ops& ops, const BatchView& batch) {
    ops.gdn_conv(batch, shape, conv_weight.data(), 1e-6F,
                 {conv_state.data(), slot_stride, conv_rows.data(), row_stride}, qkv.view());
    ops.gdn_scan(batch, shape, qkv.view(), alpha.view(), beta.view(), a.data(), dt_bias.data(),
                 {scan_state.data(), slot_stride, scan_rows.data(), row_stride}, out.view());
  }
};

TEST(DeltaNet, EveryInstructionSetGivesTheOraclesBits) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 12; ++round) {
    const Scenario scenario(rng, kMaxChunkRows, 0, 11);
    const Batch batch(scenario.sequences);
    const Layer start(rng, random_shape(rng), batch.view().n_rows, scenario.n_slots,
                      scenario.n_row_blocks);
    Layer want = start;
    want.run(*make_ref_ops(), batch.view());
    for (const float x : want.out.data) EXPECT_FALSE(std::isinf(x));
    for (const CpuVariant& variant : cpu_variants()) {
      Layer got = start;
      got.run(*variant.ops, batch.view());
      EXPECT_TRUE(same_bits(got.qkv.data, want.qkv.data)) << variant.name;
      for (int64_t r = 0; r < got.out.rows; ++r) {
        EXPECT_TRUE(same_bits(got.out.row(r), want.out.row(r), got.out.cols))
            << variant.name << " row " << r << " head_dim " << start.shape.head_dim;
      }
      EXPECT_TRUE(same_bits(got.conv_state, want.conv_state)) << variant.name;
      EXPECT_TRUE(same_bits(got.scan_state, want.scan_state)) << variant.name;
      EXPECT_TRUE(same_bits(got.conv_rows, want.conv_rows)) << variant.name;
      EXPECT_TRUE(same_bits(got.scan_rows, want.scan_rows)) << variant.name;
    }
  }
}

// Rows that are kept, and folded by the next step, leave the bits of rows that write the state;
// the next rows, a chunk or decode rows, are then the same.
TEST(DeltaNet, FoldingHasTheBitsOfComputing) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 8; ++round) {
    const int rows = uniform_int(rng, 1, 12);
    const int kept = uniform_int(rng, 1, rows);
    const int next = uniform_int(rng, 1, 20);
    const RowClass next_class =
        uniform_int(rng, 0, 1) == 0 ? RowClass::kDecode : RowClass::kPrefill;
    const bool in_place = uniform_int(rng, 0, 1) == 0;
    const GdnShape shape = random_shape(rng);
    const Layer start(rng, shape, rows + next, /*slots=*/3, rows);

    // Slot 0 advances by the kept rows; then come the next rows.
    const auto layer_from = [&](const Layer& from, int first, int count) {
      Layer part = from;
      for (Matrix* m : {&part.qkv, &part.alpha, &part.beta, &part.out}) {
        m->data.erase(m->data.begin(), m->data.begin() + first * m->stride);
        m->rows = count;
      }
      return part;
    };
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
      Layer want = layer_from(start, 0, kept);
      want.run(*variant.ops, Batch({direct}).view());
      Layer want_next = layer_from(start, rows, next);
      want_next.conv_state = want.conv_state;
      want_next.scan_state = want.scan_state;
      want_next.run(*variant.ops, Batch({after}).view());

      Layer got = layer_from(start, 0, rows);
      got.run(*variant.ops, Batch({revocable}).view());
      EXPECT_TRUE(same_bits(got.scan_state, start.scan_state)) << variant.name;
      EXPECT_TRUE(same_bits(got.conv_state, start.conv_state)) << variant.name;
      EXPECT_TRUE(same_bits(got.out.data.data(), want.out.data.data(), kept * got.out.stride - 3));
      Layer got_next = layer_from(start, rows, next);
      got_next.conv_rows = got.conv_rows;
      got_next.scan_rows = got.scan_rows;
      got_next.run(*variant.ops, Batch({folding}).view());
      const auto same_slot = [&](const std::vector<float>& a, const std::vector<float>& b,
                                 int64_t floats) {
        return same_bits(a.data() + folding.read_slot * start.slot_stride, b.data(), floats);
      };
      EXPECT_TRUE(same_slot(got_next.conv_state, want_next.conv_state, shape.conv_state_floats()))
          << variant.name << " kept " << kept << " of " << rows;
      EXPECT_TRUE(same_slot(got_next.scan_state, want_next.scan_state, shape.scan_state_floats()))
          << variant.name << " kept " << kept << " of " << rows;
      for (int r = 0; r < next; ++r) {
        EXPECT_TRUE(same_bits(got_next.out.row(r), want_next.out.row(r), got_next.out.cols));
      }
    }
  }
}

// Each sequence alone, and decode rows in one call each, give the same bits as the whole batch.
TEST(DeltaNet, ARowDoesNotDependOnItsBatch) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 6; ++round) {
    const Scenario scenario(rng, 20, 0);
    const Batch batch(scenario.sequences);
    const Layer start(rng, random_shape(rng), batch.view().n_rows, scenario.n_slots + 1, 0);
    for (const CpuVariant& variant : cpu_variants()) {
      Layer together = start;
      together.run(*variant.ops, batch.view());
      int64_t row = 0;
      for (const SequenceSpec& s : scenario.sequences) {
        Layer alone = start;
        int32_t slot = s.read_slot;
        size_t write = 0;
        for (const auto& [row_class, count] : s.slices) {
          for (int done = 0; done < count;) {
            const int rows = row_class == RowClass::kDecode ? 1 : count;
            done += rows;
            write += rows;
            SequenceSpec part = s;
            part.slices = {{row_class, rows}};
            part.read_slot = slot;
            part.write_slots.assign(rows, -1);
            const int32_t wanted = s.write_slots[write - 1];
            slot = wanted >= 0 ? wanted : scenario.n_slots;
            part.write_slots.back() = slot;
            Layer step = alone;
            for (Matrix* m : {&step.qkv, &step.alpha, &step.beta, &step.out}) {
              m->data.erase(m->data.begin(), m->data.begin() + row * m->stride);
              m->rows = rows;
            }
            step.run(*variant.ops, Batch({part}).view());
            alone.conv_state = step.conv_state;
            alone.scan_state = step.scan_state;
            for (int r = 0; r < rows; ++r, ++row) {
              EXPECT_TRUE(same_bits(step.out.row(r), together.out.row(row), step.out.cols))
                  << variant.name << " row " << row;
            }
          }
        }
        for (const int32_t w : s.write_slots) {
          if (w < 0) continue;
          EXPECT_TRUE(same_bits(alone.scan_state.data() + w * start.slot_stride,
                                together.scan_state.data() + w * start.slot_stride,
                                start.shape.scan_state_floats()));
          EXPECT_TRUE(same_bits(alone.conv_state.data() + w * start.slot_stride,
                                together.conv_state.data() + w * start.slot_stride,
                                start.shape.conv_state_floats()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::test
