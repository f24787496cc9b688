// Compares whole forward passes on a device with the CPU's: decode rows have the same bits, prefill
// rows nearly the same distribution, and a row's bits do not depend on its batch or on graphs.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device_test_data.h"
#include "model/device_plan.h"
#include "model/model.h"
#include "quant/quant.h"
#include "support/family_model.h"
#include "support/synthetic_model.h"

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
  auto writer = test::make_any_model(shape);
  EXPECT_TRUE(writer.ok());
  w.bytes = writer->bytes();
  auto file = gguf::Reader::from_bytes(w.bytes.data(), w.bytes.size());
  EXPECT_TRUE(file.ok());
  w.file = *std::move(file);
  return w;
}

SequenceRows decode_rows(state::SequenceState& s, const Tokens& tokens, Tokens logits_of) {
  SequenceRows rows;
  rows.state = &s;
  rows.tokens = tokens;
  rows.logits_of = std::move(logits_of);
  return rows;
}

/// One chunk with logits of its last row.
SequenceRows prefill_rows(state::SequenceState& s, const Tokens& tokens) {
  const auto n = static_cast<int32_t>(tokens.size());
  SequenceRows rows = decode_rows(s, tokens, {n - 1});
  rows.row_class = RowClass::kPrefill;
  rows.chunks = {n};
  return rows;
}

/// A model and the ops that it runs on.
struct Runner {
  std::unique_ptr<ThreadPool> pool = std::make_unique<ThreadPool>(1);
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<Model> model;

