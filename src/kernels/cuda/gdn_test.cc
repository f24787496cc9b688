// The gated delta net's kernels against ref, bit for bit, in ragged batches of many sequences;
// kernels that use tensor cores against f64.
#include "kernels/cuda/gdn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "base/fresh_seed.h"
#include "kernels/cuda/batch_test_data.h"
#include "kernels/cuda/rounded_test_data.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Batch;
using kernels::test::Matrix;
using kernels::test::Rng;
using kernels::test::same_bits;
using kernels::test::Scenario;
using kernels::test::SequenceSpec;
using kernels::test::uniform_int;
using test::BatchOnDevice;
using test::DeviceMatrix;
using test::OnDevice;
using test::RoundedMemory;

constexpr float kEps = 1e-6F;

Rng seeded() {
  const auto seed = fresh_seed();
  std::cout << "seed " << seed << '\n';
  return Rng(seed);
}

/// Pads rows so that they begin at multiples of 16 bytes.
Matrix aligned(Matrix m) {
  m.stride = m.cols + 4;
  m.data.resize(static_cast<size_t>(m.rows * m.stride), m.data.empty() ? 0 : m.data.back());
  return m;
}

/// Inputs and outputs of the layer on the host.
struct Layer {
  GdnShape shape;
  Matrix qkv;
  Matrix alpha;
  Matrix beta;
  Matrix z;
  Matrix out;
  std::vector<float> conv_weight;
  std::vector<float> norm;
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
        qkv(aligned(Matrix(rng, rows, s.conv_dim()))),
        alpha(rng, rows, s.n_v_heads, 2),
        beta(rng, rows, s.n_v_heads, 2),
        z(rng, rows, s.value_dim(), 2),
        out(aligned(Matrix(rows, s.value_dim(), NAN))),
        conv_weight(
            kernels::test::normal_floats(rng, static_cast<int64_t>(s.conv_dim()) * s.conv_kernel)),
        norm(kernels::test::normal_floats(rng, s.head_dim)),
        dt_bias(kernels::test::normal_floats(rng, s.n_v_heads)),
        slot_stride(std::max(s.conv_state_floats(), s.scan_state_floats()) + 16),
        conv_state(kernels::test::normal_floats(rng, slots * slot_stride)),
        scan_state(kernels::test::normal_floats(rng, slots * slot_stride)),
        row_stride(std::max(s.conv_row_floats(), s.scan_row_floats()) + 16),
        conv_rows(kernels::test::normal_floats(rng, row_blocks * row_stride + 1, 0.5F)),
        scan_rows(kernels::test::normal_floats(rng, row_blocks * row_stride + 1, 0.5F)) {
    std::uniform_real_distribution<float> log_a(-5, 3);
    for (int h = 0; h < s.n_v_heads; ++h) a.push_back(-std::exp(log_a(rng)));
  }

  /// Runs ref's convolution, scan and, if requested, gated norm.
  void run_ref(const BatchView& batch, bool with_norm) {
    ref::gdn_conv(batch, shape, conv_weight.data(), kEps,
                  {conv_state.data(), slot_stride, conv_rows.data(), row_stride}, qkv.view());
    ref::gdn_scan(batch, shape, qkv.view(), alpha.view(), beta.view(), a.data(), dt_bias.data(),
                  {scan_state.data(), slot_stride, scan_rows.data(), row_stride}, out.view());
    if (!with_norm) return;
    ref::gated_rms_norm(out.view(), z.view(), norm.data(), shape.head_dim, kEps, out.view());
  }
};

/// A layer on a device.
struct DeviceLayer {
  GdnShape shape;
  DeviceMatrix qkv;
  DeviceMatrix alpha;
  DeviceMatrix beta;
  DeviceMatrix z;
  DeviceMatrix out;
  OnDevice<float> conv_weight;
  OnDevice<float> norm;
  OnDevice<float> a;
  OnDevice<float> dt_bias;
  OnDevice<float> conv_state;
  OnDevice<float> scan_state;
  OnDevice<float> conv_rows;
  OnDevice<float> scan_rows;
  int64_t slot_stride;
  int64_t row_stride;

