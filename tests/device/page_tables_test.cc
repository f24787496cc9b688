// The page tables that stay on a device, checked against the complete lists of every step of random
// sequences.
#include "kernels/cuda/page_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/cuda/device_test_data.h"
#include "kernels/cuda/step_arrays.h"
#include "model/step_batch.h"
#include "state/state_store.h"

namespace chimere::model {
namespace {

using kernels::cuda::Device;
using kernels::cuda::PageTables;
using kernels::cuda::StepArrays;

constexpr model::StepLimits kLimits = {
    .n_vocab = 10, .n_embd = 1, .n_layers = 1, .max_rows = 1 << 18};

std::unique_ptr<state::StateStore> make_store(int64_t max_pages) {
  state::StateSpec spec;
  spec.components = {{.kind = state::ComponentSpec::Kind::kPagedKv, .layer = 0, .bytes = 64}};
  spec.page_tokens = kernels::kKvPageTokens;
  spec.max_pages = max_pages;
  spec.max_slots = 1;
  return std::move(state::StateStore::create(spec)).value();
}

/// The lists of a step that was uploaded, and where they are on the device.
struct Uploaded {
  std::vector<int32_t> begins;
  std::vector<std::vector<int32_t>> lists;
};

/// The step arrays of a device, as CudaOps uses them.
class Uploads {
 public:
  explicit Uploads(Device& device)
      : device_(device),
        tables_(std::move(PageTables::create(device)).value()),
        arrays_{std::move(StepArrays::create(device)).value(),
                std::move(StepArrays::create(device)).value()} {}

  Uploaded upload(const kernels::BatchView& batch, bool interleaved) {
    kernels::StepInputs step;
    step.batch = batch;
    StepArrays& arrays = arrays_[interleaved ? 1 : 0];
    EXPECT_TRUE(arrays.upload(step, tables_, interleaved).ok());
    bytes_ = arrays.uploaded_bytes();
    Uploaded uploaded;
    uploaded.begins.assign(tables_.begins().begin(), tables_.begins().end());
    for (int32_t s = 0; s < batch.n_sequences; ++s) {
      const auto at = static_cast<size_t>(s);
      const kernels::Slice& last =
          batch.slices[static_cast<size_t>(batch.sequence_slices[at + 1]) - 1];
      const int32_t position =
          batch.row_position[static_cast<size_t>(last.row_begin + last.row_count - 1)];
      const auto pages =
          batch.page_table.subspan(static_cast<size_t>(batch.page_begin[at]),
                                   static_cast<size_t>(position / kernels::kKvPageTokens) + 1);
      uploaded.lists.emplace_back(pages.begin(), pages.end());
    }
    return uploaded;
  }

  /// A step that fails before it is submitted.
  void fail(const kernels::BatchView& batch, bool interleaved) {
    EXPECT_TRUE(tables_.prepare(batch, interleaved).ok());
    tables_.forget_step();
  }

  void expect_on_device(const Uploaded& uploaded) {
    for (size_t s = 0; s < uploaded.lists.size(); ++s) {
      std::vector<int32_t> on_device(uploaded.lists[s].size());
      ASSERT_TRUE(device_.stream().synchronize().ok());
      ASSERT_TRUE(device_
                      .read(on_device.data(), tables_.data() + uploaded.begins[s],
                            on_device.size() * sizeof(int32_t))
                      .ok());
      ASSERT_EQ(on_device, uploaded.lists[s]) << "sequence " << s;
    }
  }

  /// Bytes of the last upload.
  int64_t bytes() const { return bytes_; }

 private:
  Device& device_;
  PageTables tables_;
  std::array<StepArrays, 2> arrays_;
  int64_t bytes_ = 0;
};

class World {
 public:
  World(uint32_t seed, Device& device) : rng_(seed), uploads_(device) {}

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) operate();
    EXPECT_GT(steps_, operations / 4);
  }

 private:
  uint32_t below(size_t n) { return static_cast<uint32_t>(rng_() % n); }

  void operate() {
    if (sequences_.size() < 3 || (below(4) == 0 && sequences_.size() < 24)) {
      sequences_.push_back(store_->create_sequence());
    }
    const auto at = static_cast<std::ptrdiff_t>(below(sequences_.size()));
    auto& any = sequences_[static_cast<size_t>(at)];
    switch (below(10)) {
      case 0:
        if (sequences_.size() < 24) sequences_.push_back(any->fork());
        break;
      case 1:
        checkpoints_.push_back(any->checkpoint());
        break;
      case 2:
        if (checkpoints_.empty()) break;
        std::swap(checkpoints_[below(checkpoints_.size())], checkpoints_.back());
        any = checkpoints_.back().restore();
        if (below(2) == 0) checkpoints_.pop_back();
        break;
      case 3:
        sequences_.erase(sequences_.begin() + at);
        break;
      default:
        step(sequences_, false);
    }
    if (checkpoints_.size() > 6) checkpoints_.erase(checkpoints_.begin());
  }

