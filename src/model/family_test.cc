// The architectures around the main one (tests/support/family_model.h), each by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/fresh_seed.h"
#include "base/test_cpu_seconds.h"
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
  if (architecture == "llama") {
    m.window = seed % 3 == 1 ? 20 : 0;
    m.all_biases = seed % 5 < 2;
  }
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

/// Whether a chunk's rows have sums of their own (state-space duality).
bool has_chunk_products(std::string_view architecture) {
  return architecture == "mamba2" || architecture == "granitehybrid" ||
         architecture == "falcon-h1" || architecture == "zamba2" ||
         architecture.starts_with("nemotron");
}

TEST_P(Family, AChunkHasTheSameBitsInAnyStep) {
  SCOPED_TRACE(seed_);
  const Runner runner(family_bytes(shape()));
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  const auto prompt = tokens(90);
  const auto together = runner.model->states().create_sequence();
  SequenceRows rows = rows_of(*together, prompt, RowClass::kPrefill);
  rows.chunks.clear();
  const auto pieces = runner.model->states().create_sequence();
  std::vector<float> got;
  for (size_t at = 0; at < prompt.size();) {
    const size_t n = std::min<size_t>(prompt.size() - at, 1 + rng_() % 50);
    rows.chunks.push_back(static_cast<int32_t>(n));
    const auto begin = prompt.begin() + static_cast<std::ptrdiff_t>(at);
    const auto part =
        run(runner, *pieces, {begin, begin + static_cast<std::ptrdiff_t>(n)}, RowClass::kPrefill);
    got.insert(got.end(), part.begin(), part.end());
    at += n;
  }
  EXPECT_EQ(got, values(runner.model->forward({{rows}})));
  const auto decoded = runner.model->states().create_sequence();
  const std::vector<float> want = run(runner, *decoded, prompt, RowClass::kDecode);
  if (!has_chunk_products(GetParam())) {
    EXPECT_EQ(got, want);
    return;
  }
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-3) << i;
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

/// Whether a message says which key or tensor of `file` is wrong, or which it lacks.
bool names_a_part(const std::string& message, const gguf::Reader& file) {
  if (message.find(".weight is missing") != std::string::npos) return true;
  if (message.starts_with("the file lacks ")) return true;
  const auto in_message = [&](const std::string& name) {
    return message.find(name) != std::string::npos;
  };
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (in_message(std::string(tensor.name))) return true;
  }
  return std::ranges::any_of(file.keys(), in_message);
}

// A hostile file is refused with the name of a key or tensor, or runs: it never crashes.
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
      EXPECT_TRUE(names_a_part(odd.error.message, *whole.file))
          << key << " = " << value << ": " << odd.error.message;
    }
  }
  EXPECT_GT(refused, 0);
}

