#include "kernels/cuda/rows.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/fresh_seed.h"
#include "kernels/cuda/batch_test_data.h"
#include "kernels/cuda/rounded_test_data.h"
#include "kernels/ref/moe.h"
#include "kernels/ref/vector_ops.h"
#include "kernels/routing_test_data.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Matrix;
using test::DeviceMatrix;
using test::OnDevice;

TEST(CudaRows, SelectsRows) {
  kernels::test::Rng rng(fresh_seed());
  const Matrix x(rng, 6, 300);
  const std::vector<int32_t> ids = {5, 0, 0, 3};
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix source(*device, x);
    const DeviceMatrix y(*device, Matrix(4, 300, 0));
    const OnDevice<int32_t> chosen(*device, ids);
    select_rows(device->stream(), source.view(), chosen.data(), y.view());
    const std::vector<float> rows = y.read();
    for (size_t i = 0; i < ids.size(); ++i) {
      const float* row = rows.data() + static_cast<int64_t>(i) * y.view().stride;
      EXPECT_TRUE(kernels::test::same_bits(row, x.row(ids[i]), x.cols)) << name << ", row " << i;
    }
  }
}

TEST(CudaStream, CountsTheKernelsOfGraphsWhenTheseAreLaunched) {
  kernels::test::Rng rng(fresh_seed());
  const Matrix x(rng, 6, 300);
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix source(*device, x);
    const DeviceMatrix y(*device, Matrix(1, 300, 0));
    const OnDevice<int32_t> chosen(*device, std::vector<int32_t>{5});
    Stream& stream = device->stream();
    const StreamCounts before = stream.counts();
    const auto select = [&] { select_rows(stream, source.view(), chosen.data(), y.view()); };
    select();
    stream.begin_capture();
    select();
    select();
    const std::unique_ptr<Graph> graph = stream.end_capture();
    ASSERT_NE(graph, nullptr);
    EXPECT_EQ(stream.counts().launches - before.launches, 1) << "recording launches nothing";
    for (int i = 0; i < 3; ++i) stream.replay(*graph);
    ASSERT_TRUE(stream.synchronize().ok());
    EXPECT_EQ(stream.counts().launches - before.launches, 1) << name;
    EXPECT_EQ(stream.counts().graph_launches - before.graph_launches, 3) << name;
    EXPECT_EQ(stream.counts().graph_kernels - before.graph_kernels, 6) << name;
  }
}

/// Not empty.
std::vector<float> padded_floats(std::vector<float> floats) {
  floats.push_back(0);
  return floats;
}

void expect_same_shift(kernels::test::Rng& rng, const kernels::test::Scenario& scenario, int n) {
  const kernels::test::Batch rows(scenario.sequences);
  const BatchView batch = rows.view();
  const Matrix x(rng, batch.n_rows, n);
  const Matrix state(rng, scenario.n_slots, n);
  const Matrix y(batch.n_rows, n, -1);
  const Matrix kept(rng, scenario.n_row_blocks, n);
  Matrix expected_state = state;
  Matrix expected_kept = kept;
  Matrix expected = y;
  make_ref_ops()->shift_rows(batch, x.view(),
                             {expected_state.data.data(), expected_state.stride,
                              expected_kept.data.data(), expected_kept.stride},
                             expected.view());
  for (const auto& [name, device] : test::devices()) {
    for (const int padding : {0, 3}) {
      const test::BatchOnDevice on_device(*device, batch, padding);
      const DeviceMatrix source(*device, x);
      const DeviceMatrix slots(*device, state);
      const OnDevice<float> row_blocks(*device, padded_floats(kept.data));
      const DeviceMatrix shifted(*device, y);
      shift_rows(device->stream(), on_device.view(), source.view(),
                 {slots.view().data, slots.view().stride, row_blocks.data(), kept.stride},
                 shifted.view());
      EXPECT_TRUE(kernels::test::same_bits(shifted.read(), expected.data)) << name;
      EXPECT_TRUE(kernels::test::same_bits(slots.read(), expected_state.data)) << name;
      EXPECT_TRUE(kernels::test::same_bits(row_blocks.read(), padded_floats(expected_kept.data)))
          << name;
    }
  }
}

TEST(CudaRows, ShiftsRowsOfRandomBatches) {
  const auto seed = fresh_seed();
  SCOPED_TRACE(seed);
  kernels::test::Rng rng(seed);
  for (int i = 0; i < 12; ++i) {
    const kernels::test::Scenario scenario(rng, 9, 3, i % 3 == 0 ? 0 : 7);
    expect_same_shift(rng, scenario, i % 2 == 0 ? 40 : 300);
  }
}

