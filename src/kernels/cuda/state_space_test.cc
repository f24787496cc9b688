// Convolutions over time and state-space recurrences against ref, bit for bit, in ragged batches.
// ssd_prefill_test.cc checks the shapes of state-space duality that use tensor cores.
#include "kernels/cuda/state_space.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/cuda/batch_test_data.h"
#include "kernels/state_space_test_data.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Batch;
using kernels::test::Matrix;
using kernels::test::random_state_space;
using kernels::test::RecurrentStates;
using kernels::test::Rng;
using kernels::test::same_bits;
using kernels::test::Scenario;
using kernels::test::SequenceSpec;
using kernels::test::StateSpaceLayer;
using kernels::test::StateSpaceShapes;
using kernels::test::uniform_int;
using test::BatchOnDevice;
using test::DeviceMatrix;
using test::OnDevice;

/// States on a device.
struct DeviceStates {
  OnDevice<float> slots;
  int64_t slot_stride;
  OnDevice<float> rows;
  int64_t row_stride;

  DeviceStates(Device& device, const RecurrentStates& s)
      : slots(device, s.slots),
        slot_stride(s.slot_stride),
        rows(device, s.rows),
        row_stride(s.row_stride) {}
  RecurrentView view() const { return {slots.data(), slot_stride, rows.data(), row_stride}; }
  void expect(const RecurrentStates& want, const std::string& name) const {
    EXPECT_TRUE(same_bits(slots.read(), want.slots)) << name;
    EXPECT_TRUE(same_bits(rows.read(), want.rows)) << name;
  }
};

void expect_matrix(const DeviceMatrix& got, const Matrix& want, const std::string& name) {
  const std::vector<float> data = got.read();
  for (int64_t r = 0; r < want.rows; ++r) {
    EXPECT_TRUE(same_bits(data.data() + r * want.stride, want.row(r), want.cols))
        << name << ", row " << r;
  }
}

std::vector<SequenceSpec> as_decode_rows(const Scenario& scenario) {
  std::vector<SequenceSpec> sequences = scenario.sequences;
  for (SequenceSpec& s : sequences) {
    for (auto& [row_class, rows] : s.slices) row_class = RowClass::kDecode;
  }
  return sequences;
}

void check(Rng& rng, const StateSpaceShapes& shapes, const Scenario& scenario) {
  const Batch batch(scenario.sequences);
  StateSpaceLayer want(rng, shapes, batch.view().n_rows, scenario.n_slots, scenario.n_row_blocks);
  // Device memory of no bytes has no address.
  for (RecurrentStates* s : want.states()) s->rows.push_back(0);
  StateSpaceLayer start = want;
  want.run(*make_ref_ops(), batch.view());
  // With these shapes, GPUs compute the chunks of ssd_scan as decode rows.
  StateSpaceLayer by_row = start;
  by_row.run(*make_ref_ops(), Batch(as_decode_rows(scenario)).view());
  for (const auto& [name, device] : test::devices()) {
    Stream& stream = device->stream();
    const BatchOnDevice on(*device, batch.view(), uniform_int(rng, 0, 2));
    const StateSpaceLayer& l = start;
    const OnDevice<float> weight(*device, l.conv_weight);
    const OnDevice<float> bias(*device, l.conv_bias);
    const DeviceStates conv(*device, l.conv_state);
    const DeviceMatrix conv_x(*device, l.conv_x);
    const OnDevice<uint8_t> scratch(
        *device, std::vector<uint8_t>(
                     static_cast<size_t>(conv_scratch_bytes(shapes.conv, on.view().extent)) + 1));
    causal_conv(stream, on.view(), shapes.conv, weight.data(), l.has_bias ? bias.data() : nullptr,
                conv.view(), conv_x.view(), scratch.data());
    expect_matrix(conv_x, want.conv_x, name + ", convolution");
    conv.expect(want.conv_state, name + ", convolution");

    const OnDevice<float> ssd_a(*device, l.ssd_a);
    const OnDevice<float> ssd_d(*device, l.ssd_d);
    const OnDevice<float> ssd_bias(*device, l.ssd_bias);
    const DeviceStates ssd(*device, l.ssd_state);
    const DeviceMatrix xbc(*device, l.xbc);
    const DeviceMatrix ssd_dt(*device, l.ssd_dt);
    const DeviceMatrix ssd_out(*device, l.ssd_out);
    ASSERT_EQ(ssd_scratch_bytes(shapes.ssd, on.view().extent), 0);
    ssd_scan(stream, on.view(), shapes.ssd, {ssd_a.data(), ssd_d.data(), ssd_bias.data()},
             xbc.view(), ssd_dt.view(), ssd.view(), ssd_out.view(), nullptr);
    expect_matrix(ssd_out, by_row.ssd_out, name + ", state-space duality");
    ssd.expect(by_row.ssd_state, name + ", state-space duality");

    const OnDevice<float> a(*device, l.a);
    const OnDevice<float> d(*device, l.d);
    const OnDevice<float> dt_bias(*device, l.dt_bias);
    const DeviceStates selective(*device, l.state);
    const DeviceMatrix x(*device, l.x);
    const DeviceMatrix dt(*device, l.dt);
    const DeviceMatrix b(*device, l.b);
    const DeviceMatrix c(*device, l.c);
    const DeviceMatrix out(*device, l.out);
    selective_scan(stream, on.view(), shapes.selective, {a.data(), d.data(), dt_bias.data()},
                   {x.view(), dt.view(), b.view(), c.view()}, selective.view(), out.view());
    expect_matrix(out, want.out, name + ", selective scan");
    selective.expect(want.state, name + ", selective scan");
  }
}

TEST(CudaStateSpace, PrefillAndDecodeHaveTheBitsOfRef) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 4; ++round) {
    check(rng, random_state_space(rng), Scenario(rng, 40, 0));
  }
}

TEST(CudaStateSpace, FoldedAndKeptRowsHaveTheBitsOfRef) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 4; ++round) {
    check(rng, random_state_space(rng), Scenario(rng, 20, 0, 9));
  }
}

TEST(CudaStateSpace, TheLargestState) {
  Rng rng(fresh_seed());
  StateSpaceShapes shapes = random_state_space(rng);
  shapes.ssd = {.n_heads = 1, .head_dim = 64, .n_groups = 1, .state_dim = kMaxStateDim};
  shapes.selective = {.channels = 48, .state_dim = kMaxStateDim};
  check(rng, shapes, Scenario(rng, 3, 0));
}

}  // namespace
}  // namespace chimere::kernels::cuda