// A count of blocks that the file cannot have costs nothing.
TEST_P(Family, AHugeBlockCountIsRefusedAtOnce) {
  const double begin = test_cpu_seconds();
  const std::string key = std::string(GetParam()) + ".block_count";
  const Runner odd(family_bytes(shape(), [&](gguf::Writer& w) { w.set_u32(key, 65'535); }));
  EXPECT_EQ(odd.model, nullptr);
  EXPECT_THAT(odd.error.message, HasSubstr(key + " is 65535, but the file has "));
  EXPECT_LT(test_cpu_seconds() - begin, 1);
}

/// The place of a tensor's name in a file, with its length, which precedes it in 8 bytes.
std::vector<uint8_t>::iterator find_name(std::vector<uint8_t>& bytes, std::string_view name) {
  std::string stored(8, '\0');
  stored[0] = static_cast<char>(name.size());
  stored += name;
  const auto found =
      std::ranges::search(bytes, stored, {}, {}, [](char c) { return static_cast<uint8_t>(c); });
  EXPECT_FALSE(found.empty()) << name;
  return found.begin() + 8;
}

// No tensor is optional in the sense that a file without it, or with one that is not known, runs.
TEST_P(Family, ARenamedTensorIsRefused) {
  SCOPED_TRACE(seed_);
  const Runner whole(family_bytes(shape()));
  ASSERT_NE(whole.model, nullptr) << whole.error.message;
  for (const gguf::TensorInfo& tensor : whole.file->tensors()) {
    const std::string name(tensor.name);
    std::vector<uint8_t> bytes = whole.bytes;
    *(find_name(bytes, name) + static_cast<std::ptrdiff_t>(name.size()) - 1) = '~';
    const Runner odd(bytes);
    EXPECT_EQ(odd.model, nullptr) << name;
    // Without its router, a layer of jamba has a dense network, of which the file has no tensor.
    if (name.ends_with(".ffn_gate_inp.weight")) continue;
    EXPECT_THAT(odd.error.message, HasSubstr(name.substr(0, name.size() - 1)));
  }
}

// A tensor that contradicts the hyper-parameters is refused with its name.
TEST_P(Family, ATensorOfAnotherShapeIsRefused) {
  SCOPED_TRACE(seed_);
  const Runner whole(family_bytes(shape()));
  ASSERT_NE(whole.model, nullptr) << whole.error.message;
  for (const gguf::TensorInfo& tensor : whole.file->tensors()) {
    const std::string name(tensor.name);
    std::vector<uint8_t> bytes = whole.bytes;
    // After the name: the number of dimensions in 4 bytes, then each in 8.
    const auto after = find_name(bytes, name) + static_cast<std::ptrdiff_t>(name.size());
    uint8_t& last = *(after + 4 + 8 * (*after - 1));
    last = static_cast<uint8_t>(last > 1 ? last - 1 : 2);
    const Runner odd(bytes);
    EXPECT_EQ(odd.model, nullptr) << name;
    EXPECT_TRUE(names_a_part(odd.error.message, *whole.file)) << name << odd.error.message;
  }
}

/// Mixtral's files once had one tensor for each expert.
TEST(Llama, TakesOneTensorForEachExpert) {
  TinyModel m = family_shape("llama", 5);
  m.llama_experts = true;
  std::mt19937 rng(9);
  const auto prompt = test::random_tokens(rng, kTokens, 20);
  const Runner together(family_bytes(m));
  ASSERT_NE(together.model, nullptr) << together.error.message;
  m.separate_experts = true;
  const Runner apart(family_bytes(m));
  ASSERT_NE(apart.model, nullptr) << apart.error.message;
  EXPECT_EQ(answer(apart, prompt, {1, 2, 3}), answer(together, prompt, {1, 2, 3}));
}

/// Fused tensors of attention with adjacent rotary pairs.
TEST(Llama, TakesFusedAttention) {
  TinyModel m = family_shape("llama", 8);
  std::mt19937 rng(9);
  const auto prompt = test::random_tokens(rng, kTokens, 20);
  const Runner separate(family_bytes(m));
  ASSERT_NE(separate.model, nullptr) << separate.error.message;
  m.fused_attention = true;
  const Runner together(family_bytes(m));
  ASSERT_NE(together.model, nullptr) << together.error.message;
  EXPECT_EQ(answer(together, prompt, {1, 2, 3}), answer(separate, prompt, {1, 2, 3}));
}

/// A sequence holds the pages of its window alone, whatever its length, and rows behind the window
/// change nothing.
TEST(Windows, BoundTheKvOfASequence) {
  TinyModel m = family_shape("llama", 3);
  m.window = 70;
  const Runner runner(family_bytes(m), kernels::best_cpu_isa(), {.max_tokens = 64 * 40});
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  state::StateStore& states = runner.model->states();
  std::mt19937 rng(9);
  const auto a = states.create_sequence();
  for (int i = 0; i < 12; ++i) {
    run(runner, *a, test::random_tokens(rng, kTokens, 50), RowClass::kPrefill);
    EXPECT_LE(states.window_pages_in_use(), 3);
    EXPECT_EQ(states.pages_in_use(), 0);  // no layer sees everything
  }
  for (int i = 0; i < 70; ++i) {
    run(runner, *a, test::random_tokens(rng, kTokens, 1), RowClass::kDecode);
    EXPECT_LE(states.window_pages_in_use(), 3);
  }
  // A checkpoint keeps its pages while the sequence continues.
  const auto checkpoint = a->checkpoint();
  const auto continuation = test::random_tokens(rng, kTokens, 150);
  const auto want = run(runner, *a, continuation, RowClass::kDecode);
  EXPECT_LE(states.window_pages_in_use(), 6);
  EXPECT_EQ(run(runner, *checkpoint.restore(), continuation, RowClass::kDecode), want);
}

/// Everything that a row of one layer sees is what the window says: tokens before it do not matter.
TEST(Windows, HideWhatIsBeforeThem) {
  TinyModel m = family_shape("llama", 3);
  m.n_layers = 1;
  m.window = 40;
  m.rope_scale = 1;
  const Runner runner(family_bytes(m));
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  std::mt19937 rng(9);
  auto tokens = test::random_tokens(rng, kTokens, 120);
  const auto last = [&] {
    const auto s = runner.model->states().create_sequence();
    const auto rows = run(runner, *s, tokens, RowClass::kDecode);
    return std::vector<float>(rows.end() - kTokens, rows.end());
  };
  const auto want = last();
  tokens[120 - 41] = (tokens[120 - 41] + 1) % kTokens;
  EXPECT_EQ(last(), want);
  tokens[120 - 40] = (tokens[120 - 40] + 1) % kTokens;
  EXPECT_NE(last(), want);
}

/// The language model of Qwen2-VL is Qwen 2: a text has the same position on all three axes.
TEST(Positions, ATextHasTheSamePositionOnAllAxes) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 rng(seed);
  const auto prompt = test::random_tokens(rng, kTokens, 30);
  const auto continuation = test::random_tokens(rng, kTokens, 3);
  TinyModel m = family_shape("qwen2", seed);
  const Runner plain(family_bytes(m));
  ASSERT_NE(plain.model, nullptr) << plain.error.message;
  m.architecture = "qwen2vl";
  const Runner axes(family_bytes(m, [](gguf::Writer& w) {
    w.set_i32s("qwen2vl.rope.dimension_sections", {2, 3, 3, 0});
  }));
  ASSERT_NE(axes.model, nullptr) << axes.error.message;
  EXPECT_EQ(answer(axes, prompt, continuation), answer(plain, prompt, continuation));
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
