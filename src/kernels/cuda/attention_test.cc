// The attention kernels against ref, bit for bit: all pairs of types, ragged batches, boundaries of
// pages and splits.
#include "kernels/cuda/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "base/fresh_seed.h"
#include "kernels/cuda/batch_test_data.h"
#include "kernels/cuda/rounded_test_data.h"
#include "kernels/ref/vector_ops.h"
#include "kernels/rope.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Batch;
using kernels::test::Matrix;
using kernels::test::normal_floats;
using kernels::test::Rng;
using kernels::test::same_bits;
using kernels::test::Scenario;
using kernels::test::SequenceSpec;
using kernels::test::uniform_int;
using test::BatchOnDevice;
using test::DeviceMatrix;
using test::OnDevice;

constexpr float kEps = 1e-6F;
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0};

Rng seeded() {
  const auto seed = fresh_seed();
  std::cout << "seed " << seed << '\n';
  return Rng(seed);
}

AttentionShape make_shape(int head_dim, int n_kv_heads, int group) {
  AttentionShape s;
  s.head_dim = head_dim;
  s.n_kv_heads = n_kv_heads;
  s.n_heads = n_kv_heads * group;
  s.rope_dims = head_dim;
  s.scale = 1 / std::sqrt(static_cast<float>(head_dim));
  return s;
}

/// Inputs and outputs of one call of both ops.
struct RowData {
  Matrix qg;
  Matrix k;
  Matrix v;
  Matrix out;
  RowData(Rng& rng, const AttentionShape& s, int n)
      : qg(queries(rng, s, n)),
        k(rng, n, static_cast<int64_t>(s.n_kv_heads) * s.head_dim),
        v(rng, n, static_cast<int64_t>(s.n_kv_heads) * s.head_dim),
        out(n, static_cast<int64_t>(s.n_heads) * s.head_dim, NAN) {}

 private:
  /// Rows are aligned to 16 bytes, as attend_split_N requires, in three of four cases.
  static Matrix queries(Rng& rng, const AttentionShape& s, int n) {
    const int64_t cols = int64_t{s.n_heads} * s.query_stride();
    Matrix m(rng, n, cols + (uniform_int(rng, 0, 3) > 0 ? 1 : 0));
    m.cols = cols;
    return m;
  }
};

struct Layer {
  AttentionShape shape;
  DType k_type;
  DType v_type;
  int multiprocessors;
  std::vector<float> q_norm;  ///< empty: no norm
  std::vector<float> k_norm;
  std::vector<float> sinks;  ///< empty: none

  Layer(Rng& rng, const AttentionShape& s, DType k, DType v)
      : shape(s),
        k_type(k),
        v_type(v),
        multiprocessors(std::array{4, 200}[uniform_int(rng, 0, 1)]),
        q_norm(normal_floats(rng, uniform_int(rng, 0, 2) > 0 ? s.head_dim : 0)),
        k_norm(normal_floats(rng, uniform_int(rng, 0, 2) > 0 ? s.head_dim : 0)) {}

  void run_ref(const BatchView& batch, std::vector<uint8_t>& memory, RowData& rows,
               bool with_attend) const {
    RopeTable rope;
    if (shape.rope_dims > 0) rope.prepare(batch.row_position, shape.rope_dims, shape.rope_base);
    const KvView kv = {memory.data(), ref::kv_page_bytes(shape, k_type, v_type), k_type, v_type};
    ref::qk_norm_rope_append(batch, shape, rope, q_norm.empty() ? nullptr : q_norm.data(),
                             k_norm.empty() ? nullptr : k_norm.data(), kEps, rows.qg.view(),
                             rows.k.view(), rows.v.view(), kv);
    AttentionShape of_attend = shape;
    if (!sinks.empty()) of_attend.sinks = sinks.data();
    if (with_attend) ref::attend(batch, of_attend, rows.qg.view(), kv, rows.out.view());
  }