  /// On the CPU if there is no device.
  Runner(const gguf::Reader& file, Device* device, ModelOptions options = {},
         const kernels::cuda::WeightPlacement& places = {}) {
    if (device == nullptr) {
      ops = kernels::make_cpu_ops(*pool);
    } else {
      auto made = kernels::cuda::make_cuda_ops(*device, *pool, places);
      EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
      ops = *std::move(made);
    }
    auto loaded = test::load_any_model(file, *ops, options);
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
    return forward({{prefill_rows(s, tokens)}});
  }
  Logits step(state::SequenceState& s, int32_t token) const {
    return forward({{decode_rows(s, {token}, {0})}});
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

TEST(DeviceModel, DecodeRowsHaveTheBitsOfTheCpu) {
  const Tokens tokens = {3, 60, 17, 17};
  const std::pair<const char*, DType> kinds[] = {
      {"qwen35moe", DType::kQ8_0},     {"qwen35", DType::kF32},     {"qwen3next", DType::kQ5_1},
      {"llama", DType::kQ8_0},         {"granitemoe", DType::kF32}, {test::kSynthetic, DType::kF32},
      {test::kSynthetic, DType::kQ8_0}};
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

TEST(DeviceModel, DecodeRowsOfFamiliesHaveTheBitsOfTheCpu) {
  const Tokens tokens = {3, 60, 17};
  for (const char* architecture : test::kFamilies) {
    test::TinyModel shape = shape_of(architecture, DType::kQ8_0);
    shape.qkv_bias = shape.rope_freqs = shape.architecture == "llama";
    if (shape.architecture.starts_with("nemotron")) shape.n_layers = 3;  // one of each kind
    const Weights w = make_weights(shape);
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

TEST(DeviceModel, BatchedSequencesHaveTheBitsOfEachAlone) {
  for (const std::string architecture :
       {"qwen35moe", "mamba2", "falcon-h1", "jamba", "lfm2", test::kSynthetic}) {
    test::TinyModel shape = shape_of(architecture.c_str(), DType::kQ8_0);
    if (architecture == "mamba2") {  // chunks are multiplied on tensor cores
      shape.state_dim = 128;
      shape.n_layers = 2;
    }
    const Weights w = make_weights(shape);
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
      EXPECT_EQ(run.forward({{decode_rows(*d, {9}, {0}), prefill_rows(*c, kTokens)}}), both)
          << name << ", " << architecture;
      EXPECT_EQ(run.step(*c, 21), next_of_a) << name << ", " << architecture;
    }
  }
}

/// Rows with all logits in a batch with rows that need the top one or several, asynchronous or not.
TEST(DeviceModel, TopKLogitsEqualTheCpus) {
  test::TinyModel shape = shape_of("qwen35moe", DType::kQ8_0);
  shape.n_layers = shape.attention_interval = 2;
  shape.n_mtp_layers = 1;
  shape.n_vocab = 2500;  // two tiles
  const Weights w = make_weights(shape);
  const ModelOptions options = {.drafts = true};
  const auto all_of = [](const Runner& run) {
    std::vector<float> values;
    std::vector<int32_t> ids;
    std::vector<double> sums_of;
    const auto a = run.model->states().create_sequence();
    const auto b = run.model->states().create_sequence();
    const auto c = run.model->states().create_sequence();
    for (int32_t round = 0; round < 7; ++round) {  // launched, then captured, then replayed
      StepPlan plan{{decode_rows(*a, {round, 4}, {1, 0}), decode_rows(*b, {9}, {0}),
                     decode_rows(*c, {1000 + round}, {0})}};
      plan.sequences[0].top = 1;
      plan.sequences[2].top = round < 3 ? 1 : 20;
      // Three rounds without selected ids and log-sum-exp statistics, then three with them.
      if (round >= 4) {
        plan.sequences[0].sums = true;
        plan.sequences[0].selected = {{round, 40, 2400}, {}};
        plan.sequences[2].selected = {{7 + round}};
      }
      plan.update_draft_kv = round == 2;
      const auto result = run.model->forward(plan);
      EXPECT_TRUE(result.ok());
      EXPECT_EQ(result->logits.rows, 1);
      EXPECT_EQ(result->top.rows, 3);
      values.insert(values.end(), result->logits.data, result->logits.data + result->logits.cols);
      for (int64_t row = 0; row < 3; ++row) {
        for (const kernels::TopLogit& t : result->top.row(row)) {
          values.push_back(t.value);
          ids.push_back(t.id);
        }
        std::vector<float> left(static_cast<size_t>(run.model->n_outputs()));
        EXPECT_TRUE(run.model->read_logits(row, left).ok());
        values.insert(values.end(), left.begin(), left.end());
        if (round < 4) continue;
        EXPECT_EQ(result->selected.rows, 3);
        const std::span<float> selected = result->selected.row(row);
        values.insert(values.end(), selected.begin(), selected.end());
        const kernels::LogSumExp& sums = result->sums[row];
        sums_of.insert(sums_of.end(), {sums.e, sums.xe, double{sums.largest}});
      }
    }
    return std::tuple(values, ids, sums_of);
  };
  const auto expected = all_of(Runner(*w.file, nullptr, options));
  EXPECT_EQ(std::get<1>(expected).size(), 3U * (1 + 1 + 1 + 4 * 32));
  for (const auto& [name, device] : kernels::cuda::test::devices()) {
    EXPECT_EQ(all_of(Runner(*w.file, device.get(), options)), expected) << name;
  }
}

TEST(DeviceModel, ExpertsOnTheHostChangeNoBit) {
  for (const char* architecture : {"qwen35moe", test::kSynthetic}) {
    for (const DType type : {DType::kIQ4_NL, DType::kF32}) {
      test::TinyModel shape = shape_of(architecture, type);
      shape.n_layers = shape.attention_interval = 2;
      const Weights w = make_weights(shape);
      for (const auto& [name, device] : kernels::cuda::test::devices()) {
        std::vector<std::vector<Logits>> all;
        for (const int layers : {0, 1, 2}) {
          const Runner run(*w.file, device.get(), {.host_expert_layers = layers});
          auto a = run.model->states().create_sequence();
          auto b = run.model->states().create_sequence();
          std::vector<Logits>& got = all.emplace_back();
          got.push_back(run.chunk(*a, kTokens));
          got.push_back(run.steps(*a, {21, 4, 4, 9}));  // launched, captured, replayed
          got.push_back(
              run.forward({{decode_rows(*a, {7, 8}, {0, 1}), prefill_rows(*b, kTokens)}}));
          got.push_back(run.forward({{prefill_rows(*a, kTokens), decode_rows(*b, {1}, {0})}}));
          if (type == DType::kF32) continue;
          // More rows than one transfer to the host holds.
          Tokens many(70);
          for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int32_t>(i % 60);
          got.push_back(run.forward({{decode_rows(*a, many, {0, 63, 64, 69})}}));
        }
        EXPECT_EQ(all[1], all[0]) << name << ", " << architecture << ", " << dtype_name(type);
        EXPECT_EQ(all[2], all[0]) << name << ", " << architecture << ", " << dtype_name(type);
      }
    }
  }
}

TEST(DeviceModel, RejectedRowsAreRolledBackExactly) {
  for (const char* architecture :
       {"qwen35moe", "granitehybrid", "jamba", "lfm2", test::kSynthetic}) {
    const Weights w = make_weights(shape_of(architecture, DType::kQ8_0));
    for (const auto& [name, device] : kernels::cuda::test::devices()) {
      const Runner run(*w.file, device.get());
      auto alone = run.model->states().create_sequence();
      const Logits expected = run.steps(*alone, {1, 2, 3, 4});
      auto s = run.model->states().create_sequence();
      for (int32_t round = 0; round < 3; ++round) {  // launched, then captured, then replayed
        const int64_t first_steps = run.model->first_steps();
        auto draft = s->fork();
        SequenceRows rows = decode_rows(*draft, {1, 2, 60}, {0, 1});
        rows.revocable = true;
        const Logits first = run.forward({{rows}});
        EXPECT_TRUE(std::equal(first.begin(), first.end(), expected.begin()))
            << name << ", " << architecture;
        ASSERT_TRUE(draft->commit(2).ok());
        const Logits rest = run.steps(*draft, {3, 4});
        EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), expected.rbegin()))
            << name << ", " << architecture;
        EXPECT_EQ(run.model->first_steps() > first_steps, round < 2);
      }
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

/// Prefill rows of a GPU round activations to f16, those of the CPU to 8 bits: the reference for
/// both is the model without rounded activations.
TEST(DeviceModel, ChunksAreCloseToTheModelInF32) {
  for (const char* architecture : {"qwen35moe", "falcon-h1", "jamba", test::kSynthetic}) {
    for (const DType type : {DType::kF32, DType::kQ8_0, DType::kQ5_1}) {
      const test::TinyModel shape = shape_of(architecture, type);
      const Weights w = make_weights(shape);
      const Weights exact = decoded(w, shape);
      const Runner cpu(*exact.file, nullptr);
      const Logits expected = cpu.chunk(*cpu.model->states().create_sequence(), kTokens);
      for (const auto& [name, device] : kernels::cuda::test::devices()) {
        const Runner run(*w.file, device.get());
        const Logits got = run.chunk(*run.model->states().create_sequence(), kTokens);
        ASSERT_EQ(got.size(), expected.size());
        // Measured: 5e-10, 2e-6 and 3e-5 for these files; rounding to 8 bits gives 3e-3 and more.
        EXPECT_LT(divergence_of(expected, got), type == DType::kF32 ? 1e-7 : 3e-4)
            << name << ", " << architecture << ", " << dtype_name(type);
      }
    }
  }
}

TEST(DeviceModel, StatesRoundTripThroughHostMemory) {
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
    // The CPU's chunks have other bits, so its states must not be accepted.
    const Runner cpu(*w.file, nullptr, options);
    EXPECT_FALSE(cpu.model->states().from_blob(blob).ok());
  }
}

test::TinyModel shape_with_drafts(const char* architecture, DType type) {
  test::TinyModel shape = shape_of(architecture, type);
  shape.n_layers = shape.attention_interval = 2;
  shape.n_mtp_layers = 1;
  return shape;
}

constexpr ModelOptions kWithDrafts = {.drafts = true};

SequenceRows revocable_rows(state::SequenceState& s, const Tokens& tokens) {
  SequenceRows rows = decode_rows(s, tokens, {0});
  rows.revocable = true;
  return rows;
}

/// Logits of all drafts after `token`, in a chain that continues with `follow` in any case.
Logits draft(const Runner& run, state::SequenceState& s, int32_t token, const Tokens& follow) {
  Logits all;
  const DraftStart start[] = {{&s, token}};
  size_t depth = 0;
  const Status status = run.model->draft(start, static_cast<int>(follow.size()),
                                         [&](size_t /*i*/, std::span<const float> logits) {
                                           all.insert(all.end(), logits.begin(), logits.end());
                                           return follow[depth++];
                                         });
  EXPECT_TRUE(status.ok()) << status.error().message;
  return all;
}

/// Drafts after steps of all kinds: single and several rows, asynchronous or not, accepted and
/// rejected, in a batch, with forks.
Logits drafts_of_step_rows(const Runner& run) {
  state::StateStore& store = run.model->states();
  const auto s = store.create_sequence();
  const auto other = store.create_sequence();
  Logits all;
  const auto draft_of = [&](state::SequenceState& state) {
    const Logits drafts = draft(run, state, 7, {1, 60});
    all.insert(all.end(), drafts.begin(), drafts.end());
  };
  for (const int32_t t : {3, 60, 17}) run.forward({{decode_rows(*s, {t}, {0})}, true});
  draft_of(*s);
  run.forward({{decode_rows(*s, {5, 9}, {1}), decode_rows(*other, {8, 8, 2}, {})}, true});
  draft_of(*other);
  run.forward({{decode_rows(*s, {5}, {0})}});  // without an update of the MTP head's KV
  draft_of(*s);
  for (const int32_t keep : {3, 1, 0}) {
    run.forward({{revocable_rows(*s, {4, 11, 27}), decode_rows(*other, {1}, {0})}, true});
    EXPECT_TRUE(s->commit(keep).ok());
    draft_of(*s);
  }
  const auto fork = s->fork();
  draft(run, *fork, 3, {2, 2});
  run.forward({{decode_rows(*fork, {19}, {})}, true});
  draft_of(*s);
  draft_of(*fork);
  const auto back = store.from_blob(s->checkpoint().to_blob());
  EXPECT_TRUE(back.ok());
  draft_of(**back);
  return all;
}

TEST(DeviceModel, DraftsOfDecodeRowsHaveTheBitsOfTheCpu) {
  const std::pair<const char*, DType> kinds[] = {
      {"qwen35moe", DType::kQ8_0}, {"qwen35", DType::kF32}, {"qwen3next", DType::kQ5_1}};
  for (const auto& [architecture, type] : kinds) {
    test::TinyModel shape = shape_with_drafts(architecture, type);
    shape.mtp_tables = type == DType::kQ5_1;
    const Weights w = make_weights(shape);
    const Logits expected = drafts_of_step_rows(Runner(*w.file, nullptr, kWithDrafts));
    EXPECT_EQ(expected.size(), 9U * 2U * 64U);
    for (const auto& [name, device] : kernels::cuda::test::devices()) {
      for (const int on_host : {0, 2}) {  // layers with experts on the host, except the MTP head
        const auto& devices = kernels::cuda::test::devices();
        if (devices.size() > 1 && (device == devices.back().device) != (on_host > 0)) continue;
        ModelOptions options = kWithDrafts;
        options.host_expert_layers = on_host;
        const Runner run(*w.file, device.get(), options);
        EXPECT_TRUE(run.model->has_drafts());
        EXPECT_EQ(drafts_of_step_rows(run), expected) << name << ", " << architecture;
      }
    }
  }
}

TEST(DeviceModel, DraftsChangeNoBitOfTheModel) {
  const Weights w = make_weights(shape_with_drafts("qwen35moe", DType::kQ8_0));
  for (const auto& [name, device] : kernels::cuda::test::devices()) {
    const Runner with(*w.file, device.get(), kWithDrafts);
    const Runner without(*w.file, device.get());
    EXPECT_FALSE(without.model->has_drafts());
    const auto a = with.model->states().create_sequence();
    const auto b = without.model->states().create_sequence();
    for (int32_t i = 0; i < 3; ++i) {  // launched, then captured, then replayed
      for (const bool update_draft_kv : {true, false}) {
        EXPECT_EQ(with.forward({{prefill_rows(*a, {3, 1, i})}, update_draft_kv}),
                  without.chunk(*b, {3, 1, i}))
            << name;
        EXPECT_EQ(with.forward({{decode_rows(*a, {i, 9}, {1, 0})}, update_draft_kv}),
                  without.forward({{decode_rows(*b, {i, 9}, {1, 0})}}))
            << name;
        draft(with, *a, 5, {1, 2});
        EXPECT_EQ(with.step(*a, 21), without.step(*b, 21)) << name;
      }
    }
  }
}

TEST(DeviceModel, DraftChainsOfDifferentLengthsAreThoseOfEachAlone) {
  const Weights w = make_weights(shape_with_drafts("qwen35moe", DType::kQ8_0));
  for (const auto& [name, device] : kernels::cuda::test::devices()) {
    const Runner run(*w.file, device.get(), kWithDrafts);
    std::vector<std::unique_ptr<state::SequenceState>> states;
    std::vector<DraftStart> starts;
    std::vector<Logits> alone;
    for (int32_t i = 0; i < 4; ++i) {
      states.push_back(run.model->states().create_sequence());
      run.forward({{decode_rows(*states.back(), {i, 3, 40 + i}, {})}, true});
      starts.push_back({states.back().get(), 10 + i});
      alone.push_back(draft(run, *states.back(), 10 + i, {1, 2, 3}));
    }
    const size_t depths[] = {3, 1, 2, 3};
    for (int round = 0; round < 3; ++round) {
      std::vector<Logits> together(4);
      const Status status =
          run.model->draft(starts, 3, [&](size_t i, std::span<const float> logits) {
            together[i].insert(together[i].end(), logits.begin(), logits.end());
            const size_t depth = together[i].size() / logits.size();
            return depth == depths[i] ? -1 : static_cast<int32_t>(depth);
          });
      ASSERT_TRUE(status.ok()) << status.error().message;
      for (size_t i = 0; i < 4; ++i) {
        alone[i].resize(std::min(alone[i].size(), depths[i] * 64));
        EXPECT_EQ(together[i], alone[i]) << name << ", chain " << i << ", round " << round;
      }
    }
  }
}

/// Drafts after a prompt use the device's own prefill rows, so they are only close to the f32
/// model's.
TEST(DeviceModel, DraftsAfterPrefillAreCloseToTheModelInF32) {
  for (const DType type : {DType::kF32, DType::kQ8_0}) {
    const test::TinyModel shape = shape_with_drafts("qwen35moe", type);
    const Weights w = make_weights(shape);
    const Weights exact = decoded(w, shape);
    const auto first_draft = [&](const Runner& run) {
      const auto s = run.model->states().create_sequence();
      run.forward({{prefill_rows(*s, kTokens)}, true});
      return draft(run, *s, 7, {-1});
    };
    const Logits expected = first_draft(Runner(*exact.file, nullptr, kWithDrafts));
    for (const auto& [name, device] : kernels::cuda::test::devices()) {
      const Logits got = first_draft(Runner(*w.file, device.get(), kWithDrafts));
      ASSERT_EQ(got.size(), expected.size());
      // The MTP head's own row is a decode row, whose activations are rounded to 8 bits.
      EXPECT_LT(divergence_of(expected, got), type == DType::kF32 ? 1e-6 : 1e-2)
          << name << ", " << dtype_name(type);
    }
  }
}

TEST(DeviceModel, ThePlanCountsTheMtpHead) {
  for (const char* architecture : {"qwen35moe", "qwen35"}) {
    test::TinyModel shape = shape_with_drafts(architecture, DType::kQ8_0);
    shape.mtp_tables = shape.architecture == "qwen35";
    const Weights w = make_weights(shape);
    shape.n_mtp_layers = 0;
    const Weights plain = make_weights(shape);
    const auto plan_of = [](const Weights& of, bool drafts) {
      const Runner on_host(*of.file, nullptr, {.drafts = drafts});
      return plan_for_device(*of.file, *on_host.model, 4096, 3, 512, 64);
    };
    const DevicePlan with = plan_of(w, true);
    const DevicePlan without = plan_of(w, false);
    EXPECT_EQ(without.weights, plan_of(plain, false).weights) << architecture;
    EXPECT_EQ(without.drafts_total(), 0);
    EXPECT_EQ(with.experts, without.experts);
    EXPECT_EQ(with.weights - without.weights, with.drafts.weights);
    EXPECT_EQ(with.kv - without.kv, with.drafts.kv);
    EXPECT_EQ(with.state - without.state, with.drafts.state);
    int64_t in_file = 0;
    for (const gguf::TensorInfo& t : w.file->tensors()) {
      if (t.name.ends_with("embed_tokens.weight")) continue;  // stays on the host
      if (t.name.starts_with("blk.2.")) in_file += static_cast<int64_t>(t.bytes);
    }
    EXPECT_GE(with.drafts.weights, in_file) << architecture;
    EXPECT_LT(with.drafts.weights, in_file + in_file / 4) << architecture;  // rows of 68 take 80
    const DevicePlan dropped = with.without_drafts();
    EXPECT_EQ(dropped.weights + dropped.kv + dropped.state,
              without.weights + without.kv + without.state);
  }
}

TEST(DeviceModel, UnpackedWeightsChangeNoBitAndTakeThePlannedMemory) {
  test::TinyModel shape = shape_of("qwen35moe", DType::kIQ3_S);
  shape.n_embd = shape.n_ff = shape.n_ff_shared = 256;
  const Weights w = make_weights(shape);
  const Runner on_host(*w.file, nullptr);
  DevicePlan plan = plan_for_device(*w.file, *on_host.model, 4096, 3, 512, 64);
  const int64_t narrow = plan.total();
  EXPECT_GT(plan.unpacking_bytes, plan.weights / 8);
  plan.unpack(narrow + plan.unpacking_bytes);
  EXPECT_FALSE(plan.unpacked) << "no memory would be left for more sequences";
  plan.unpack(2 * (narrow + plan.unpacking_bytes));
  EXPECT_TRUE(plan.unpacked);
  EXPECT_EQ(plan.total(), narrow + plan.unpacking_bytes);
  for (const auto& [name, device] : kernels::cuda::test::devices()) {
    const int64_t before = device->account().used();
    const Runner run(*w.file, device.get());
    const auto s = run.model->states().create_sequence();
    const Logits steps = run.steps(*s, {1, 2, 3});
    const Logits chunk = run.chunk(*s, kTokens);
    const int64_t used = device->account().used() - before;

    const Runner unpacked(*w.file, device.get(), {}, {.unpacked = true});
    const auto t = unpacked.model->states().create_sequence();
    EXPECT_EQ(unpacked.steps(*t, {1, 2, 3}), steps) << name;
    EXPECT_EQ(unpacked.chunk(*t, kTokens), chunk) << name;
    EXPECT_LE(device->account().used() - before - used, plan.total()) << name;
  }
}

TEST(DeviceModel, ReportsUploadProgress) {
  for (const char* const architecture : {"qwen35moe", "qwen3"}) {
    const Weights w = make_weights(shape_of(architecture, DType::kQ8_0));
    const Runner on_host(*w.file, nullptr);
    const DevicePlan plan = plan_for_device(*w.file, *on_host.model, 4096, 3, 512, 64);
    ThreadPool pool(1);
    for (const auto& [name, device] : kernels::cuda::test::devices()) {
      int64_t reported = 0;
      int times = 0;
      const auto ops = kernels::cuda::make_cuda_ops(*device, pool, {}, [&](int64_t bytes) {
        EXPECT_GT(bytes, reported);
        reported = bytes;
        ++times;
      });
      ASSERT_TRUE(ops.ok()) << ops.error().message;
      const auto model = load_model(*w.file, **ops, {});
      ASSERT_TRUE(model.ok());
      EXPECT_GT(times, 20) << name;
      // The plan counts a few tensors that stay on the host, and pads others.
      EXPECT_LE(reported, plan.weights + plan.weights / 100) << name;
      EXPECT_GE(reported, plan.weights - plan.weights / 10) << name;
    }
  }
}

TEST(DeviceModel, TakesNoMoreMemoryThanPlannedAndAllowed) {
  for (const bool synthetic : {false, true}) {
    const Weights w = make_weights(synthetic ? shape_of(test::kSynthetic, DType::kQ8_0)
                                             : shape_with_drafts("qwen35moe", DType::kQ8_0));
    const Runner cpu(*w.file, nullptr);
    for (const auto& [name, device] : kernels::cuda::test::devices()) {
      kernels::cuda::MemoryAccount& account = device->account();
      const int64_t before = account.used();
      for (const bool drafts : {false, true}) {
        if (drafts && synthetic) continue;
        const ModelOptions options = {.drafts = drafts};
        const Runner on_host(*w.file, nullptr, options);
        const DevicePlan plan = plan_for_device(*w.file, *on_host.model, 4096, 3, 512, 64);
        const Runner run(*w.file, device.get(), options);
        const auto s = run.model->states().create_sequence();
        run.steps(*s, {1, 2, 3});
        run.forward({{prefill_rows(*s, kTokens)}, drafts});
        if (drafts) draft(run, *s, 1, {2, 3, 4});
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
}

}  // namespace
}  // namespace chimere::model