// Drafts read the last row without storing the state.
TEST(CudaRows, ShiftsUnfoldedRowsWithoutASlot) {
  kernels::test::Rng rng(fresh_seed());
  kernels::test::Scenario scenario(rng, 9, 3);
  scenario.n_slots = 2;
  scenario.n_row_blocks = 4;
  scenario.sequences.resize(1);
  kernels::test::SequenceSpec& s = scenario.sequences[0];
  s.slices = {{RowClass::kDecode, 1}};
  s.write_slots = {-1};
  s.read_slot = -1;
  s.unfolded = {3, 1};
  kernels::test::SequenceSpec folded = s;
  folded.unfolded.clear();
  folded.read_slot = 1;
  scenario.sequences.push_back(folded);
  expect_same_shift(rng, scenario, 70);
}

TEST(CudaRows, ShiftsAStateThatIsReadAndWrittenInOneSlot) {
  kernels::test::Rng rng(7);
  kernels::test::Scenario scenario(rng, 9, 3);
  scenario.n_slots = 3;
  kernels::test::SequenceSpec many;  // more rows than a block has threads
  many.read_slot = 1;
  many.slices = {{RowClass::kDecode, 5}, {RowClass::kPrefill, 300}};
  many.write_slots.assign(305, -1);
  many.write_slots[2] = 2;
  many.write_slots.back() = 1;
  kernels::test::SequenceSpec one;
  one.read_slot = 0;
  one.slices = {{RowClass::kDecode, 1}};
  one.write_slots = {0};
  scenario.sequences = {many, one};
  expect_same_shift(rng, scenario, 70);
}

TEST(CudaRows, ActivateHasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  const Matrix h(rng, 3, 700, 4);
  const Matrix up(rng, 3, 700, 4);
  for (const Activation f : {Activation::kSilu, Activation::kGelu, Activation::kReluSquared,
                             Activation::kClampedSwiglu}) {
    for (const bool gated : {true, false}) {
      Matrix expected = h;
      ref::activate(f, expected.view(), gated ? up.view() : ConstMatrixView());
      for (const auto& [name, device] : test::devices()) {
        const DeviceMatrix got(*device, h);
        const DeviceMatrix factors(*device, up);
        activate(device->stream(), f, got.view(),
                 gated ? ConstMatrixView(factors.view()) : ConstMatrixView(), {});
        EXPECT_TRUE(kernels::test::same_bits(got.read(), expected.data)) << name;
      }
    }
  }
}

TEST(CudaRows, ActivateRoundsItsResult) {
  kernels::test::Rng rng(fresh_seed());
  const Matrix h(rng, 11, 288, 4);
  const Matrix up(rng, 11, 288, 4);
  Matrix expected = h;
  ref::activate(Activation::kSilu, expected.view(), up.view());
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix got(*device, h);
    const DeviceMatrix factors(*device, up);
    const test::RoundedMemory rounded(*device, 11, 288);
    activate(device->stream(), Activation::kSilu, got.view(), factors.view(), rounded.rows());
    EXPECT_TRUE(kernels::test::same_bits(got.read(), expected.data)) << name;
    rounded.expect(expected, name);
  }
}

void expect_same_route(const Matrix& logits, int n_used) {
  const auto n = static_cast<size_t>(logits.rows * n_used);
  std::vector<int32_t> ids(n);
  std::vector<float> weights(n);
  ref::route(logits.view(), {}, {n_used, ids.data(), weights.data()});
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix x(*device, logits);
    const OnDevice<int32_t> got_ids(*device, std::vector<int32_t>(n, -1));
    const OnDevice<float> got_weights(*device, std::vector<float>(n));
    route(device->stream(), x.view(), {}, {n_used, got_ids.data(), got_weights.data()});
    EXPECT_EQ(got_ids.read(), ids) << name;
    EXPECT_TRUE(kernels::test::same_bits(got_weights.read(), weights)) << name;
  }
}

TEST(CudaRows, RouteHasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  expect_same_route(Matrix(rng, 9, 256, 3), 8);
  expect_same_route(Matrix(rng, 2, 40, 3), 32);
  expect_same_route(Matrix(rng, 3, 500, 3), 10);
  expect_same_route(Matrix(rng, 3, 5, 3), 2);
  expect_same_route(Matrix(rng, 3, 1024, 3), 9);
}

TEST(CudaRows, RouteByAnyRoutingFunctionHasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  for (int round = 0; round < 60; ++round) {
    const int most = round % 4 == 0 ? 1024 : 256;
    kernels::test::RoutingProblem p(rng, kernels::test::uniform_int(rng, 1, 5), most, 32);
    std::vector<int32_t> ids(p.places());
    std::vector<float> weights(p.places());
    RoutingSpec spec = p.spec;
    spec.bias = p.bias.empty() ? nullptr : p.bias.data();
    ref::route(p.logits.view(), spec, {p.n_used, ids.data(), weights.data()});
    for (const auto& [name, device] : test::devices()) {
      const DeviceMatrix x(*device, p.logits);
      const OnDevice<float> bias(*device, p.bias);
      const OnDevice<int32_t> got_ids(*device, std::vector<int32_t>(p.places(), -1));
      const OnDevice<float> got_weights(*device, std::vector<float>(p.places()));
      spec.bias = p.bias.empty() ? nullptr : bias.data();
      route(device->stream(), x.view(), spec, {p.n_used, got_ids.data(), got_weights.data()});
      EXPECT_EQ(got_ids.read(), ids) << name << ' ' << p;
      EXPECT_TRUE(kernels::test::same_bits(got_weights.read(), weights)) << name << ' ' << p;
    }
  }
}

