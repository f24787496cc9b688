// The architectures around the main one (tests/support/family_model.h), each by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "model/model.h"
#include "support/family_model.h"
#include "support/model_runner.h"

namespace chimere::model {
namespace {

using test::answer;
using test::rows_of;
using test::run;
using test::Runner;
using test::TinyModel;
using test::values;
using testing::HasSubstr;

constexpr int kTokens = 40;

TinyModel family_shape(const std::string& architecture, uint64_t seed) {
  TinyModel m;
  m.architecture = architecture;
  m.seed = seed;
  m.n_vocab = kTokens;
  m.n_layers = 3;
  m.attention_interval = 3;
  m.n_embd = 32;
  m.head_dim = 16 << (seed % 2);
  m.n_v_heads = 6;
  m.tied_head = seed % 3 == 0;
  m.qkv_bias = architecture == "llama" && seed % 2 == 0;
  m.rope_freqs = architecture == "llama" && seed % 4 < 2;
  return m;
}

std::vector<uint8_t> family_bytes(const TinyModel& m,
                                  const std::function<void(gguf::Writer&)>& change = {}) {
  auto writer = test::make_family_model(m);
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  if (change) change(*writer);
  return writer->bytes();
}

class Family : public testing::TestWithParam<const char*> {
 protected:
  TinyModel shape() { return family_shape(GetParam(), seed_); }
  std::vector<int32_t> tokens(size_t n) { return test::random_tokens(rng_, kTokens, n); }

