#include "model/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "model/model.h"
#include "support/family_model.h"
#include "support/model_runner.h"
#include "support/tiny_adapter.h"

namespace chimere::model {
namespace {

using kernels::AdapterUse;
using test::Runner;
using test::TinyAdapter;
using test::TinyModel;
using testing::HasSubstr;

constexpr int kTokens = 48;

std::vector<uint8_t> model_bytes(const std::string& architecture, uint64_t seed,
                                 const std::function<void(TinyModel&)>& change = {}) {
  TinyModel m;
  m.architecture = architecture;
  m.seed = seed;
  m.n_vocab = kTokens;
  m.n_layers = 3;
  m.attention_interval = 3;
  if (test::is_family(architecture)) {
    m.n_embd = 32;
    m.head_dim = 16;
    m.n_v_heads = 6;
  }
  if (change) change(m);
  auto writer = test::make_tiny_model(m);
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  return writer->bytes();
}

std::vector<uint8_t> adapter_bytes(const Runner& runner, const TinyAdapter& adapter) {
  auto writer = test::make_tiny_adapter(adapter, runner.model->architecture(),
                                        runner.model->adapter_targets());
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  return writer->bytes();
}

Result<Adapter> read(const Runner& runner, const std::vector<uint8_t>& bytes) {
  CHIMERE_TRY(const auto file, gguf::Reader::from_bytes(bytes.data(), bytes.size()));
  return read_adapter(*file, runner.model->architecture(), runner.model->adapter_targets());
}

int32_t add(const Runner& runner, const std::vector<uint8_t>& bytes) {
  Result<Adapter> adapter = read(runner, bytes);
  EXPECT_TRUE(adapter.ok()) << adapter.error().message;
  const Result<int32_t> number = runner.model->add_adapter(std::move(adapter).value());
  EXPECT_TRUE(number.ok()) << number.error().message;
  return *number;
}

/// Logits of a prompt as prefill rows and of decode rows after it.
std::vector<float> answer_with(const Runner& runner, const std::vector<AdapterUse>& uses,
                               const std::vector<int32_t>& prompt,
                               const std::vector<int32_t>& continuation) {
  const auto state = runner.model->states().create_sequence();
  std::vector<float> all;
  for (const auto& [tokens, row_class] :
       {std::pair(prompt, RowClass::kPrefill), {continuation, RowClass::kDecode}}) {
    SequenceRows rows = test::rows_of(*state, tokens, row_class);
    rows.adapters = uses;
    const std::vector<float> logits = test::values(runner.model->forward({{rows}}));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

/// The largest KL divergence between the distributions of two lists of logits.
double divergence(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t row = 0; row + kTokens <= a.size(); row += kTokens) {
    const auto log_softmax = [row](const std::vector<float>& v) {
      double sum = 0;
      for (size_t i = 0; i < kTokens; ++i) sum += std::exp(static_cast<double>(v[row + i]));
      std::vector<double> out;
      for (size_t i = 0; i < kTokens; ++i) {
        out.push_back(static_cast<double>(v[row + i]) - std::log(sum));
      }
      return out;
    };
    const std::vector<double> p = log_softmax(a);
    const std::vector<double> q = log_softmax(b);
    double kl = 0;
    for (size_t i = 0; i < kTokens; ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
    most = std::max(most, kl);
  }
  return most;
}

class AdapterOf : public testing::TestWithParam<const char*> {};

/// An adapter that changes every matrix of an f32 model acts as the model with the change added to
/// its weights, and has the oracle's bits.
TEST_P(AdapterOf, ActsAsTheMergedWeights) {
  const auto seed = static_cast<unsigned>(fresh_seed());
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  const std::vector<uint8_t> bytes = model_bytes(GetParam(), seed);
  const Runner cpu(bytes);
  const Runner ref(bytes, kernels::make_ref_ops());
  ASSERT_NE(cpu.model, nullptr) << cpu.error.message;
  const auto adapter = adapter_bytes(cpu, {.seed = seed + 1, .rank = 5, .size = 0.3F});
  const std::vector<AdapterUse> uses = {{add(cpu, adapter), 0.5F}};
  ASSERT_EQ(add(ref, adapter), uses[0].adapter);
  const auto prompt = test::random_tokens(rng, kTokens, 1 + rng() % 30);
  const auto continuation = test::random_tokens(rng, kTokens, 3);
  const std::vector<float> got = answer_with(cpu, uses, prompt, continuation);
  EXPECT_EQ(got, answer_with(ref, uses, prompt, continuation));
  const Runner whole(test::merged(bytes, adapter, 0.5));
  EXPECT_LE(divergence(answer_with(whole, {}, prompt, continuation), got), 1e-6);
  EXPECT_GT(divergence(answer_with(cpu, {}, prompt, continuation), got), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Architectures, AdapterOf,
                         testing::Values("qwen35moe", "qwen35", "qwen3next", "qwen3moe", "llama",
                                         "granitehybrid", "nemotron_h_moe", "falcon-h1", "jamba",
                                         "lfm2", "gpt-oss"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

TEST(Adapter, FusedTensorsAreChangedInTheFilesOrder) {
  for (const char* architecture : {"qwen3next", "llama"}) {
    const std::vector<uint8_t> bytes = model_bytes(architecture, 3, [](TinyModel& m) {
      m.fused_attention = m.architecture == "llama";
      m.fused_ba = m.fused_in = m.fused_gate_up = m.architecture == "qwen3next";
    });
    const Runner runner(bytes);
    ASSERT_NE(runner.model, nullptr) << runner.error.message;
    const auto adapter = adapter_bytes(runner, {.seed = 4, .size = 0.3F});
    const std::vector<AdapterUse> uses = {{add(runner, adapter), 1}};
    const Runner whole(test::merged(bytes, adapter, 1));
    EXPECT_LE(divergence(answer_with(whole, {}, {1, 2, 3, 4}, {5, 6}),
                         answer_with(runner, uses, {1, 2, 3, 4}, {5, 6})),
              1e-6)
        << architecture;
  }
}

/// Sequences with different adapters, several at once and none, in one step and alone.
TEST(Adapter, BitsDoNotDependOnTheBatch) {
  const auto seed = static_cast<unsigned>(fresh_seed());
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  const std::vector<uint8_t> bytes = model_bytes("qwen35moe", seed, [](TinyModel& m) {
    m.experts = m.mixers = m.embedding = m.head = DType::kQ8_0;
  });
  const Runner runner(bytes);
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  std::vector<int32_t> numbers;
  for (uint64_t a = 0; a < 4; ++a) {
    const DType type = a % 2 == 0 ? DType::kF16 : DType::kF32;
    numbers.push_back(add(runner, adapter_bytes(runner, {.seed = seed + a,
                                                         .rank = 2 + 9 * static_cast<int>(a),
                                                         .size = 0.3F,
                                                         .type = type})));
  }
  const std::vector<std::vector<AdapterUse>> of_sequence = {
      {}, {{numbers[0], 1}}, {{numbers[3], 0.5F}, {numbers[1], -1}}, {{numbers[0], 0.25F}}, {}};
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::unique_ptr<state::SequenceState>> states;
  StepPlan plan;
  for (const auto& uses : of_sequence) {
    tokens.push_back(test::random_tokens(rng, kTokens, 1 + rng() % 20));
    states.push_back(runner.model->states().create_sequence());
    plan.sequences.push_back(test::rows_of(*states.back(), tokens.back(), RowClass::kPrefill));
    plan.sequences.back().adapters = uses;
    plan.sequences.back().logits_of = {static_cast<int32_t>(tokens.back().size()) - 1};
  }
  const std::vector<float> together = test::values(runner.model->forward(plan));
  for (size_t s = 0; s < of_sequence.size(); ++s) {
    const auto state = runner.model->states().create_sequence();
    SequenceRows rows = test::rows_of(*state, tokens[s], RowClass::kPrefill);
    rows.adapters = of_sequence[s];
    rows.logits_of = {static_cast<int32_t>(tokens[s].size()) - 1};
    const std::vector<float> alone = test::values(runner.model->forward({{rows}}));
    const auto begin = together.begin() + static_cast<std::ptrdiff_t>(s) * kTokens;
    EXPECT_EQ(alone, std::vector<float>(begin, begin + kTokens)) << "sequence " << s;
  }
}

class RefusedAdapter : public testing::Test {
 protected:
  std::string refusal(const std::function<void(gguf::Writer&)>& change) {
    auto writer = test::make_tiny_adapter({}, runner_.model->architecture(), targets_);
    EXPECT_TRUE(writer.ok());
    change(*writer);
    const Result<Adapter> read_result = read(runner_, writer->bytes());
    return read_result.ok() ? "accepted" : read_result.error().message;
  }

  Runner runner_{model_bytes("llama", 1)};
  std::vector<AdapterTarget> targets_{runner_.model->adapter_targets().begin(),
                                      runner_.model->adapter_targets().end()};
};

TEST_F(RefusedAdapter, NamesWhatIsWrong) {
  EXPECT_EQ(refusal([](gguf::Writer&) {}), "accepted");
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.set_string("general.type", "model"); }),
              HasSubstr("not an adapter"));
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.set_string("adapter.type", "ia3"); }),
              HasSubstr("ia3"));
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.set_string("general.architecture", "qwen2"); }),
              HasSubstr("qwen2"));
  EXPECT_THAT(refusal([](gguf::Writer& w) {
                w.set_f32("adapter.lora.alpha", std::numeric_limits<float>::infinity());
              }),
              HasSubstr("adapter.lora.alpha"));
  const std::vector<float> zeros(4096);
  const auto tensor = [&](const char* name, std::vector<int64_t> dims) {
    return [&zeros, name, dims = std::move(dims)](gguf::Writer& w) {
      uint64_t bytes = sizeof(float);
      for (const int64_t d : dims) bytes *= static_cast<uint64_t>(d);
      EXPECT_TRUE(w.add_tensor(name, dims, DType::kF32, zeros.data(), bytes).ok());
    };
  };
  EXPECT_THAT(refusal(tensor("blk.9.attn_q.weight.lora_a", {32, 4})),
              HasSubstr("blk.9.attn_q.weight.lora_b"));
  EXPECT_THAT(refusal(tensor("blk.0.attn_q.weight", {32, 32})), HasSubstr("blk.0.attn_q.weight"));
  EXPECT_THAT(refusal([&](gguf::Writer& w) {
                tensor("token_embd.weight.lora_a", {32, 4})(w);
                tensor("token_embd.weight.lora_b", {4, kTokens})(w);
              }),
              HasSubstr("token_embd.weight"));
}