TEST(CudaRows, ScaleHasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  const Matrix x(rng, 3, 700, 4);
  Matrix expected = x;
  make_ref_ops()->scale(expected.view(), 0.37F);
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix got(*device, x);
    scale(device->stream(), got.view(), 0.37F);
    EXPECT_TRUE(kernels::test::same_bits(got.read(), expected.data)) << name;
  }
}

TEST(CudaRows, AddBiasAndMultiplyHaveTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  const Matrix y(rng, 3, 700, 4);
  const Matrix x(rng, 3, 700, 8);
  const std::vector<float> bias = kernels::test::normal_floats(rng, 700);
  Matrix expected = y;
  make_ref_ops()->add_bias(expected.view(), bias.data());
  make_ref_ops()->multiply(x.view(), expected.view());
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix got(*device, y);
    const DeviceMatrix factors(*device, x);
    const OnDevice<float> added(*device, bias);
    add_bias(device->stream(), got.view(), added.data());
    multiply(device->stream(), factors.view(), got.view());
    EXPECT_TRUE(kernels::test::same_bits(got.read(), expected.data)) << name;
  }
}

TEST(CudaRows, CopyWritesPartsOfRows) {
  kernels::test::Rng rng(fresh_seed());
  constexpr int64_t kPart = 300;
  const Matrix x(rng, 3, 700, 4);
  const Matrix y(rng, 3, 700, 8);
  const auto part = [](auto view, int64_t begin) {
    view.data += begin;
    view.cols = kPart;
    return view;
  };
  Matrix expected = y;
  make_ref_ops()->copy(part(x.view(), 100), part(expected.view(), 400));
  for (const auto& [name, device] : test::devices()) {
    const DeviceMatrix got(*device, y);
    const DeviceMatrix from(*device, x);
    copy(device->stream(), part(from.view(), 100), part(got.view(), 400));
    EXPECT_TRUE(kernels::test::same_bits(got.read(), expected.data)) << name;
  }
}

TEST(CudaRows, RouteGivesTiesToTheLowerId) {
  Matrix equal(2, 100, 1.5F);
  equal.data[70] = 2;
  expect_same_route(equal, 8);
  Matrix zeros(1, 300, 0);
  for (size_t i = 0; i < zeros.data.size(); i += 3) zeros.data[i] = -0.0F;
  expect_same_route(zeros, 5);
  Matrix infinite(1, 64, -std::numeric_limits<float>::infinity());
  infinite.data[40] = 0;
  expect_same_route(infinite, 4);
}

TEST(CudaRows, KeepTopPHasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  constexpr int kRows = 300;  // more than one block's
  constexpr int kUsed = 8;
  const Matrix logits(rng, kRows, 40, 2);
  std::vector<int32_t> ids(kRows * kUsed);
  std::vector<float> weights(kRows * kUsed);
  ref::route(logits.view(), {}, {kUsed, ids.data(), weights.data()});
  // Either all rows are decode rows, or every third row is a prefill row.
  for (const int prefill_every : {kRows + 1, 3}) {
    std::vector<RowClass> classes;
    std::vector<int32_t> decode;
    for (int r = 0; r < kRows; ++r) {
      const bool prefill = r % prefill_every == prefill_every - 1;
      classes.push_back(prefill ? RowClass::kPrefill : RowClass::kDecode);
      if (!prefill) decode.push_back(r);
    }
    auto want_ids = ids;
    auto want_weights = weights;
    ExpertUse want = {};
    make_ref_ops()->keep_top_p({kUsed, want_ids.data(), want_weights.data()}, StepRows::kAll,
                               classes, 0.7F, &want);
    EXPECT_LT(want.experts, want.rows * kUsed);
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<int32_t> got_ids(*device, ids);
      const OnDevice<float> got_weights(*device, weights);
      const OnDevice<ExpertUse> use(*device, std::vector<ExpertUse>(1));
      const OnDevice<int32_t> row_ids(*device, decode);
      const bool all = decode.size() == kRows;
      const RowSet rows = {all ? nullptr : row_ids.data(), static_cast<int32_t>(decode.size())};
      keep_top_p(device->stream(), {kUsed, got_ids.data(), got_weights.data()}, rows, 0.7F,
                 use.data());
      EXPECT_EQ(got_ids.read(), want_ids) << name;
      EXPECT_TRUE(kernels::test::same_bits(got_weights.read(), want_weights)) << name;
      EXPECT_EQ(use.read()[0].rows, want.rows) << name;
      EXPECT_EQ(use.read()[0].experts, want.experts) << name;
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