  /// Runs both ops; rows.qg and rows.out become the device's results.
  void run(Device& device, const DeviceBatch& batch, uint8_t* memory, RowData& rows,
           bool with_attend) const {
    const DeviceMatrix qg(device, rows.qg);
    const DeviceMatrix k(device, rows.k);
    const DeviceMatrix v(device, rows.v);
    const DeviceMatrix out(device, rows.out);
    const OnDevice<float> q_weight(device, q_norm);
    const OnDevice<float> k_weight(device, k_norm);
    const OnDevice<double> frequencies(device, rope_frequencies(shape.rope_dims, shape.rope_base));
    const OnDevice<float> rope(
        device, std::vector<float>(static_cast<size_t>(batch.extent.n_rows) * shape.rope_dims));
    const OnDevice<uint8_t> scratch(
        device, std::vector<uint8_t>(attend_scratch_bytes(shape, batch.extent, multiprocessors)));
    Stream& stream = device.stream();
    const KvView kv = {memory, kv_page_bytes(shape, k_type, v_type), k_type, v_type};
    const bool rotates = shape.rope_dims > 0;
    if (rotates) rope_table(stream, batch, shape.rope_dims, frequencies.data(), rope.data());
    qk_norm_rope_append(stream, batch, shape, rotates ? rope.data() : nullptr,
                        q_norm.empty() ? nullptr : q_weight.data(),
                        k_norm.empty() ? nullptr : k_weight.data(), kEps, qg.view(), k.view(),
                        v.view(), kv);
    const OnDevice<float> sinks_on(device, sinks);
    AttentionShape of_attend = shape;
    if (!sinks.empty()) of_attend.sinks = sinks_on.data();
    if (with_attend) {
      const bool rounds = shape.head_dim % 32 == 0 && batch.extent.prefill_rows == 0;
      const test::RoundedMemory rounded(device, rows.out.rows, rows.out.cols);
      attend(stream, batch, of_attend, qg.view(), kv, out.view(),
             rounds ? rounded.rows() : RoundedRows{}, multiprocessors, device.facts().shared_bytes,
             scratch.data());
      rows.out.data = out.read();
      const bool finite =
          std::ranges::all_of(rows.out.data, [](float o) { return std::isfinite(o); });
      if (rounds && finite) rounded.expect(rows.out, device.facts().name);
    }
    const Status status = stream.synchronize();
    ASSERT_TRUE(status.ok()) << status.error().message;
    rows.qg.data = qg.read();
    rows.out.data = out.read();
  }
};

/// The positions before the scenario's rows, as a separate batch.
std::vector<SequenceSpec> history(const Scenario& scenario) {
  std::vector<SequenceSpec> before;
  for (SequenceSpec s : scenario.sequences) {
    if (s.start == 0) continue;
    s.slices = {{RowClass::kDecode, s.start}};
    s.write_slots.assign(s.start, -1);
    s.start = 0;
    s.visible.clear();
    before.push_back(s);
  }
  return before;
}

/// Decode rows have the bits of ref. Prefill rows on tensor cores are within the error of rounding
/// queries, keys, values and weights to f16: 2^-11 of a value's size, plus the effect of 2^-11 of
/// the products on the scores.
void expect_rows(const Layer& layer, const BatchView& batch, const RowData& got,
                 const RowData& want, const std::string& name) {
  const bool rounds = prefill_uses_tensor_cores(layer.shape, layer.k_type, layer.v_type);
  for (const Slice& slice : batch.slices) {
    for (int32_t r = slice.row_begin; r < slice.row_begin + slice.row_count; ++r) {
      if (slice.row_class == RowClass::kDecode || !rounds) {
        EXPECT_TRUE(same_bits(got.out.row(r), want.out.row(r), want.out.cols))
            << name << ", row " << r << ", head_dim " << layer.shape.head_dim << ", keys "
            << dtype_name(layer.k_type) << ", values " << dtype_name(layer.v_type);
        continue;
      }
      float most = 0;
      for (int64_t c = 0; c < want.out.cols; ++c) {
        most = std::fmax(most, std::fabs(got.out.row(r)[c] - want.out.row(r)[c]));
      }
      EXPECT_LT(most, 0x1p-8F) << name << ", row " << r << ", head_dim " << layer.shape.head_dim
                               << ", keys " << dtype_name(layer.k_type) << ", values "
                               << dtype_name(layer.v_type);
    }
  }
}

/// One page more, which is in the place of all pages that no row of the batch sees.
void hide_pages(Scenario& scenario, int window) {
  const int32_t hidden = scenario.n_pages++;
  for (SequenceSpec& s : scenario.sequences) {
    const int first = std::max(0, s.start + 1 - window);
    for (int page = 0; page < first / kKvPageTokens; ++page) {
      s.pages[static_cast<size_t>(page)] = hidden;
    }
  }
}