  DeviceLayer(Device& device, const Layer& l)
      : shape(l.shape),
        qkv(device, l.qkv),
        alpha(device, l.alpha),
        beta(device, l.beta),
        z(device, l.z),
        out(device, l.out),
        conv_weight(device, l.conv_weight),
        norm(device, l.norm),
        a(device, l.a),
        dt_bias(device, l.dt_bias),
        conv_state(device, l.conv_state),
        scan_state(device, l.scan_state),
        conv_rows(device, l.conv_rows),
        scan_rows(device, l.scan_rows),
        slot_stride(l.slot_stride),
        row_stride(l.row_stride) {}

  RecurrentView conv_view() const {
    return {conv_state.data(), slot_stride, conv_rows.data(), row_stride};
  }
  RecurrentView scan_view() const {
    return {scan_state.data(), slot_stride, scan_rows.data(), row_stride};
  }

  void expect_states(const Layer& want, const std::string& name) const {
    EXPECT_TRUE(same_bits(conv_state.read(), want.conv_state)) << name;
    EXPECT_TRUE(same_bits(scan_state.read(), want.scan_state)) << name;
    EXPECT_TRUE(same_bits(conv_rows.read(), want.conv_rows)) << name;
    EXPECT_TRUE(same_bits(scan_rows.read(), want.scan_rows)) << name;
  }
};

void expect_rows(const std::vector<float>& got, const Matrix& want, const std::string& name,
                 int head_dim) {
  for (int64_t r = 0; r < want.rows; ++r) {
    EXPECT_TRUE(same_bits(got.data() + r * want.stride, want.row(r), want.cols))
        << name << ", row " << r << ", head_dim " << head_dim;
  }
}

GdnShape random_shape(Rng& rng, int head_dim) {
  GdnShape s;
  s.head_dim = head_dim;
  s.n_k_heads = uniform_int(rng, 1, 2);
  s.n_v_heads = s.n_k_heads * uniform_int(rng, 1, head_dim > 64 ? 2 : 4);
  s.conv_kernel = uniform_int(rng, 0, 2) == 0 ? uniform_int(rng, 2, 8) : 4;
  s.tiled_heads = uniform_int(rng, 0, 1) == 0;
  return s;
}

/// Results of a layer in f64, and the magnitude of the terms of its sums.
struct Exact {
  std::vector<double> value;
  std::vector<double> magnitude;
  explicit Exact(size_t n) : value(n), magnitude(n) {}
  Exact(const float* x, size_t n) : value(x, x + n), magnitude(n) {
    for (size_t i = 0; i < n; ++i) magnitude[i] = std::fabs(value[i]);
  }
};

