// A synthetic architecture, whose layers combine sub-layers in ways that no supported model does.
#include "support/synthetic_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/isa.h"
#include "model/model.h"
#include "support/model_runner.h"
#include "support/plain_synthetic.h"

namespace chimere::model {
namespace {

using test::answer;
using test::rows_of;
using test::run;
using test::Runner;
using test::TinyModel;
using test::values;
using testing::HasSubstr;

constexpr int kVocabulary = 40;

TinyModel synthetic_shape(uint64_t seed) {
  TinyModel m;
  m.architecture = test::kSynthetic;
  m.seed = seed;
  m.n_vocab = kVocabulary;
  return m;
}

std::vector<uint8_t> bytes_of(const TinyModel& m,
                              const std::function<void(gguf::Writer&)>& change = {}) {
  auto writer = test::make_synthetic_model(m);
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  if (change) change(*writer);
  return writer->bytes();
}

TEST(SyntheticModel, LogitsAreThoseOfAPlainComputation) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 rng(seed);
  for (const bool tied : {false, true}) {
    TinyModel m = synthetic_shape(seed);
    m.tied_head = tied;
    const Runner ref(bytes_of(m), kernels::make_ref_ops(),
                     {.cache_k = DType::kF32, .cache_v = DType::kF32});
    ASSERT_NE(ref.model, nullptr) << ref.error.message;
    const auto prompt = test::random_tokens(rng, kVocabulary, 20);
    const auto continuation = test::random_tokens(rng, kVocabulary, 5);
    const std::vector<float> got = answer(ref, prompt, continuation);
    test::PlainSynthetic plain(*ref.file, m);
    std::vector<double> want;
    for (const auto& tokens : {prompt, continuation}) {
      for (const int32_t t : tokens) {
        const auto logits = plain.step(t);
        want.insert(want.end(), logits.begin(), logits.end());
      }
    }
    ASSERT_EQ(got.size(), want.size());
    double largest = 0;
    for (const double w : want) largest = std::max(largest, std::abs(w));
    EXPECT_GT(largest, 0.05);
    // Sums of at most 300 products with rounding errors of 2^-24 each, over some ten sub-layers.
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-3 * largest) << i;
  }
}

TEST(SyntheticModel, CpuHasTheBitsOfTheOracle) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 rng(seed);
  for (const DType type : {DType::kF32, DType::kQ8_0, DType::kBF16, DType::kQ4_0}) {
    TinyModel m = synthetic_shape(seed);
    m.experts = m.mixers = m.embedding = m.head = type;
    const auto bytes = bytes_of(m);
    const Runner ref(bytes, kernels::make_ref_ops());
    ASSERT_NE(ref.model, nullptr) << ref.error.message;
    const auto prompt = test::random_tokens(rng, kVocabulary, 1 + rng() % 40);
    const auto continuation = test::random_tokens(rng, kVocabulary, 4);
    const std::vector<float> want = answer(ref, prompt, continuation);
    for (const kernels::CpuIsa isa : kernels::usable_cpu_isas()) {
      const Runner cpu(bytes, isa);
      EXPECT_EQ(answer(cpu, prompt, continuation), want)
          << dtype_name(type) << ", " << kernels::cpu_isa_name(isa);
    }
  }
}

TEST(SyntheticModel, ARowHasTheSameBitsInAnyBatch) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 rng(seed);
  TinyModel m = synthetic_shape(seed);
  m.experts = m.mixers = DType::kQ8_0;
  const Runner runner(bytes_of(m));
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  state::StateStore& states = runner.model->states();
  const auto prompt = test::random_tokens(rng, kVocabulary, 30);
  const auto other = test::random_tokens(rng, kVocabulary, 3);
  const auto a = states.create_sequence();
  const auto b = states.create_sequence();
  const std::vector<float> of_a = run(runner, *a, prompt, RowClass::kPrefill);
  const std::vector<float> of_b = run(runner, *b, other, RowClass::kDecode);

  const auto c = states.create_sequence();
  const auto d = states.create_sequence();
  StepPlan plan{{rows_of(*d, other, RowClass::kDecode), rows_of(*c, prompt, RowClass::kPrefill)}};
  std::vector<float> want = of_b;
  want.insert(want.end(), of_a.begin(), of_a.end());
  EXPECT_EQ(values(runner.model->forward(plan)), want);

  // Rows continue alone after the last mixer, which lies before the last layer.
  const auto e = states.create_sequence();
  plan = {{rows_of(*e, prompt, RowClass::kPrefill)}};
  plan.sequences[0].logits_of = {17, 2};
  want.assign(of_a.begin() + 17 * kVocabulary, of_a.begin() + 18 * kVocabulary);
  want.insert(want.end(), of_a.begin() + 2 * kVocabulary, of_a.begin() + 3 * kVocabulary);
  EXPECT_EQ(values(runner.model->forward(plan)), want);
  const auto f = states.create_sequence();
  plan = {{rows_of(*f, prompt, RowClass::kPrefill)}};
  plan.sequences[0].logits_of = {};
  ASSERT_TRUE(runner.model->forward(plan).ok());
  EXPECT_EQ(run(runner, *f, {7}, RowClass::kDecode), run(runner, *e, {7}, RowClass::kDecode));
}