  unsigned seed_ = fresh_seed();
  std::mt19937 rng_{seed_};
};

TEST_P(Family, CpuHasTheBitsOfTheOracle) {
  SCOPED_TRACE(seed_);
  for (const DType type : {DType::kF32, DType::kQ8_0}) {
    TinyModel m = shape();
    m.experts = m.mixers = m.embedding = m.head = type;
    const auto bytes = family_bytes(m);
    const Runner ref(bytes, kernels::make_ref_ops());
    ASSERT_NE(ref.model, nullptr) << ref.error.message;
    const auto prompt = tokens(1 + rng_() % 40);
    const auto continuation = tokens(4);
    const std::vector<float> want = answer(ref, prompt, continuation);
    for (const kernels::CpuIsa isa : kernels::usable_cpu_isas()) {
      const Runner cpu(bytes, isa);
      EXPECT_EQ(answer(cpu, prompt, continuation), want)
          << dtype_name(type) << ", " << kernels::cpu_isa_name(isa);
    }
  }
}

// On a CPU prefill rows differ from decode rows in the delta rule alone, which these do not have.
TEST_P(Family, PrefillInPiecesHasTheBitsOfDecoding) {
  SCOPED_TRACE(seed_);
  const Runner runner(family_bytes(shape()));
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  const auto prompt = tokens(90);
  const auto decoded = runner.model->states().create_sequence();
  const std::vector<float> want = run(runner, *decoded, prompt, RowClass::kDecode);
  const auto pieces = runner.model->states().create_sequence();
  std::vector<float> got;
  for (size_t at = 0; at < prompt.size();) {
    const size_t n = std::min<size_t>(prompt.size() - at, 1 + rng_() % 50);
    const auto begin = prompt.begin() + static_cast<std::ptrdiff_t>(at);
    const auto part =
        run(runner, *pieces, {begin, begin + static_cast<std::ptrdiff_t>(n)}, RowClass::kPrefill);
    got.insert(got.end(), part.begin(), part.end());
    at += n;
  }
  EXPECT_EQ(got, want);
}

TEST_P(Family, ARowHasTheSameBitsInAnyBatch) {
  SCOPED_TRACE(seed_);
  TinyModel m = shape();
  m.experts = m.mixers = DType::kQ8_0;
  const Runner runner(family_bytes(m));
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  state::StateStore& states = runner.model->states();
  const auto prompt = tokens(30);
  const auto other = tokens(3);
  const auto a = states.create_sequence();
  const auto b = states.create_sequence();
  const std::vector<float> of_a = run(runner, *a, prompt, RowClass::kPrefill);
  std::vector<float> want = run(runner, *b, other, RowClass::kDecode);
  want.insert(want.end(), of_a.begin(), of_a.end());
  const auto c = states.create_sequence();
  const auto d = states.create_sequence();
  const StepPlan plan{
      {rows_of(*d, other, RowClass::kDecode), rows_of(*c, prompt, RowClass::kPrefill)}};
  EXPECT_EQ(values(runner.model->forward(plan)), want);
}

TEST_P(Family, CheckpointsBlobsAndRollbackContinueWithTheSameBits) {
  SCOPED_TRACE(seed_);
  const Runner runner(family_bytes(shape()));
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  state::StateStore& states = runner.model->states();
  const auto continuation = tokens(5);
  const auto a = states.create_sequence();
  run(runner, *a, tokens(60), RowClass::kPrefill);
  const auto blob = a->checkpoint().to_blob();
  const std::vector<float> want = run(runner, *a, continuation, RowClass::kDecode);

  const auto b = states.from_blob(blob);
  ASSERT_TRUE(b.ok()) << b.error().message;
  // Rows that are taken back leave no trace; of the others the state is that of plain rows.
  std::vector<int32_t> tried = continuation;
  tried[2] = (tried[2] + 1) % kTokens;
  SequenceRows rows = rows_of(**b, tried, RowClass::kDecode);
  rows.revocable = true;
  ASSERT_TRUE(runner.model->forward({{rows}}).ok());
  ASSERT_TRUE((*b)->commit(2).ok());
  EXPECT_EQ((*b)->position(), 62);
  const std::vector<float> rest =
      run(runner, **b, {continuation.begin() + 2, continuation.end()}, RowClass::kDecode);
  EXPECT_EQ(rest, std::vector<float>(want.begin() + 2 * kTokens, want.end()));
}

/// A value that no model has, or another model's.
uint32_t odd_value(std::mt19937& rng) {
  constexpr uint32_t kValues[] = {0,  1,  2,  3,    5,     7,        16,
                                  17, 48, 64, 1000, 65535, 1U << 20, 1U << 31};
  return kValues[rng() % std::size(kValues)];
}

// A hostile file is refused, or runs: it never crashes, and an error says something.
TEST_P(Family, OddKeysAreRefusedOrRun) {
  SCOPED_TRACE(seed_);
  const TinyModel m = shape();
  const Runner whole(family_bytes(m));
  std::vector<std::string> keys;
  for (const std::string& key : whole.file->keys()) {
    if (key.starts_with(std::string(GetParam()) + ".")) keys.push_back(key);
  }
  ASSERT_GT(keys.size(), 5U);
  int refused = 0;
  for (const std::string& key : keys) {
    for (int round = 0; round < 4; ++round) {
      const uint32_t value = odd_value(rng_);
      const Runner odd(family_bytes(m, [&](gguf::Writer& w) { w.set_u32(key, value); }));
      if (odd.model != nullptr) {
        const auto state = odd.model->states().create_sequence();
        run(odd, *state, tokens(3), RowClass::kDecode);
        continue;
      }
      ++refused;
      EXPECT_FALSE(odd.error.message.empty()) << key << " = " << value;
    }
  }
  EXPECT_GT(refused, 0);
}

// No tensor is optional in the sense that a file without it, or with one that is not known, runs.
TEST_P(Family, ARenamedTensorIsRefused) {
  SCOPED_TRACE(seed_);
  const Runner whole(family_bytes(shape()));
  ASSERT_NE(whole.model, nullptr) << whole.error.message;
  for (const gguf::TensorInfo& tensor : whole.file->tensors()) {
    std::vector<uint8_t> bytes = whole.bytes;
    // A name follows its length, of 8 bytes.
    std::string stored(8, '\0');
    stored[0] = static_cast<char>(tensor.name.size());
    stored += tensor.name;
    const auto found =
        std::ranges::search(bytes, stored, {}, {}, [](char c) { return static_cast<uint8_t>(c); });
    ASSERT_FALSE(found.empty()) << tensor.name;
    *(found.end() - 1) = '~';
    const Runner odd(bytes);
    EXPECT_EQ(odd.model, nullptr) << tensor.name;
    EXPECT_FALSE(odd.error.message.empty()) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Family, testing::ValuesIn(test::kFamilies), [](const auto& family) {
  std::string name = family.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(FamilyModel, LoadingNamesWhatIsWrong) {
  const auto error_of = [](const char* architecture,
                           const std::function<void(gguf::Writer&)>& change) {
    return Runner(family_bytes(family_shape(architecture, 1), change)).error.message;
  };
  EXPECT_THAT(error_of("mamba2", [](auto& w) { w.set_u32("mamba2.ssm.group_count", 5); }),
              HasSubstr("mamba2.ssm.time_step_rank (6) must be a multiple of "
                        "mamba2.ssm.group_count (5)"));
  EXPECT_THAT(error_of("mamba2", [](auto& w) { w.set_u32("mamba2.ssm.inner_size", 100); }),
              HasSubstr("mamba2.ssm.inner_size (100) must be a multiple"));
  EXPECT_THAT(error_of("mamba2", [](auto& w) { w.set_u32("mamba2.ssm.inner_size", 60); }),
              HasSubstr("heads of 10 elements"));
  EXPECT_THAT(error_of("mamba", [](auto& w) { w.set_u32("mamba.ssm.inner_size", 90); }),
              HasSubstr("mamba.ssm.inner_size is 90"));
  EXPECT_THAT(error_of("mamba", [](auto& w) { w.set_u32("mamba.ssm.state_size", 8); }),
              HasSubstr("blk.0.ssm_x.weight is 96 x 38, not 96 x 22"));
  EXPECT_THAT(error_of("nemotron_h",
                       [](auto& w) {
                         w.set_i32s("nemotron_h.feed_forward_length", {0, 32, 32});
                       }),
              HasSubstr("layer 2 has attention and a network"));
  EXPECT_THAT(error_of("lfm2", [](auto& w) { w.set_u32("lfm2.shortconv.l_cache", 9); }),
              HasSubstr("lfm2.shortconv.l_cache is 9"));
  EXPECT_THAT(error_of("granite", [](auto& w) { w.set_f32("granite.logit_scale", -1); }),
              HasSubstr("granite.logit_scale"));
  const std::vector<float> zeros(8, 0.0F);
  TinyModel llama = family_shape("llama", 3);
  llama.head_dim = 16;
  llama.rope_freqs = false;
  const Runner divided(family_bytes(llama, [&](gguf::Writer& w) {
    EXPECT_TRUE(w.add_tensor("rope_freqs.weight", {8}, DType::kF32, zeros.data(), 32).ok());
  }));
  EXPECT_THAT(divided.error.message, HasSubstr("rope_freqs.weight[0] is 0"));
}

}  // namespace
}  // namespace chimere::model