/// Applies rows `begin` .. of `conv` (the layer after its convolution) to one v head's state as one
/// chunk: the corrections u_i = β_i (v_i - Γ_i k_i S - Σ A_ij u_j), the outputs and the new state.
/// Products of normalised rows have an error of 2^-18, which the 2^-6 represent.
void exact_chunk(const Layer& conv, int begin, int rows, int h, Exact& state,
                 std::vector<Exact>& out) {
  const GdnShape& s = conv.shape;
  const auto n = static_cast<size_t>(s.head_dim);
  const int k_head = s.tiled_heads ? h % s.n_k_heads : h / (s.n_v_heads / s.n_k_heads);
  const double scale = 1 / std::sqrt(static_cast<double>(n));
  std::vector<double> log_decay;
  std::vector<Exact> u;
  auto q_of = [&](int i) { return conv.qkv.row(begin + i) + k_head * s.head_dim; };
  auto k_of = [&](int i) { return q_of(i) + s.key_dim(); };
  auto dot = [&](const float* a, const float* b) {
    double sum = 0;
    for (size_t d = 0; d < n; ++d) sum += double{a[d]} * b[d];
    return sum;
  };
  for (int i = 0; i < rows; ++i) {
    const float alpha = conv.alpha.row(begin + i)[h] + conv.dt_bias[static_cast<size_t>(h)];
    log_decay.push_back(double{conv.a[static_cast<size_t>(h)]} *
                        std::log1p(std::exp(double{alpha})));
    const double beta = 1 / (1 + std::exp(-double{conv.beta.row(begin + i)[h]}));
    double from_start = 0;
    for (const double l : log_decay) from_start += l;
    const float* v = conv.qkv.row(begin + i) + 2 * s.key_dim() + h * s.head_dim;
    Exact row(n);
    Exact& o = out[static_cast<size_t>(begin + i)];
    for (size_t c = 0; c < n; ++c) {
      double kept = 0;
      double kept_magnitude = 0;
      double read = 0;
      double read_magnitude = 0;
      for (size_t d = 0; d < n; ++d) {
        kept += k_of(i)[d] * state.value[d * n + c];
        kept_magnitude += std::fabs(k_of(i)[d]) * state.magnitude[d * n + c];
        read += q_of(i)[d] * state.value[d * n + c];
        read_magnitude += std::fabs(q_of(i)[d]) * state.magnitude[d * n + c];
      }
      row.value[c] = v[c] - std::exp(from_start) * kept;
      row.magnitude[c] = std::fabs(v[c]) + std::exp(from_start) * kept_magnitude;
      o.value[static_cast<size_t>(h) * n + c] = std::exp(from_start) * scale * read;
      o.magnitude[static_cast<size_t>(h) * n + c] = std::exp(from_start) * scale * read_magnitude;
    }
    double between = 0;
    for (int j = i; j >= 0; --j) {
      if (j < i) {
        const double a = std::exp(between) * dot(k_of(i), k_of(j));
        for (size_t c = 0; c < n; ++c) {
          row.value[c] -= a * u[static_cast<size_t>(j)].value[c];
          row.magnitude[c] +=
              (std::fabs(a) + std::exp(between) * 0x1p-6) * u[static_cast<size_t>(j)].magnitude[c];
        }
      } else {
        u.push_back(row);
      }
      between += log_decay[static_cast<size_t>(j)];
    }
    for (size_t c = 0; c < n; ++c) {
      u.back().value[c] = beta * row.value[c];
      u.back().magnitude[c] = beta * row.magnitude[c];
    }
    between = 0;
    for (int j = i; j >= 0; --j) {
      const double b = std::exp(between) * scale * dot(q_of(i), k_of(j));
      for (size_t c = 0; c < n; ++c) {
        const size_t at = static_cast<size_t>(h) * n + c;
        o.value[at] += b * u[static_cast<size_t>(j)].value[c];
        o.magnitude[at] += (std::fabs(b) + std::exp(between) * scale * 0x1p-6) *
                           u[static_cast<size_t>(j)].magnitude[c];
      }
      between += log_decay[static_cast<size_t>(j)];
    }
  }
  double after = 0;
  for (const double l : log_decay) after += l;
  for (double& x : state.value) x *= std::exp(after);
  for (double& x : state.magnitude) x *= std::exp(after);
  for (int j = 0; j < rows; ++j) {
    after -= log_decay[static_cast<size_t>(j)];
    for (size_t d = 0; d < n; ++d) {
      const double k = std::exp(after) * k_of(j)[d];
      for (size_t c = 0; c < n; ++c) {
        state.value[d * n + c] += k * u[static_cast<size_t>(j)].value[c];
        state.magnitude[d * n + c] += std::fabs(k) * u[static_cast<size_t>(j)].magnitude[c];
      }
    }
  }
}

/// In practice f32 is off by a few times 2^-22 of the terms' magnitude; a wrong index would be off
/// by a large part of it.
constexpr double kOff = 0x1p-12;

void expect_close(const float* got, const Exact& want, const std::string& what) {
  for (size_t i = 0; i < want.value.size(); ++i) {
    ASSERT_LE(std::fabs(double{got[i]} - want.value[i]), kOff * want.magnitude[i] + 1e-30)
        << what << " at " << i << ": want " << want.value[i] << " got " << got[i];
  }
}

/// `conv`: the layer after its convolution, with the initial states; `l` has run.
void expect_exact_scan(const Layer& conv, const Scenario& scenario, const DeviceLayer& l,
                       const std::string& name) {
  const GdnShape& s = conv.shape;
  const auto head = static_cast<size_t>(s.head_dim) * static_cast<size_t>(s.head_dim);
  const std::vector<float> got_out = l.out.read();
  const std::vector<float> got_state = l.scan_state.read();
  std::vector<Exact> out(static_cast<size_t>(conv.qkv.rows),
                         Exact(static_cast<size_t>(s.value_dim())));
  std::vector<float> untouched = conv.scan_state;
  int begin = 0;
  for (const SequenceSpec& sequence : scenario.sequences) {
    for (int h = 0; h < s.n_v_heads; ++h) {
      const auto place = [&](int slot) {
        return static_cast<size_t>(slot * conv.slot_stride) + static_cast<size_t>(h) * head;
      };
      Exact state(conv.scan_state.data() + place(sequence.read_slot), head);
      int row = begin;
      for (const auto& [row_class, rows] : sequence.slices) {
        const int size = row_class == RowClass::kPrefill ? rows : 1;
        for (int done = 0; done < rows; done += size) {
          exact_chunk(conv, row, size, h, state, out);
          row += size;
          const int slot = sequence.write_slots[static_cast<size_t>(row - 1 - begin)];
          if (slot < 0) continue;
          expect_close(got_state.data() + place(slot), state, name + ", state");
          std::copy_n(got_state.begin() + static_cast<int64_t>(place(slot)), head,
                      untouched.begin() + static_cast<int64_t>(place(slot)));
        }
      }
    }
    begin += sequence.rows();
  }
  for (size_t r = 0; r < out.size(); ++r) {
    expect_close(got_out.data() + static_cast<int64_t>(r) * conv.out.stride, out[r],
                 name + ", row " + std::to_string(r));
  }
  EXPECT_TRUE(same_bits(got_state, untouched)) << name;
}