void check(Rng& rng, const Layer& layer, Scenario scenario) {
  const AttentionShape& shape = layer.shape;
  const Batch before(history(scenario));
  if (shape.window > 0) hide_pages(scenario, shape.window);
  const Batch batch(scenario.sequences);
  const RowData past(rng, shape, before.view().n_rows);
  const RowData start(rng, shape, batch.view().n_rows);
  // KV memory starts as NaN, so that reads of unwritten positions show.
  const int64_t page_bytes = kv_page_bytes(shape, layer.k_type, layer.v_type);
  ASSERT_EQ(page_bytes, ref::kv_page_bytes(shape, layer.k_type, layer.v_type));
  const std::vector<uint8_t> empty(static_cast<size_t>(scenario.n_pages * page_bytes), 0xFF);
  RowData want_past = past;
  RowData want = start;
  std::vector<uint8_t> ref_memory = empty;
  layer.run_ref(before.view(), ref_memory, want_past, false);
  layer.run_ref(batch.view(), ref_memory, want, true);
  for (const auto& [name, device] : test::devices()) {
    const OnDevice<uint8_t> memory(*device, empty);
    RowData got_past = past;
    RowData got = start;
    if (before.view().n_rows > 0) {
      const BatchOnDevice on(*device, before.view());
      layer.run(*device, on.view(), memory.data(), got_past, false);
    }
    const BatchOnDevice on(*device, batch.view(), uniform_int(rng, 0, 2));
    DeviceBatch view = on.view();
    // Padding rows have no memory here.
    view.extent.n_rows = batch.view().n_rows;
    layer.run(*device, view, memory.data(), got, true);
    EXPECT_TRUE(same_bits(got.qg.data, want.qg.data)) << name << ", head_dim " << shape.head_dim;
    expect_rows(layer, batch.view(), got, want, name);
  }
}

TEST(CudaAttention, EveryPairOfTypes) {
  Rng rng = seeded();
  constexpr int kDims[] = {32, 64, 96};
  for (const DType k : kTypes) {
    for (const DType v : kTypes) {
      AttentionShape shape = make_shape(kDims[uniform_int(rng, 0, 2)], 1, uniform_int(rng, 1, 3));
      shape.rope_dims = shape.rope_dims / 4 * std::array{0, 1, 4}[uniform_int(rng, 0, 2)];
      shape.gated = uniform_int(rng, 0, 1) == 0;
      check(rng, Layer(rng, shape, k, v), Scenario(rng, 4, 40));
    }
  }
}

TEST(CudaAttention, ShapesOfHeads) {
  Rng rng = seeded();
  for (const int head_dim : {16, 48, 128, 256, 512}) {
    const int group = uniform_int(rng, 1, 3);
    AttentionShape shape = make_shape(head_dim, uniform_int(rng, 1, 2), group);
    shape.gated = uniform_int(rng, 0, 1) == 0;
    const int types = head_dim % 32 == 0 ? 4 : 2;
    const DType k = kTypes[uniform_int(rng, 0, types)];
    check(rng, Layer(rng, shape, k, kTypes[uniform_int(rng, 0, types)]), Scenario(rng, 3, 70));
  }
}

/// Rows that see later rows of their slice: decode rows with the bits of ref, prefill rows within
/// the error of tensor cores.
TEST(CudaAttention, BlocksOfRowsThatSeeEachOther) {
  Rng rng = seeded();
  for (const int head_dim : {48, 64, 128, 256}) {
    for (int round = 0; round < 3; ++round) {
      const DType type = head_dim == 48 ? DType::kF16 : kTypes[uniform_int(rng, 1, 4)];
      const Layer layer(rng, make_shape(head_dim, 1, uniform_int(rng, 1, 4)), type, type);
      Scenario scenario(rng, 12, round < 2 ? 70 : 250);
      scenario.add_blocks(rng);
      check(rng, layer, scenario);
    }
  }
}

TEST(CudaAttention, EveryCombinationOfNormsAndRope) {
  Rng rng = seeded();
  for (const int head_dim : {48, 128, 256}) {
    for (int combination = 0; combination < 8; ++combination) {
      AttentionShape shape = make_shape(head_dim, 1, 2);
      shape.rope_dims = (combination & 1) != 0 ? head_dim / 2 : 0;
      const DType type = kTypes[uniform_int(rng, 0, head_dim % 32 == 0 ? 4 : 2)];
      Layer layer(rng, shape, type, type);
      layer.q_norm = normal_floats(rng, (combination & 2) != 0 ? head_dim : 0);
      layer.k_norm = normal_floats(rng, (combination & 4) != 0 ? head_dim : 0);
      check(rng, layer, Scenario(rng, 2, 10));
    }
  }
}

