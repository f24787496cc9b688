// Chunks of state-space duality on tensor cores against f64, in ragged batches with decode rows and
// rows that are folded and kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/cuda/batch_test_data.h"
#include "kernels/cuda/state_space.h"
#include "kernels/state_space_test_data.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Batch;
using kernels::test::Matrix;
using kernels::test::random_state_space;
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

/// Largest difference of an element, relative to the magnitudes of its terms. In practice it is a
/// few times 2^-21; a wrong index would be off by a large part of them.
constexpr double kOff = 0x1p-14;

/// Numbers in f64, and the magnitudes of the terms of their sums.
struct Exact {
  std::vector<double> value;
  std::vector<double> magnitude;

  explicit Exact(int64_t n) : value(static_cast<size_t>(n)), magnitude(static_cast<size_t>(n)) {}
  void expect(const float* got, const std::string& what) const {
    for (size_t i = 0; i < value.size(); ++i) {
      ASSERT_LE(std::fabs(double{got[i]} - value[i]), kOff * magnitude[i] + 1e-30)
          << what << " at " << i << ": want " << value[i] << " got " << got[i];
    }
  }
};

/// Rows begin at multiples of 16 bytes.
void align(Matrix& m) {
  m.stride = m.cols + 4;
  m.data.resize(static_cast<size_t>(m.rows * m.stride));
}

/// One head's part of a layer, computed row by row.
class ExactHead {
 public:
  ExactHead(const StateSpaceLayer& layer, int head)
      : layer_(layer),
        shape_(layer.shapes.ssd),
        head_(head),
        group_(head / shape_.heads_of_group()),
        state_(int64_t{shape_.state_dim} * shape_.head_dim) {}

  int64_t place(int slot) const {
    return slot * layer_.ssd_state.slot_stride +
           int64_t{head_} * shape_.head_dim * shape_.state_dim;
  }
  void start(int slot) {
    const float* from = layer_.ssd_state.slots.data() + place(slot);
    for (size_t i = 0; i < state_.value.size(); ++i) {
      state_.value[i] = from[i];
      state_.magnitude[i] = std::fabs(from[i]);
    }
  }
  void fold(int row_block) {
    const float* kept = layer_.ssd_state.rows.data() + row_block * layer_.ssd_state.row_stride;
    std::vector<double> u;
    for (int p = 0; p < shape_.head_dim; ++p) u.push_back(kept[head_ * shape_.head_dim + p]);
    advance(kept[shape_.inner() + shape_.bc_dim() + head_],
            kept + shape_.inner() + group_ * shape_.state_dim, u);
  }
  void step(int64_t r, Exact& out) {
    const size_t h = static_cast<size_t>(head_);
    const float* row = layer_.xbc.row(r);
    const float* x = row + head_ * shape_.head_dim;
    const float* b = row + shape_.inner() + group_ * shape_.state_dim;
    const float* c = b + shape_.bc_dim();
    const float raw = layer_.ssd_dt.row(r)[head_] + layer_.ssd_bias[h];
    const double dt = std::log1p(std::exp(double{raw}));
    std::vector<double> u;
    for (int p = 0; p < shape_.head_dim; ++p) u.push_back(dt * x[p]);
    advance(std::exp(dt * layer_.ssd_a[h]), b, u);
    for (int p = 0; p < shape_.head_dim; ++p) {
      const auto at = static_cast<size_t>(head_ * shape_.head_dim + p);
      out.value[at] = double{layer_.ssd_d[h]} * x[p];
      out.magnitude[at] = std::fabs(out.value[at]);
      for (int n = 0; n < shape_.state_dim; ++n) {
        const auto i = static_cast<size_t>(n * shape_.head_dim + p);
        out.value[at] += c[n] * state_.value[i];
        out.magnitude[at] += std::fabs(c[n]) * state_.magnitude[i];
      }
    }
  }
  const Exact& state() const { return state_; }

 private:
  void advance(double g, const float* b, const std::vector<double>& u) {
    for (int n = 0; n < shape_.state_dim; ++n) {
      for (size_t p = 0; p < u.size(); ++p) {
        const auto i = static_cast<size_t>(n) * u.size() + p;
        state_.value[i] = g * state_.value[i] + b[n] * u[p];
        state_.magnitude[i] = std::fabs(g) * state_.magnitude[i] + std::fabs(b[n] * u[p]);
      }
    }
  }