/// Checks convolution and scan as two ops.
void check(Rng& rng, const GdnShape& shape, const Scenario& scenario) {
  const Batch batch(scenario.sequences);
  const Layer start(rng, shape, batch.view().n_rows, scenario.n_slots, scenario.n_row_blocks);
  Layer want = start;
  want.run_ref(batch.view(), /*with_norm=*/false);
  Layer conv = start;
  conv.qkv = want.qkv;
  for (const auto& [name, device] : test::devices()) {
    const BatchOnDevice on(*device, batch.view(), uniform_int(rng, 0, 2));
    const DeviceLayer l(*device, start);
    const int64_t scratch_bytes = gdn_scratch_bytes(shape, on.view().extent);
    const OnDevice<uint8_t> scratch(*device, std::vector<uint8_t>(scratch_bytes, 0xFF));
    Stream& stream = device->stream();
    gdn_conv(stream, on.view(), shape, l.conv_weight.data(), kEps, l.conv_view(), l.qkv.view(),
             scratch.data());
    gdn_scan(stream, on.view(), shape, l.qkv.view(), l.alpha.view(), l.beta.view(), l.a.data(),
             l.dt_bias.data(), l.scan_view(), l.out.view(), scratch.data());
    ASSERT_TRUE(stream.synchronize().ok());
    expect_rows(l.qkv.read(), want.qkv, name, shape.head_dim);
    if (shape.head_dim == 128) {
      EXPECT_TRUE(same_bits(l.conv_state.read(), want.conv_state)) << name;
      expect_exact_scan(conv, scenario, l, name);
      continue;
    }
    expect_rows(l.out.read(), want.out, name, shape.head_dim);
    l.expect_states(want, name);
  }
}

TEST(CudaDeltaNet, PrefillAndDecodeHaveTheBitsOfRef) {
  Rng rng = seeded();
  for (const int head_dim : {16, 32, 48, 64, 128}) {
    check(rng, random_shape(rng, head_dim), Scenario(rng, head_dim > 64 ? 64 : 20, 0));
  }
}

TEST(CudaDeltaNet, FoldedAndKeptRowsHaveTheBitsOfRef) {
  Rng rng = seeded();
  for (const int head_dim : {16, 48, 64, 96, 256}) {
    GdnShape shape = random_shape(rng, head_dim);
    if (head_dim > 64) shape.n_k_heads = shape.n_v_heads = 1;
    Scenario scenario(rng, head_dim > 64 ? 3 : 20, 0, 9);
    if (head_dim > 64) scenario.sequences.resize(1);
    check(rng, shape, scenario);
  }
}

TEST(CudaDeltaNet, HeadsWiderThanTheColumnsOfABlock) {
  Rng rng = seeded();
  for (const int head_dim : {144, 256}) {
    GdnShape shape = random_shape(rng, head_dim);
    shape.n_k_heads = 1;
    shape.n_v_heads = 1;
    Scenario scenario(rng, 1, 0);
    scenario.sequences.resize(1);
    scenario.sequences[0].slices = {{RowClass::kPrefill, 3}, {RowClass::kDecode, 2}};
    scenario.sequences[0].write_slots = {-1, -1, -1, -1, scenario.n_slots++};
    check(rng, shape, scenario);
  }
}