TEST(SyntheticModel, ForksCheckpointsAndBlobsContinueWithTheSameBits) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 rng(seed);
  const Runner runner(bytes_of(synthetic_shape(seed)));
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  state::StateStore& states = runner.model->states();
  const auto prompt = test::random_tokens(rng, kVocabulary, 70);
  const auto continuation = test::random_tokens(rng, kVocabulary, 3);
  const auto a = states.create_sequence();
  for (const int32_t t : prompt) run(runner, *a, {t}, RowClass::kDecode);
  const auto blob = a->checkpoint().to_blob();
  const std::vector<float> want = run(runner, *a, continuation, RowClass::kDecode);

  const auto b = states.from_blob(blob);
  ASSERT_TRUE(b.ok()) << b.error().message;
  // Rows that are taken back leave no trace.
  SequenceRows tried = rows_of(**b, test::random_tokens(rng, kVocabulary, 4), RowClass::kDecode);
  tried.revocable = true;
  ASSERT_TRUE(runner.model->forward({{tried}}).ok());
  ASSERT_TRUE((*b)->commit(0).ok());
  EXPECT_EQ((*b)->position(), 70);
  EXPECT_EQ(run(runner, **b, continuation, RowClass::kDecode), want);
}

TEST(SyntheticModel, CountsWeightsPerLayer) {
  const Runner runner(bytes_of(synthetic_shape(1)));
  ASSERT_NE(runner.model, nullptr) << runner.error.message;
  int64_t want = 0;
  for (const gguf::TensorInfo& t : runner.file->tensors()) {
    const auto bytes = static_cast<int64_t>(t.bytes);
    if (t.name == "token_embd.weight") {
      want += bytes / kVocabulary;
    } else {
      want += t.name.find("_exps.") != std::string::npos ? bytes / 8 * 3 : bytes;
    }
  }
  EXPECT_EQ(runner.model->active_weight_bytes(), want);
  // Paged: layers 0, 2 and 3, with 2, 4 and 1 heads.
  const auto& components = runner.model->states().spec().components;
  std::vector<int64_t> pages;
  for (const state::ComponentSpec& c : components) {
    if (c.paged()) pages.push_back(c.bytes);
  }
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_EQ(pages[0], 2 * pages[2]);
  EXPECT_EQ(pages[1], 4 * pages[2]);
}

Result<ModelSpec> without_mixers(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, test::synthetic(keys));
  for (LayerSpec& layer : model.layers) layer = {.network = layer.network};
  return model;
}

Result<ModelSpec> without_anything_normalised(const Keys& keys) {
  CHIMERE_TRY(ModelSpec model, test::synthetic(keys));
  model.layers[4].mixers.clear();
  return model;
}

TEST(SyntheticModel, LoadingNamesWhatIsWrong) {
  const auto error_of = [](const std::function<void(gguf::Writer&)>& change) {
    return Runner(bytes_of(synthetic_shape(1), change)).error.message;
  };
  EXPECT_THAT(error_of([](gguf::Writer& w) {
                w.set_i32s("synthetic.attention.head_count_kv", {2, 2});
              }),
              HasSubstr("synthetic.attention.head_count_kv has 2 elements; it must have one for "
                        "each of the 6 blocks"));
  EXPECT_THAT(error_of([](gguf::Writer& w) {
                w.set_i32s("synthetic.attention.head_count_kv", {2, 0, 9, 1, 0, 0});
              }),
              HasSubstr("synthetic.attention.head_count_kv[2] is 9"));
  EXPECT_THAT(error_of([](gguf::Writer& w) {
                w.set_i32s("synthetic.feed_forward_length", {0, 64, 0, 0, 8, 32});
              }),
              HasSubstr("blk.4.ffn_up.weight is 64 x 32, not 64 x 8"));
  EXPECT_THAT(error_of([](gguf::Writer& w) { w.set_u32("synthetic.expert_gating_func", 9); }),
              HasSubstr("expert_gating_func is 9"));
  EXPECT_THAT(error_of([](gguf::Writer& w) { w.set_u32("synthetic.expert_group_count", 3); }),
              HasSubstr("expert_group_count (3) must divide"));

  const Runner skipping(bytes_of(synthetic_shape(1)), kernels::best_cpu_isa(),
                        {.expert_top_p = 0.5F});
  EXPECT_EQ(skipping.error.code, Error::Code::kUnsupported);
  EXPECT_THAT(skipping.error.message, HasSubstr("expert_top_p"));

  const Runner runner(bytes_of(synthetic_shape(1)));
  const auto none = load_model_as(without_mixers, *runner.file, *runner.ops, {});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("no layer with a mixer"));
  const auto raw = load_model_as(without_anything_normalised, *runner.file, *runner.ops, {});
  ASSERT_FALSE(raw.ok());
  EXPECT_THAT(raw.error().message, HasSubstr("layer 4 has neither a mixer nor a norm"));
  // The registry does not have it.
  EXPECT_THAT(check_architecture(*runner.file).error().message, HasSubstr("'synthetic'"));
}

}  // namespace
}  // namespace chimere::model