  const StateSpaceLayer& layer_;
  const SsdShape& shape_;
  int head_;
  int group_;
  Exact state_;
};

/// Compares outputs and states of all heads; states that no row writes are to be as before.
void expect_exact(const StateSpaceLayer& start, const Scenario& scenario,
                  const std::vector<float>& out, const std::vector<float>& slots,
                  const std::string& name) {
  const SsdShape& shape = start.shapes.ssd;
  std::vector<Exact> want(static_cast<size_t>(start.xbc.rows), Exact(shape.inner()));
  std::vector<float> written = start.ssd_state.slots;
  for (int h = 0; h < shape.n_heads; ++h) {
    int64_t row = 0;
    for (const SequenceSpec& sequence : scenario.sequences) {
      ExactHead head(start, h);
      const auto expect_slot = [&](int32_t slot) {
        if (slot < 0) return;
        const int64_t at = head.place(slot);
        head.state().expect(slots.data() + at, name + ", state " + std::to_string(slot));
        std::copy_n(slots.begin() + at, head.state().value.size(), written.begin() + at);
      };
      const bool folds = !sequence.unfolded.empty();
      head.start(folds ? sequence.fold_from : sequence.read_slot);
      for (const int32_t block : sequence.unfolded) head.fold(block);
      const bool overwritten = std::ranges::count(sequence.write_slots, sequence.read_slot) > 0;
      if (folds && !overwritten) expect_slot(sequence.read_slot);
      for (const int32_t slot : sequence.write_slots) {
        head.step(row, want[static_cast<size_t>(row)]);
        expect_slot(slot);
        ++row;
      }
    }
  }
  for (int64_t r = 0; r < start.xbc.rows; ++r) {
    want[static_cast<size_t>(r)].expect(out.data() + r * start.ssd_out.stride,
                                        name + ", row " + std::to_string(r));
  }
  EXPECT_TRUE(same_bits(slots, written)) << name;
}

void check(Rng& rng, int max_unfolded) {
  StateSpaceShapes shapes = random_state_space(rng);
  const int groups = uniform_int(rng, 1, 2);
  shapes.ssd = {.n_heads = groups * uniform_int(rng, 1, 5 - 2 * groups),
                .head_dim = 32 * uniform_int(rng, 1, 2),
                .n_groups = groups,
                .state_dim = 128};
  const Scenario scenario(rng, kMaxChunkRows, 0, max_unfolded);
  const Batch batch(scenario.sequences);
  StateSpaceLayer start(rng, shapes, batch.view().n_rows, scenario.n_slots, scenario.n_row_blocks);
  align(start.xbc);
  align(start.ssd_out);
  start.ssd_state.rows.push_back(0);
  StateSpaceLayer want = start;
  want.run(*make_ref_ops(), batch.view());
  for (const auto& [name, device] : test::devices()) {
    Stream& stream = device->stream();
    const BatchOnDevice on(*device, batch.view(), uniform_int(rng, 0, 2));
    const OnDevice<float> a(*device, start.ssd_a);
    const OnDevice<float> d(*device, start.ssd_d);
    const OnDevice<float> bias(*device, start.ssd_bias);
    const OnDevice<float> slots(*device, start.ssd_state.slots);
    const OnDevice<float> rows(*device, start.ssd_state.rows);
    const DeviceMatrix xbc(*device, start.xbc);
    const DeviceMatrix dt(*device, start.ssd_dt);
    const DeviceMatrix out(*device, start.ssd_out);
    const OnDevice<uint8_t> scratch(
        *device, std::vector<uint8_t>(ssd_scratch_bytes(shapes.ssd, on.view().extent) + 1, 0xFF));
    ssd_scan(stream, on.view(), shapes.ssd, {a.data(), d.data(), bias.data()}, xbc.view(),
             dt.view(),
             {slots.data(), start.ssd_state.slot_stride, rows.data(), start.ssd_state.row_stride},
             out.view(), scratch.data());
    ASSERT_TRUE(stream.synchronize().ok());
    expect_exact(start, scenario, out.read(), slots.read(), name);
    EXPECT_TRUE(same_bits(rows.read(), want.ssd_state.rows)) << name;
  }
}

TEST(CudaSsdPrefill, ChunksAndDecodeRowsAreExact) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 5; ++round) check(rng, 0);
}

TEST(CudaSsdPrefill, FoldedAndKeptRows) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 5; ++round) check(rng, 7);
}

}  // namespace
}  // namespace chimere::kernels::cuda