TEST_F(RefusedAdapter, OfOtherShapes) {
  targets_[0].n_in *= 2;
  EXPECT_THAT(refusal([](gguf::Writer&) {}), HasSubstr(targets_[0].tensor));
  targets_[0].n_in /= 2;
  targets_[0].part_rows += 1;
  EXPECT_THAT(refusal([](gguf::Writer&) {}), HasSubstr(targets_[0].tensor));
}

TEST_F(RefusedAdapter, InSteps) {
  const auto state = runner_.model->states().create_sequence();
  SequenceRows rows = test::rows_of(*state, {1}, RowClass::kDecode);
  rows.adapters = {{0, 1}};
  EXPECT_EQ(runner_.model->forward({{rows}}).error().code, Error::Code::kInvalidArgument);
  const int32_t number = add(runner_, adapter_bytes(runner_, {}));
  rows.adapters = {{number, 1}};
  EXPECT_TRUE(runner_.model->forward({{rows}}).ok());
  rows.adapters = {{number, 1}, {number, 1}};
  EXPECT_EQ(runner_.model->forward({{rows}}).error().code, Error::Code::kInvalidArgument);
  runner_.model->drop_adapter(number);
  rows.adapters = {{number, 1}};
  EXPECT_EQ(runner_.model->forward({{rows}}).error().code, Error::Code::kInvalidArgument);
}

}  // namespace
}  // namespace chimere::model
