// Whole forward passes on a device beside the CPU's: step rows have the same bits, chunk rows
// nearly the same distribution, and a row's bits do not depend on its company or on recording.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device_test_data.h"
#include "model/device_plan.h"
#include "model/model.h"
#include "quant/quant.h"
#include "support/tiny_model.h"

namespace chimere::model {
namespace {

using kernels::cuda::Device;
using Tokens = std::vector<int32_t>;
using Logits = std::vector<float>;

struct Weights {
  std::vector<uint8_t> bytes;
  std::unique_ptr<gguf::Reader> file;
};

Weights make_weights(const test::TinyModel& shape) {
  Weights w;
  auto writer = test::make_tiny_model(shape);
  EXPECT_TRUE(writer.ok());
  w.bytes = writer->bytes();
  auto file = gguf::Reader::from_bytes(w.bytes.data(), w.bytes.size());
  EXPECT_TRUE(file.ok());
  w.file = *std::move(file);
  return w;
}

SequenceRows step_rows(state::SequenceState& s, const Tokens& tokens, Tokens logits_of) {
  SequenceRows rows;
  rows.state = &s;
  rows.tokens = tokens;
  rows.logits_of = std::move(logits_of);
  return rows;
}

/// One chunk, whose last row's logits are wanted.
SequenceRows chunk_rows(state::SequenceState& s, const Tokens& tokens) {
  const auto n = static_cast<int32_t>(tokens.size());
  SequenceRows rows = step_rows(s, tokens, {n - 1});
  rows.row_class = RowClass::kChunk;
  rows.chunks = {n};
  return rows;
}

/// Ops and the model that runs on them.
struct Runner {
  std::unique_ptr<ThreadPool> pool = std::make_unique<ThreadPool>(1);
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<Model> model;

  /// On the CPU if there is no device.
  Runner(const gguf::Reader& file, Device* device, ModelOptions options = {}) {
    if (device == nullptr) {
      ops = kernels::make_cpu_ops(*pool);
    } else {
      auto made = kernels::cuda::make_cuda_ops(*device, *pool);
      EXPECT_TRUE(made.ok());
      ops = *std::move(made);
    }
    auto loaded = load_model(file, *ops, options);
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
    model = *std::move(loaded);
  }

  Logits forward(const StepPlan& plan) const {
    const auto result = model->forward(plan);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    if (!result.ok()) return {};
    const ConstMatrixView& l = result->logits;
    return {l.data, l.data + l.rows * l.cols};
  }

  /// Logits of the last row.
  Logits chunk(state::SequenceState& s, const Tokens& tokens) const {
    return forward({{chunk_rows(s, tokens)}});
  }
  Logits step(state::SequenceState& s, int32_t token) const {
    return forward({{step_rows(s, {token}, {0})}});
  }
  /// Logits of all of them, one step each.
  Logits steps(state::SequenceState& s, const Tokens& tokens) const {
    Logits all;
    for (const int32_t t : tokens) {
      const Logits l = step(s, t);
      all.insert(all.end(), l.begin(), l.end());
    }
    return all;
  }
};

test::TinyModel shape_of(const char* architecture, DType type) {
  test::TinyModel shape;
  shape.architecture = architecture;
  shape.experts = shape.mixers = shape.head = shape.embedding = type;
  return shape;
}

const Tokens kTokens = {3, 60, 17, 17, 0, 42, 8, 31, 5, 5, 12};

TEST(DeviceModel, StepRowsHaveTheBitsOfTheCpu) {
  const Tokens tokens = {3, 60, 17, 17};
  const std::pair<const char*, DType> kinds[] = {
      {"qwen35moe", DType::kQ8_0}, {"qwen35", DType::kF32}, {"qwen3next", DType::kQ5_1}};
  for (const auto& [architecture, type] : kinds) {
    const Weights w = make_weights(shape_of(architecture, type));
    const Runner cpu(*w.file, nullptr);
    const auto on_cpu = cpu.model->states().create_sequence();
    const Logits expected = cpu.steps(*on_cpu, tokens);
    for (const auto& [name, device] : kernels::cuda::test::devices()) {
      const Runner run(*w.file, device.get());
      const auto s = run.model->states().create_sequence();
      EXPECT_EQ(run.steps(*s, tokens), expected) << name << ", " << architecture;
    }
  }
}

TEST(DeviceModel, ManySequencesInAStepHaveTheBitsOfEachAlone) {
  const Weights w = make_weights(shape_of("qwen35moe", DType::kQ8_0));
  for (const auto& [name, device] : kernels::cuda::test::devices()) {
    const Runner run(*w.file, device.get());
    auto a = run.model->states().create_sequence();
    auto b = run.model->states().create_sequence();
    const Logits chunk_of_a = run.chunk(*a, kTokens);
    const Logits step_of_b = run.step(*b, 9);
    const Logits next_of_a = run.step(*a, 21);

    auto c = run.model->states().create_sequence();
    auto d = run.model->states().create_sequence();
    Logits both = step_of_b;
    both.insert(both.end(), chunk_of_a.begin(), chunk_of_a.end());
    EXPECT_EQ(run.forward({{step_rows(*d, {9}, {0}), chunk_rows(*c, kTokens)}}), both) << name;
    EXPECT_EQ(run.step(*c, 21), next_of_a) << name;
  }
}

TEST(DeviceModel, RevocableRowsComeBackWithoutATrace) {
  const Weights w = make_weights(shape_of("qwen35moe", DType::kQ8_0));
  for (const auto& [name, device] : kernels::cuda::test::devices()) {
    const Runner run(*w.file, device.get());
    auto alone = run.model->states().create_sequence();
    const Logits expected = run.steps(*alone, {1, 2, 3, 4});
    auto s = run.model->states().create_sequence();
    for (int32_t round = 0; round < 3; ++round) {  // run, then recorded, then replayed
      auto draft = s->fork();
      SequenceRows rows = step_rows(*draft, {1, 2, 60}, {0, 1});
      rows.revocable = true;
      const Logits first = run.forward({{rows}});
      EXPECT_TRUE(std::equal(first.begin(), first.end(), expected.begin())) << name;
      ASSERT_TRUE(draft->commit(2).ok());
      const Logits rest = run.steps(*draft, {3, 4});
      EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), expected.rbegin())) << name;
    }
  }
}

