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

  Layer(Rng& rng, const GdnShape& s, int rows, int slots)
      : shape(s),
        qkv(rng, rows, s.conv_dim()),
        alpha(rng, rows, s.n_v_heads, 2),
        beta(rng, rows, s.n_v_heads, 2),
        out(rows, s.value_dim(), NAN),
        conv_weight(normal_floats(rng, static_cast<int64_t>(s.conv_dim()) * s.conv_kernel)),
        dt_bias(normal_floats(rng, s.n_v_heads)),
        slot_stride(std::max(s.conv_state_floats(), s.scan_state_floats()) + 16),
        conv_state(normal_floats(rng, slots * slot_stride)),
        scan_state(normal_floats(rng, slots * slot_stride)) {
    std::uniform_real_distribution<float> log_a(-5, 3);
    for (int h = 0; h < s.n_v_heads; ++h) a.push_back(-std::exp(log_a(rng)));
  }

  void run(Ops& ops, const BatchView& batch) {
    ops.gdn_conv(batch, shape, conv_weight.data(), 1e-6F, {conv_state.data(), slot_stride},
                 qkv.view());
    ops.gdn_scan(batch, shape, qkv.view(), alpha.view(), beta.view(), a.data(), dt_bias.data(),
                 {scan_state.data(), slot_stride}, out.view());
  }
};

TEST(DeltaNet, EveryInstructionSetGivesTheOraclesBits) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 12; ++round) {
    const Scenario scenario(rng, kMaxChunkRows, 0);
    const Batch batch(scenario.sequences);
    const Layer start(rng, random_shape(rng), batch.view().n_rows, scenario.n_slots);
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
    }
  }
}

// Each sequence alone, and decode rows in one call each, give the same bits as the whole batch.
TEST(DeltaNet, ARowDoesNotDependOnItsBatch) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 6; ++round) {
    const Scenario scenario(rng, 20, 0);
    const Batch batch(scenario.sequences);
    const Layer start(rng, random_shape(rng), batch.view().n_rows, scenario.n_slots + 1);
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