/// Prompts with slices of every length from one row to two tiles of the convolution.
TEST(CudaDeltaNet, LongPrompts) {
  Rng rng = seeded();
  GdnShape shape = random_shape(rng, 32);
  Scenario scenario(rng, 1, 0);
  scenario.sequences.resize(2);
  scenario.n_slots = 4;
  for (int i = 0; i < 2; ++i) {
    SequenceSpec& s = scenario.sequences[i];
    s.read_slot = i;
    s.slices.clear();
    s.write_slots.clear();
    for (const int rows : {64, 64, uniform_int(rng, 1, 64), 64, uniform_int(rng, 1, 64)}) {
      s.slices.emplace_back(RowClass::kPrefill, rows);
      s.write_slots.insert(s.write_slots.end(), rows, -1);
    }
    s.write_slots.back() = i == 0 ? 0 : 2;  // in place, and to another slot
  }
  check(rng, shape, scenario);
}

/// Checks gdn_mix of decode rows, and the number of launches.
void check_mix(Rng& rng, const GdnShape& shape, const std::vector<SequenceSpec>& sequences,
               int n_slots, int n_row_blocks, int launches) {
  const Batch batch(sequences);
  if (!batch.view().fold_rows.empty()) ++launches;
  const Layer start(rng, shape, batch.view().n_rows, n_slots, n_row_blocks);
  Layer want = start;
  want.run_ref(batch.view(), /*with_norm=*/true);
  for (const auto& [name, device] : test::devices()) {
    const BatchOnDevice on(*device, batch.view(), uniform_int(rng, 0, 3));
    const DeviceLayer l(*device, start);
    const std::vector<uint32_t> zeros(on.view().extent.n_sequences * shape.n_k_heads);
    const OnDevice<uint32_t> barrier_counters(*device, zeros);
    const GdnOperands operands = {l.conv_weight.data(), l.conv_view(), l.a.data(), l.dt_bias.data(),
                                  l.scan_view(),        l.norm.data(), kEps};
    ASSERT_TRUE(decode_only(on.view().extent));
    const bool rounds = shape.head_dim % 32 == 0;
    const RoundedMemory rounded(*device, batch.view().n_rows, (shape.value_dim() + 31) / 32 * 32);
    const int64_t before = device->stream().counts().launches;
    gdn_mix(device->stream(), on.view(), shape, operands, l.qkv.view(), l.alpha.view(),
            l.beta.view(), l.z.view(), l.out.view(), rounds ? rounded.rows() : RoundedRows{},
            nullptr, barrier_counters.data());
    EXPECT_EQ(device->stream().counts().launches, before + launches);
    ASSERT_TRUE(device->stream().synchronize().ok());
    expect_rows(l.out.read(), want.out, name, shape.head_dim);
    if (rounds) rounded.expect(want.out, name);
    l.expect_states(want, name);
    EXPECT_EQ(barrier_counters.read(), zeros);
  }
}

/// Checks decode rows of many sequences, some with up to `max_rows` rows, and the number of
/// launches; with `folds`, some sequences fold rows first, and some rows are kept.
void check_decode(Rng& rng, const GdnShape& shape, int n_sequences, int max_rows, int launches,
                  bool folds = false) {
  std::vector<SequenceSpec> sequences;
  int n_slots = n_sequences;
  int n_row_blocks = 0;
  for (int i = 0; i < n_sequences; ++i) {
    SequenceSpec s;
    s.read_slot = i;
    const int rows = uniform_int(rng, 0, 2) == 0 ? uniform_int(rng, 1, max_rows) : 1;
    s.slices = {{RowClass::kDecode, rows}};
    // In place, or one slot per row.
    const bool in_place = uniform_int(rng, 0, 1) == 0;
    for (int r = 0; r < rows; ++r) s.write_slots.push_back(in_place ? -1 : n_slots++);
    if (in_place) s.write_slots.back() = s.read_slot;
    // Some fold rows of an earlier step and keep their own instead.
    if (folds && uniform_int(rng, 0, 2) > 0) {
      for (int n = uniform_int(rng, 1, 6); n > 0; --n) s.unfolded.push_back(n_row_blocks++);
      s.fold_from = i;
      if (uniform_int(rng, 0, 1) == 0) {
        if (in_place) s.write_slots.back() = n_slots;
        s.read_slot = n_slots++;
      }
    }
    if (folds && uniform_int(rng, 0, 2) > 0) {
      s.write_slots.assign(static_cast<size_t>(rows), -1);
      for (int r = 0; r < rows; ++r) s.keep_rows.push_back(n_row_blocks++);
    }
    sequences.push_back(s);
  }
  check_mix(rng, shape, sequences, n_slots, n_row_blocks, launches);
}