/// Rows on both sides of the boundaries of pages and of the first splits, with the heads of a kv
/// head in every number of blocks, with and without separate blocks for splits.
TEST(CudaAttention, BoundariesOfPagesAndSplits) {
  Rng rng = seeded();
  const std::pair<int, int> cases[] = {{62, 200}, {254, 1}, {254, 8}, {510, 16}, {766, 200}};
  for (const auto& [start, multiprocessors] : cases) {
    for (const RowClass row_class : {RowClass::kDecode, RowClass::kPrefill}) {
      Layer layer(rng, make_shape(32, 1, 4), DType::kQ8_0, DType::kQ4_0);
      layer.multiprocessors = multiprocessors;
      Scenario scenario(rng, 1, 0);
      scenario.sequences.resize(1);
      SequenceSpec& s = scenario.sequences[0];
      s.slices = {{row_class, 3}};
      s.write_slots.assign(3, -1);
      s.start = start;
      if (uniform_int(rng, 0, 1) == 0) s.visible.assign(3, start + 3);
      s.pages = {3, 1, 4, 0, 2};
      while (static_cast<int>(s.pages.size()) * kKvPageTokens < start + 3) {
        s.pages.push_back(static_cast<int32_t>(s.pages.size()));
      }
      scenario.n_pages = static_cast<int>(s.pages.size());
      check(rng, layer, scenario);
    }
  }
}

/// Groups of every size of tile, full and partial, of all types, in one and in several splits, with
/// and without separate blocks for splits.
TEST(CudaAttention, GroupsOfHeads) {
  Rng rng = seeded();
  constexpr int kDims[] = {32, 64, 96, 128, 256};
  constexpr std::pair<int, int> kCases[] = {{90, 1}, {130, 2}, {251, 1}, {253, 2}};
  int type = uniform_int(rng, 0, 24);
  for (const int group : {1, 2, 4, 5, 8}) {
    for (const auto& [start, multiprocessors] : kCases) {
      type = (type + 6) % 25;
      const int head_dim = kDims[uniform_int(rng, 0, 4)];
      Layer layer(rng, make_shape(head_dim, 1, group), kTypes[type / 5], kTypes[type % 5]);
      layer.multiprocessors = multiprocessors;
      Scenario scenario(rng, 1, 0);
      scenario.sequences.resize(1);
      SequenceSpec& s = scenario.sequences[0];
      const int rows = uniform_int(rng, 1, 4);
      s.slices = {{RowClass::kDecode, rows}};
      s.write_slots.assign(rows, -1);
      s.start = start + uniform_int(rng, 0, 4);
      s.pages = {3, 1, 4, 0, 2};
      scenario.n_pages = static_cast<int>(s.pages.size());
      check(rng, layer, scenario);
    }
  }
}

/// Windows and sinks in decode rows, with and without separate blocks for splits, and on tensor
/// cores; pages before the windows hold NaN.
TEST(CudaAttention, WindowsAndSinks) {
  Rng rng = seeded();
  constexpr int kWindows[] = {1, 2, 17, 64, 128, 200, 257, 300};
  constexpr int kDims[] = {32, 64, 96, 128};
  for (const int window : kWindows) {
    const int head_dim = kDims[uniform_int(rng, 0, 3)];
    const DType k = kTypes[uniform_int(rng, 0, 4)];
    Layer layer(rng, make_shape(head_dim, 1, uniform_int(rng, 1, 4)), k,
                kTypes[uniform_int(rng, 0, 4)]);
    layer.shape.window = window;
    layer.shape.gated = uniform_int(rng, 0, 1) == 0;
    layer.multiprocessors = std::array{1, 4, 200}[uniform_int(rng, 0, 2)];
    if (uniform_int(rng, 0, 2) > 0) layer.sinks = normal_floats(rng, layer.shape.n_heads);
    Scenario scenario(rng, 10, uniform_int(rng, 0, 600));
    if (uniform_int(rng, 0, 2) == 0) scenario.add_blocks(rng);
    check(rng, layer, scenario);
  }
}