  /// A step of some of these sequences, with others between its launches.
  void step(std::vector<std::unique_ptr<state::SequenceState>>& of, bool interleaved) {
    StepPlan plan;
    for (const auto& sequence : of) {
      if (below(3) == 0 || plan.sequences.size() == 8) continue;
      if (sequence->pending_rows() > 0) {
        const auto kept = below(static_cast<size_t>(sequence->pending_rows()) + 1);
        ASSERT_TRUE(sequence->commit(static_cast<int32_t>(kept)).ok());
      }
      SequenceRows rows;
      rows.state = sequence.get();
      rows.tokens.assign(below(4) == 0 ? 1 + below(300) : 1 + below(5), 0);
      rows.revocable = below(3) == 0;
      plan.sequences.push_back(std::move(rows));
    }
    if (plan.sequences.empty()) return;
    auto batch = StepBatch::prepare(plan, *store_, kLimits);
    ASSERT_TRUE(batch.ok()) << batch.error().message;
    if (below(20) == 0) return uploads_.fail(batch->view(), interleaved);
    const Uploaded uploaded = uploads_.upload(batch->view(), interleaved);
    uploads_.expect_on_device(uploaded);
    if (!interleaved && below(8) == 0) {
      std::vector<std::unique_ptr<state::SequenceState>> others;
      for (int i = 0; i < 40; ++i) {
        // Enough new sequences that the lists of old ones are dropped.
        while (others.size() < 8) others.push_back(store_->create_sequence());
        step(others, true);
        for (auto& other : others) {
          if (below(2) == 0) other = others[below(others.size())]->fork();
        }
      }
      uploads_.expect_on_device(uploaded);
    }
    if (below(10) == 0) return;  // the step failed
    batch->finish();
    ++steps_;
  }

  std::mt19937 rng_;
  std::unique_ptr<state::StateStore> store_ = make_store(1 << 16);
  Uploads uploads_;
  std::vector<std::unique_ptr<state::SequenceState>> sequences_;
  std::vector<state::Checkpoint> checkpoints_;
  int steps_ = 0;
};

TEST(PageTables, HoldTheListsOfRandomSequences) {
  const uint32_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const auto& [name, device] : kernels::cuda::test::devices()) {
    SCOPED_TRACE(name);
    World(seed, *device).run(500);
  }
}

TEST(PageTables, ADecodeStepUploadsNoCompleteLists) {
  constexpr int kSequences = 32;
  constexpr int kPositions = 130'000;  // lists do not outgrow a power of two
  constexpr int64_t kBytesOfLists = int64_t{kSequences} * (kPositions / 64 + 1) * 4;
  const auto& [name, device] = kernels::cuda::test::devices().front();
  const auto store = make_store(kSequences * (kPositions / 64 + 2));
  Uploads uploads(*device);
  std::vector<std::unique_ptr<state::SequenceState>> sequences;
  for (int i = 0; i < kSequences; ++i) {
    sequences.push_back(store->create_sequence());
    SequenceRows prompt;
    prompt.state = sequences.back().get();
    prompt.tokens.assign(kPositions, 0);
    auto batch = StepBatch::prepare({{std::move(prompt)}}, *store, kLimits);
    ASSERT_TRUE(batch.ok());
    uploads.expect_on_device(uploads.upload(batch->view(), false));
    batch->finish();
  }
  StepPlan plan;
  for (const auto& sequence : sequences) {
    SequenceRows row;
    row.state = sequence.get();
    row.tokens = {0};
    plan.sequences.push_back(std::move(row));
  }
  int64_t sum = 0;
  constexpr int kSteps = 64;
  for (int i = 0; i < kSteps; ++i) {
    auto batch = StepBatch::prepare(plan, *store, kLimits);
    ASSERT_TRUE(batch.ok());
    uploads.expect_on_device(uploads.upload(batch->view(), false));
    sum += uploads.bytes();
    batch->finish();
  }
  std::printf(
      "bytes uploaded per step of %d sequences of %d positions: %lld; with page lists: %lld\n",
      kSequences, kPositions, static_cast<long long>(sum / kSteps),
      static_cast<long long>(sum / kSteps + kBytesOfLists));
  EXPECT_LT(sum / kSteps, kBytesOfLists / 32);
}

}  // namespace
}  // namespace chimere::model