TEST(CudaDeltaNet, TwoLaunchesOfDecodeRowsHaveTheBitsOfThreeOps) {
  Rng rng = seeded();
  for (const int head_dim : {16, 48, 64, 96}) {
    check_decode(rng, random_shape(rng, head_dim), uniform_int(rng, 1, 5), 9, 2);
  }
  GdnShape large = random_shape(rng, 256);
  large.n_k_heads = 1;
  large.n_v_heads = 2;
  check_decode(rng, large, 2, 9, 2);
  GdnShape taps = random_shape(rng, 128);
  taps.conv_kernel = 3;
  check_decode(rng, taps, 1, 2, 2);
}

TEST(CudaDeltaNet, OneLaunchOfDecodeRowsHasTheBitsOfThreeOps) {
  Rng rng = seeded();
  for (const int max_rows : {1, 9}) {
    GdnShape shape = random_shape(rng, 128);
    shape.n_k_heads = 2;
    shape.n_v_heads = 2 * uniform_int(rng, 1, 3);
    shape.conv_kernel = 4;
    check_decode(rng, shape, uniform_int(rng, 1, 5), max_rows, 1);
  }
  // Enough blocks that none warms the instruction cache.
  GdnShape many = random_shape(rng, 128);
  many.n_k_heads = 24;
  many.n_v_heads = 48;
  many.conv_kernel = 4;
  check_decode(rng, many, 3, 1, 1);
}

TEST(CudaDeltaNet, VerificationRowsHaveTheBitsOfThreeOps) {
  Rng rng = seeded();
  for (const int max_rows : {1, 9, 9}) {
    GdnShape shape = random_shape(rng, 128);
    shape.n_k_heads = 2;
    shape.n_v_heads = 2 * uniform_int(rng, 1, 3);
    shape.conv_kernel = 4;
    check_decode(rng, shape, uniform_int(rng, 1, 5), max_rows, 1, /*folds=*/true);
  }
  // Enough blocks that none warms the instruction cache.
  GdnShape many = random_shape(rng, 128);
  many.n_k_heads = 24;
  many.n_v_heads = 48;
  many.conv_kernel = 4;
  check_decode(rng, many, 3, 6, 1, /*folds=*/true);
  for (const int head_dim : {16, 48, 64}) {
    check_decode(rng, random_shape(rng, head_dim), uniform_int(rng, 1, 5), 9, 2, /*folds=*/true);
  }
}

/// Every number of rows that a block holds at a time, and more, with states stored in every way.
TEST(CudaDeltaNet, EveryNumberOfVerificationRowsHasTheBitsOfThreeOps) {
  Rng rng = seeded();
  GdnShape shape = random_shape(rng, 128);
  shape.n_k_heads = 1;
  shape.n_v_heads = 2;
  shape.conv_kernel = 4;
  for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 19}) {
    constexpr int kWays = 5;
    std::vector<SequenceSpec> sequences;
    int n_slots = kWays;
    int n_row_blocks = 0;
    for (int way = 0; way < kWays; ++way) {
      SequenceSpec s;
      s.read_slot = way;
      s.slices = {{RowClass::kDecode, rows}};
      s.write_slots.assign(static_cast<size_t>(rows), -1);
      if (way == 0) {  // all rows are kept
        for (int r = 0; r < rows; ++r) s.keep_rows.push_back(n_row_blocks++);
      } else if (way == 1) {  // in place
        s.write_slots.back() = s.read_slot;
      } else if (way < 4) {  // every row, or some
        for (int& slot : s.write_slots) {
          if (way == 2 || uniform_int(rng, 0, 1) == 0) slot = n_slots++;
        }
      }
      sequences.push_back(s);
    }
    check_mix(rng, shape, sequences, n_slots, n_row_blocks, 1);
  }
}

TEST(CudaDeltaNet, DecodeOnly) {
  EXPECT_FALSE(decode_only({.runs = 1, .decode_rows = 1, .prefill_rows = 3}));
  EXPECT_FALSE(decode_only({.runs = 2, .decode_rows = 1}));
  EXPECT_TRUE(decode_only({.runs = 1, .decode_rows = 4}));
}

}  // namespace
}  // namespace chimere::kernels::cuda