/// The window begins at every place of a page, and the rows lie on both sides of a split.
TEST(CudaAttention, WindowsAtBoundaries) {
  Rng rng = seeded();
  for (const int start : {120, 190, 254, 318, 509}) {
    for (const RowClass row_class : {RowClass::kDecode, RowClass::kPrefill}) {
      for (const int multiprocessors : {1, 200}) {
        Layer layer(rng, make_shape(64, 1, 2), kTypes[uniform_int(rng, 1, 4)], DType::kF16);
        layer.shape.window = uniform_int(rng, 60, 130);
        layer.multiprocessors = multiprocessors;
        layer.sinks = normal_floats(rng, 2);
        Scenario scenario(rng, 1, 0);
        scenario.sequences.resize(1);
        SequenceSpec& s = scenario.sequences[0];
        s.slices = {{row_class, 5}};
        s.write_slots.assign(5, -1);
        s.start = start;
        s.pages.clear();
        while (static_cast<int>(s.pages.size()) * kKvPageTokens < start + 5) {
          s.pages.push_back(static_cast<int32_t>(s.pages.size()));
        }
        scenario.n_pages = static_cast<int>(s.pages.size());
        check(rng, layer, scenario);
      }
    }
  }
}

TEST(CudaAttention, PlansFillTheGpuAndReuseDecodedKeys) {
  const AttentionShape shape = make_shape(256, 2, 8);
  const BatchExtent one = {.n_rows = 1, .n_slices = 1, .decode_rows = 1, .positions = 500};
  const AttendPlan few = plan_attend(shape, one, 1, 132);
  EXPECT_EQ(few.heads, 1);
  EXPECT_EQ(few.splits, 2);
  BatchExtent deep = one;
  deep.positions = 32768;
  const AttendPlan many = plan_attend(shape, deep, 1, 132);
  EXPECT_EQ(many.heads, 4);
  EXPECT_EQ(many.splits, 128);
  EXPECT_EQ(many.parts_bytes, int64_t{16} * 128 * 258 * 4);
  BatchExtent prompt = deep;
  prompt.n_slices = 64;
  const AttendPlan rows = plan_attend(shape, prompt, 64, 132);
  EXPECT_EQ(rows.heads, 4);
  EXPECT_EQ(rows.splits, 0);
  EXPECT_EQ(rows.parts_bytes, 0);
  AttentionShape window = shape;
  window.window = 128;
  EXPECT_EQ(plan_attend(window, deep, 1, 132).splits, 2);
}

/// Few rows on a large GPU, so that attend_split_N computes them.
TEST(CudaAttention, FewRows) {
  Rng rng = seeded();
  constexpr int kDims[] = {32, 64, 96, 128, 256};
  for (const int head_dim : kDims) {
    for (const int group : {1, 3, 8}) {
      AttentionShape shape = make_shape(head_dim, uniform_int(rng, 1, 2), group);
      shape.gated = uniform_int(rng, 0, 1) == 0;
      if (uniform_int(rng, 0, 2) == 0) shape.window = uniform_int(rng, 1, 200);
      const DType k = kTypes[uniform_int(rng, head_dim > 64 ? 1 : 0, 4)];
      Layer layer(rng, shape, k, kTypes[uniform_int(rng, 0, 4)]);
      layer.multiprocessors = std::array{16, 64, 200}[uniform_int(rng, 0, 2)];
      if (uniform_int(rng, 0, 2) == 0) layer.sinks = normal_floats(rng, shape.n_heads);
      Scenario scenario(rng, 3, uniform_int(rng, 0, 3) == 0 ? 300 : 120);
      if (uniform_int(rng, 0, 2) == 0) scenario.add_blocks(rng);
      check(rng, layer, scenario);
    }
  }
}

TEST(CudaAttention, FewBlocksKeepTheirSplitsInSharedMemory) {
  const AttentionShape shape = make_shape(256, 2, 8);
  auto plan_of = [&](const BatchExtent& extent, DType type) {
    return plan_attend_split(shape, type, DType::kQ4_0, extent, extent.decode_rows,
                             plan_attend(shape, extent, extent.decode_rows, 132), 132, 227 << 10);
  };
  const BatchExtent one = {.n_rows = 1, .n_slices = 1, .decode_rows = 1, .positions = 256};
  EXPECT_EQ(plan_of(one, DType::kQ8_0).heads, 1);
  EXPECT_EQ(plan_of(one, DType::kF32).heads, 0);
  BatchExtent longer = one;
  longer.positions = 1024;
  EXPECT_EQ(plan_of(longer, DType::kQ8_0).heads, 1);
  longer.positions = 32768;
  EXPECT_EQ(plan_of(longer, DType::kQ8_0).heads, 0);
  BatchExtent rows = one;
  rows.decode_rows = 16;
  EXPECT_EQ(plan_of(rows, DType::kQ8_0).heads, 2);
  rows.n_slices = 8;
  EXPECT_EQ(plan_of(rows, DType::kQ8_0).heads, 0);
}