/// The f32 model whose weights are those of `quantised`, a model of the same shape.
Weights decoded(const Weights& quantised, test::TinyModel shape) {
  shape.experts = shape.mixers = shape.head = shape.embedding = DType::kF32;
  Weights w = make_weights(shape);
  for (const gguf::TensorInfo& from : quantised.file->tensors()) {
    const gguf::TensorInfo* to = w.file->find_tensor(from.name);
    EXPECT_EQ(to->type, DType::kF32);
    int64_t n = 1;
    for (const int64_t d : from.dims) n *= d;
    uint8_t* const at = w.bytes.data() + (static_cast<const uint8_t*>(to->data) - w.bytes.data());
    quant::decode(from.type, from.data, reinterpret_cast<float*>(at), n);
  }
  return w;
}

/// Kullback-Leibler divergence of the distributions of two rows of logits.
double divergence_of(const Logits& want, const Logits& got) {
  double sum_p = 0;
  double sum_q = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    sum_p += std::exp(double{want[i]});
    sum_q += std::exp(double{got[i]});
  }
  double divergence = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double p = std::exp(double{want[i]}) / sum_p;
    divergence += p * (double{want[i]} - std::log(sum_p) - double{got[i]} + std::log(sum_q));
  }
  return divergence;
}

/// Chunk rows of a card round activations to f16, those of the CPU to bytes: what they are compared
/// with is the model without rounded activations.
TEST(DeviceModel, ChunksAreCloseToTheModelInF32) {
  for (const DType type : {DType::kF32, DType::kQ8_0, DType::kQ5_1}) {
    const test::TinyModel shape = shape_of("qwen35moe", type);
    const Weights w = make_weights(shape);
    const Weights exact = decoded(w, shape);
    const Runner cpu(*exact.file, nullptr);
    const Logits expected = cpu.chunk(*cpu.model->states().create_sequence(), kTokens);
    for (const auto& [name, device] : kernels::cuda::test::devices()) {
      const Runner run(*w.file, device.get());
      const Logits got = run.chunk(*run.model->states().create_sequence(), kTokens);
      ASSERT_EQ(got.size(), expected.size());
      // These files' roundings make 5e-10, 2e-6 and 3e-5; rounding to bytes makes 3e-3 and more.
      EXPECT_LT(divergence_of(expected, got), type == DType::kF32 ? 1e-7 : 3e-4)
          << name << ", " << dtype_name(type);
    }
  }
}

TEST(DeviceModel, StatesLeaveTheDeviceAndComeBack) {
  const Weights w = make_weights(shape_of("qwen35moe", DType::kF32));
  for (const auto& [name, device] : kernels::cuda::test::devices()) {
    ModelOptions options;
    options.cache_k = DType::kQ8_0;
    options.cache_v = DType::kQ4_0;
    const Runner run(*w.file, device.get(), options);
    auto s = run.model->states().create_sequence();
    run.chunk(*s, kTokens);
    const std::vector<uint8_t> blob = s->checkpoint().to_blob();
    const Logits expected = run.steps(*s, {7, 8});
    auto back = run.model->states().from_blob(blob);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(run.steps(**back, {7, 8}), expected) << name;
    // The CPU's chunks have other bits: its states are not taken for ours.
    const Runner cpu(*w.file, nullptr, options);
    EXPECT_FALSE(cpu.model->states().from_blob(blob).ok());
  }
}

TEST(DeviceModel, TakesNoMoreMemoryThanPlannedAndAllowed) {
  const Weights w = make_weights(shape_of("qwen35moe", DType::kQ8_0));
  const Runner cpu(*w.file, nullptr);
  const DevicePlan plan = plan_for_device(*w.file, *cpu.model, 4096, 3, 512, 64);
  for (const auto& [name, device] : kernels::cuda::test::devices()) {
    kernels::cuda::MemoryAccount& account = device->account();
    const int64_t before = account.used();
    {
      const Runner run(*w.file, device.get());
      run.steps(*run.model->states().create_sequence(), {1, 2, 3});
      EXPECT_LE(account.used() - before, plan.total()) << name;
      EXPECT_GT(account.used(), before) << name;
    }
    EXPECT_EQ(account.used(), before) << name;

    account.set_limit(before + (1 << 20));
    const auto refused = kernels::cuda::make_cuda_ops(*device, *cpu.pool);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, Error::Code::kOutOfMemory);
    EXPECT_EQ(account.used(), before) << name;
    account.set_limit(std::numeric_limits<int64_t>::max());
  }
}

}  // namespace
}  // namespace chimere::model