/// A row on tensor cores has the same bits whatever it is batched with: other sequences, slices of
/// other sizes behind it, padding of the launch.
TEST(CudaAttention, PrefillRowsDoNotDependOnTheirBatch) {
  Rng rng = seeded();
  for (const int head_dim : {32, 64, 128, 256}) {
    Layer layer(rng, make_shape(head_dim, 1, head_dim > 64 ? 3 : 8), DType::kQ8_0, DType::kQ4_0);
    if (head_dim == 64) layer.shape.window = uniform_int(rng, 1, 40);
    ASSERT_TRUE(prefill_uses_tensor_cores(layer.shape, layer.k_type, layer.v_type));
    const int rows[] = {uniform_int(rng, 1, 40), uniform_int(rng, 1, 40)};
    std::vector<SequenceSpec> sequences(2);
    for (int i = 0; i < 2; ++i) {
      const int first = uniform_int(rng, 1, rows[i]);
      sequences[i].slices = {{RowClass::kPrefill, first}};
      if (first < rows[i]) sequences[i].slices.emplace_back(RowClass::kPrefill, rows[i] - first);
      sequences[i].write_slots.assign(rows[i], -1);
      sequences[i].pages = {i};
    }
    const RowData start(rng, layer.shape, rows[0] + rows[1]);
    const int64_t page_bytes = kv_page_bytes(layer.shape, layer.k_type, layer.v_type);
    const std::vector<uint8_t> empty(2 * page_bytes, 0xFF);
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<uint8_t> memory(*device, empty);
      RowData together = start;
      layer.run(*device, BatchOnDevice(*device, Batch(sequences).view()).view(), memory.data(),
                together, true);
      int64_t row = 0;
      for (const SequenceSpec& s : sequences) {
        RowData alone = start;
        for (Matrix* m : {&alone.qg, &alone.k, &alone.v, &alone.out}) {
          m->data.erase(m->data.begin(), m->data.begin() + row * m->stride);
          m->rows = s.rows();
          m->data.resize(m->rows * m->stride);
        }
        layer.run(*device, BatchOnDevice(*device, Batch({s}).view()).view(), memory.data(), alone,
                  true);
        for (int32_t r = 0; r < s.rows(); ++r, ++row) {
          EXPECT_TRUE(same_bits(alone.out.row(r), together.out.row(row), alone.out.cols))
              << name << ", row " << row << ", head_dim " << head_dim;
        }
      }
    }
  }
}

/// Values that no scale can represent propagate to the result; zeros are exact.
TEST(CudaAttention, NonFiniteValuesPropagate) {
  Rng rng = seeded();
  const AttentionShape shape = make_shape(64, 1, 2);
  for (const DType type : {DType::kQ8_0, DType::kQ4_0}) {
    const Layer layer(rng, shape, type, type);
    for (const float odd : {INFINITY, NAN, 1e30F, 1e-30F, 0.0F}) {
      const Batch batch(
          {{.slices = {{RowClass::kDecode, 3}}, .write_slots = {-1, -1, -1}, .pages = {0}}});
      RowData start(rng, shape, 3);
      std::fill_n(start.v.data.begin(), start.v.stride, odd);  // the first row's value
      for (const auto& [name, device] : test::devices()) {
        const OnDevice<uint8_t> memory(
            *device, std::vector<uint8_t>(kv_page_bytes(shape, type, type), 0xFF));
        RowData got = start;
        layer.run(*device, BatchOnDevice(*device, batch.view()).view(), memory.data(), got, true);
        for (int d = 0; d < 2 * 64; ++d) {
          if (std::fabs(odd) <= 1e-30F) {
            EXPECT_EQ(got.out.row(0)[d], 0) << name << ' ' << odd;
          } else {
            EXPECT_FALSE(std::isfinite(got.out.row(0)[d])) << name << ' ' << odd;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
