#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "kernels/log_sum_exp.h"
#include "model/chunking.h"
#include "support/tiny_model.h"

namespace chimere::model {
namespace {

using test::TinyModel;
using testing::HasSubstr;

/// A tiny model in memory, run by the scalar ops.
struct Loaded {
  std::vector<uint8_t> bytes;
  std::unique_ptr<gguf::Reader> file;
  std::unique_ptr<kernels::Ops> ops = kernels::make_ref_ops();
  std::unique_ptr<Model> model;
  Error error;

  explicit Loaded(std::vector<uint8_t> b, const ModelOptions& options = {}) : bytes(std::move(b)) {
    auto reader = gguf::Reader::from_bytes(bytes.data(), bytes.size());
    EXPECT_TRUE(reader.ok()) << reader.error().message;
    file = std::move(reader).value();
    auto loaded = load_model(*file, *ops, options);
    if (loaded.ok()) {
      model = std::move(loaded).value();
    } else {
      error = loaded.error();
    }
  }
};

TinyModel smallest() {
  TinyModel m;
  m.n_layers = 2;
  m.attention_interval = 2;
  m.n_embd = 32;
  m.n_heads = 2;
  m.n_kv_heads = 1;
  m.head_dim = 16;
  m.n_experts = 3;
  m.n_ff = 16;
  m.n_ff_shared = 16;
  m.n_vocab = 40;
  return m;
}

using Change = std::function<void(gguf::Writer&)>;

std::vector<uint8_t> tiny(const TinyModel& m, const Change& change = {}) {
  auto writer = test::make_tiny_model(m);
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  if (change) change(*writer);
  return writer->bytes();
}

SequenceRows decode_rows(state::SequenceState& state, std::vector<int32_t> tokens) {
  SequenceRows rows;
  rows.state = &state;
  rows.tokens = std::move(tokens);
  for (size_t i = 0; i < rows.tokens.size(); ++i) rows.logits_of.push_back(static_cast<int32_t>(i));
  return rows;
}

std::vector<float> values(ConstMatrixView m) {
  std::vector<float> v;
  for (int64_t r = 0; r < m.rows; ++r) v.insert(v.end(), m.row(r), m.row(r) + m.cols);
  return v;
}

TEST(LoadModel, NamesTheSupportedArchitectures) {
  const Loaded l(
      tiny(smallest(), [](gguf::Writer& w) { w.set_string("general.architecture", "gpt9"); }));
  EXPECT_EQ(l.error.code, Error::Code::kUnsupported);
  EXPECT_THAT(l.error.message, HasSubstr("gpt9"));
  EXPECT_THAT(l.error.message, HasSubstr("qwen35, qwen35moe, qwen3next"));
}

TEST(LoadModel, RefusesBadKeysByName) {
  const std::pair<const char*, uint32_t> bad[] = {
      {"block_count", 0},
      {"embedding_length", 0},
      {"embedding_length", 1U << 31},
      {"attention.head_count", 3},
      {"attention.head_count_kv", 0},
      {"attention.key_length", 0},
      {"attention.value_length", 8},
      {"rope.dimension_count", 3},
      {"rope.dimension_count", 64},
      {"expert_count", 0},
      {"expert_used_count", 4},
      {"full_attention_interval", 0},
      {"ssm.conv_kernel", 1},
      {"ssm.conv_kernel", 9},
      {"ssm.state_size", 24},
      {"ssm.state_size", 272},
      {"attention.key_length", 12},
      {"attention.key_length", 512},
      {"ssm.group_count", 3},
      {"ssm.inner_size", 63},
      {"nextn_predict_layers", 2},
      {"context_length", 0},
  };
  for (const auto& [key, value] : bad) {
    const Loaded l(tiny(smallest(), [&, k = key, v = value](gguf::Writer& w) {
      w.set_u32(std::string("qwen35moe.") + k, v);
    }));
    EXPECT_EQ(l.model, nullptr) << key << " = " << value;
    EXPECT_FALSE(l.error.message.empty());
  }
  const Loaded eps(tiny(smallest(), [](gguf::Writer& w) {
    w.set_f32("qwen35moe.attention.layer_norm_rms_epsilon", -1);
  }));
  EXPECT_THAT(eps.error.message, HasSubstr("layer_norm_rms_epsilon"));
  const Loaded yarn(tiny(
      smallest(), [](gguf::Writer& w) { w.set_string("qwen35moe.rope.scaling.type", "yarn"); }));
  EXPECT_EQ(yarn.error.code, Error::Code::kUnsupported);
}

TEST(LoadModel, NamesMisshapenMissingAndUnknownTensors) {
  // The keys name one more layer than the file has tensors for.
  const Loaded missing(
      tiny(smallest(), [](gguf::Writer& w) { w.set_u32("qwen35moe.block_count", 3); }));
  EXPECT_EQ(missing.error.code, Error::Code::kInvalidData);
  EXPECT_THAT(missing.error.message, HasSubstr("blk.2.attn_norm.weight is missing"));

  const Loaded misshapen(tiny(
      smallest(), [](gguf::Writer& w) { w.set_u32("qwen35moe.expert_feed_forward_length", 8); }));
  EXPECT_THAT(misshapen.error.message,
              HasSubstr("blk.0.ffn_gate_exps.weight is 32 x 16 x 3, not 32 x 8 x 3"));

  const float one = 1;
  const Loaded unknown(tiny(smallest(), [&](gguf::Writer& w) {
    ASSERT_TRUE(w.add_tensor("blk.0.attn_qkv.bias", {1}, DType::kF32, &one, 4).ok());
  }));
  EXPECT_EQ(unknown.error.code, Error::Code::kUnsupported);
  EXPECT_THAT(unknown.error.message, HasSubstr("blk.0.attn_qkv.bias"));

  const Loaded vocabulary(tiny(smallest(), [](gguf::Writer& w) {
    w.set_strings("tokenizer.ggml.tokens", {"only", "two"});
  }));
  EXPECT_THAT(vocabulary.error.message, HasSubstr("tokenizer.ggml.tokens"));
}

TEST(LoadModel, RefusesInvalidOptions) {
  const auto bytes = tiny(smallest());
  EXPECT_EQ(Loaded(bytes, {.max_tokens = 0}).model, nullptr);
  EXPECT_EQ(Loaded(bytes, {.max_tokens = int64_t{1} << 40}).model, nullptr);
  EXPECT_EQ(Loaded(bytes, {.max_states = 0}).model, nullptr);
  EXPECT_EQ(Loaded(bytes, {.max_step_rows = 0}).model, nullptr);
  EXPECT_EQ(Loaded(bytes, {.cache_k = DType::kI8}).error.code, Error::Code::kUnsupported);
  for (const float p : {0.0F, -1.0F, 1.5F, std::nanf("")}) {
    EXPECT_EQ(Loaded(bytes, {.expert_top_p = p}).error.code, Error::Code::kInvalidArgument) << p;
  }
}

TEST(LoadModel, CountsActiveBytes) {
  TinyModel m = smallest();
  m.n_used = 1;
  int64_t expected = 0;
  const Loaded l(tiny(m));
  ASSERT_NE(l.model, nullptr) << l.error.message;
  for (const gguf::TensorInfo& t : l.file->tensors()) {
    const auto bytes = static_cast<int64_t>(t.bytes);
    if (t.name == "token_embd.weight") {
      expected += bytes / m.n_vocab;
    } else {
      expected += t.name.find("_exps.") != std::string::npos ? bytes / m.n_experts : bytes;
    }
  }
  EXPECT_EQ(l.model->active_weight_bytes(), expected);

  // A plain step does not read an MTP head; it does read a tied output head.
  TinyModel tied = m;
  tied.tied_head = true;
  tied.n_mtp_layers = 1;
  EXPECT_EQ(Loaded(tiny(tied)).model->active_weight_bytes(), expected);
}

TEST(LoadModel, ModelsWithOtherHyperParametersDoNotShareStates) {
  TinyModel m = smallest();
  const Loaded a(tiny(m));
  const Loaded same(tiny(m), {.max_tokens = 64, .max_step_rows = 8});
  const Loaded eps(tiny(smallest(), [](gguf::Writer& w) {
    w.set_f32("qwen35moe.attention.layer_norm_rms_epsilon", 1e-5F);
  }));
  EXPECT_EQ(a.model->states().fingerprint(), same.model->states().fingerprint());
  EXPECT_NE(a.model->states().fingerprint(), eps.model->states().fingerprint());

  const Loaded fewer(tiny(smallest()), {.expert_top_p = 0.7F});
  const Loaded fewest(tiny(smallest()), {.expert_top_p = 0.5F});
  EXPECT_NE(a.model->states().fingerprint(), fewer.model->states().fingerprint());
  EXPECT_NE(fewest.model->states().fingerprint(), fewer.model->states().fingerprint());
  m = smallest();
  m.architecture = "qwen35";  // has no experts
  const Loaded dense(tiny(m));
  const Loaded dense_fewer(tiny(m), {.expert_top_p = 0.7F});
  EXPECT_EQ(dense.model->states().fingerprint(), dense_fewer.model->states().fingerprint());
}

TEST(Forward, SkipsExpertsInDecodeRowsOnly) {
  TinyModel m = smallest();
  m.n_experts = 6;
  m.n_used = 4;
  const std::vector<uint8_t> bytes = tiny(m);
  Loaded whole(bytes);
  // top_p that keeps only each row's first expert, nearly all experts, and a number that varies by
  // row.
  for (const float top_p : {1e-6F, 0.6F, 0.999999F}) {
    Loaded fewer(bytes, {.expert_top_p = top_p});
    ASSERT_NE(fewer.model, nullptr) << fewer.error.message;
    auto a = whole.model->states().create_sequence();
    auto b = fewer.model->states().create_sequence();
    SequenceRows prompt = decode_rows(*a, {1, 2, 3, 4, 5});
    prompt.row_class = RowClass::kPrefill;
    prompt.chunks = {5};
    const std::vector<float> want = values(whole.model->forward({{prompt}})->logits);
    prompt.state = b.get();
    EXPECT_EQ(values(fewer.model->forward({{prompt}})->logits), want);
    EXPECT_EQ(fewer.model->expert_use()->rows, 0);

    const std::vector<float> all =
        values(whole.model->forward({{decode_rows(*a, {6, 7})}})->logits);
    const std::vector<float> some =
        values(fewer.model->forward({{decode_rows(*b, {6, 7})}})->logits);
    const kernels::ExpertUse use = fewer.model->expert_use().value();
    EXPECT_EQ(use.rows, 2 * m.n_layers);
    EXPECT_GE(use.experts, use.rows);
    EXPECT_LE(use.experts, 4 * use.rows);
    EXPECT_EQ(use.experts == use.rows, top_p < 0.1F);
    EXPECT_EQ(use.experts == 4 * use.rows, top_p > 0.9F);
    if (top_p < 0.1F) {
      EXPECT_NE(some, all);
    }
  }
  EXPECT_EQ(whole.model->expert_use()->rows, 0);
}

TEST(Forward, RefusesBadPlansAndChangesNothing) {
  Loaded l(tiny(smallest()), {.max_tokens = 128, .max_step_rows = 100});
  ASSERT_NE(l.model, nullptr) << l.error.message;
  auto a = l.model->states().create_sequence();
  auto b = l.model->states().create_sequence();
  ASSERT_TRUE(l.model->forward({{decode_rows(*a, {1, 2, 3})}}).ok());
  const auto before = a->checkpoint().to_blob();

  const SequenceRows good = decode_rows(*a, {1, 2});
  auto changed = [&](auto&& change) {
    SequenceRows rows = good;
    change(rows);
    return StepPlan{{decode_rows(*b, {3}), rows}};
  };
  const StepPlan bad[] = {
      {},
      changed([](SequenceRows& r) { r.tokens[1] = 40; }),
      changed([](SequenceRows& r) { r.tokens[1] = -1; }),
      changed([](SequenceRows& r) { r.tokens.clear(); }),
      changed([](SequenceRows& r) { r.state = nullptr; }),
      changed([&](SequenceRows& r) { r.state = b.get(); }),
      changed([](SequenceRows& r) { r.logits_of = {2}; }),
      changed([](SequenceRows& r) { r.logits_of = {-1}; }),
      changed([](SequenceRows& r) { r.chunks = {2}; }),
      changed([](SequenceRows& r) { r.row_class = RowClass::kPrefill; }),
      changed([](SequenceRows& r) {
        r.row_class = RowClass::kPrefill;
        r.chunks = {1};
      }),
      changed([](SequenceRows& r) {
        r.row_class = RowClass::kPrefill;
        r.chunks = {2, 0};
      }),
      changed([](SequenceRows& r) {
        r.row_class = RowClass::kPrefill;
        r.chunks = {2};
        r.revocable = true;
      }),
      changed([](SequenceRows& r) { r.tokens.assign(100, 1); }),
      changed([](SequenceRows& r) { r.logits_of.assign(100, 1); }),
      changed([](SequenceRows& r) { r.top = -1; }),
      changed([](SequenceRows& r) { r.top = kernels::kMaxTopLogits + 1; }),
      changed([](SequenceRows& r) { r.sums = true; }),
      changed([](SequenceRows& r) { r.selected.resize(r.logits_of.size()); }),
      changed([](SequenceRows& r) { r.top = 1, r.selected.resize(r.logits_of.size() + 1); }),
      changed([](SequenceRows& r) {
        r.top = 1, r.selected.assign(r.logits_of.size(), {3, 3});
      }),
      changed([](SequenceRows& r) { r.top = 1, r.selected.assign(r.logits_of.size(), {-1}); }),
      changed([](SequenceRows& r) { r.top = 1, r.selected.assign(r.logits_of.size(), {40}); }),
  };
  for (size_t i = 0; i < std::size(bad); ++i) {
    auto result = l.model->forward(bad[i]);
    EXPECT_FALSE(result.ok()) << i;
    EXPECT_EQ(result.error().code, Error::Code::kInvalidArgument) << i;
  }
  auto full = l.model->forward(changed([](SequenceRows& r) { r.tokens.assign(90, 1); }));
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, Error::Code::kOutOfMemory);

  EXPECT_EQ(a->checkpoint().to_blob(), before);
  EXPECT_EQ(b->position(), 0);
  EXPECT_EQ(l.model->states().pages_in_use(), 1);
  EXPECT_TRUE(l.model->forward({{good, decode_rows(*b, {3})}}).ok());
}

TEST(Forward, GivesTheRequestedRowsInThePlansOrder) {
  Loaded l(tiny(smallest()));
  auto a = l.model->states().create_sequence();
  auto b = l.model->states().create_sequence();
  auto all_a = l.model->forward({{decode_rows(*a, {1, 2, 3, 4})}});
  ASSERT_TRUE(all_a.ok());
  const std::vector<float> of_a = values(all_a->logits);
  auto all_b = l.model->forward({{decode_rows(*b, {5, 6})}});
  const std::vector<float> of_b = values(all_b->logits);

  auto c = l.model->states().create_sequence();
  auto d = l.model->states().create_sequence();
  auto e = l.model->states().create_sequence();
  StepPlan plan{{decode_rows(*c, {1, 2, 3, 4}), decode_rows(*e, {9, 9}), decode_rows(*d, {5, 6})}};
  plan.sequences[0].logits_of = {3, 0, 1};
  plan.sequences[1].logits_of = {};
  plan.sequences[2].logits_of = {1};
  auto result = l.model->forward(plan);
  ASSERT_TRUE(result.ok());
  const std::vector<float> got = values(result->logits);
  const size_t n = 40;
  ASSERT_EQ(got.size(), 4 * n);
  auto same = [&](size_t row, const std::vector<float>& from, size_t at) {
    return std::memcmp(got.data() + row * n, from.data() + at * n, n * sizeof(float)) == 0;
  };
  EXPECT_TRUE(same(0, of_a, 3));
  EXPECT_TRUE(same(1, of_a, 0));
  EXPECT_TRUE(same(2, of_a, 1));
  EXPECT_TRUE(same(3, of_b, 1));
  for (const float x : got) EXPECT_TRUE(std::isfinite(x));
}

TEST(Forward, GivesTheLargestLogitsOfRowsWithTop) {
  Loaded l(tiny(smallest()));
  const auto of = [&](const std::vector<int32_t>& tokens) {
    const auto s = l.model->states().create_sequence();
    return values(l.model->forward({{decode_rows(*s, tokens)}})->logits);
  };
  const std::vector<float> of_a = of({1, 2, 3});
  const std::vector<float> of_b = of({5, 6});
  const std::vector<float> of_c = of({9});
  const auto expect_top = [](const kernels::TopLogits& top, int64_t row, const float* logits,
                             size_t at_least) {
    std::vector<int32_t> ids(40);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
    std::ranges::stable_sort(ids, [&](int32_t x, int32_t y) { return logits[x] > logits[y]; });
    const auto got = top.row(row);
    ASSERT_GE(got.size(), at_least);
    for (size_t i = 0; i < std::min(got.size(), ids.size()); ++i) {
      EXPECT_EQ(got[i].id, ids[i]) << row << ", place " << i;
      EXPECT_EQ(got[i].value, logits[ids[i]]);
    }
    for (size_t i = ids.size(); i < got.size(); ++i) EXPECT_EQ(got[i].id, -1);
  };
  for (const int32_t top : {1, 5, kernels::kMaxTopLogits}) {
    const auto a = l.model->states().create_sequence();
    const auto b = l.model->states().create_sequence();
    const auto c = l.model->states().create_sequence();
    StepPlan plan{{decode_rows(*a, {1, 2, 3}), decode_rows(*b, {5, 6}), decode_rows(*c, {9})}};
    plan.sequences[0].logits_of = {2, 0};
    plan.sequences[0].top = 1;
    plan.sequences[2].top = top;
    const auto result = l.model->forward(plan);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(values(result->logits), of_b);
    ASSERT_EQ(result->top.rows, 3);
    expect_top(result->top, 0, of_a.data() + 80, 1);
    expect_top(result->top, 1, of_a.data(), 1);
    expect_top(result->top, 2, of_c.data(), static_cast<size_t>(top));
  }
}

TEST(Forward, GivesSelectedLogitsAndSumsBesideTheLargest) {
  Loaded l(tiny(smallest()));
  const auto one = l.model->states().create_sequence();
  const std::vector<float> all = values(l.model->forward({{decode_rows(*one, {1, 2, 3})}})->logits);
  const auto a = l.model->states().create_sequence();
  const auto b = l.model->states().create_sequence();
  StepPlan plan{{decode_rows(*b, {9}), decode_rows(*a, {1, 2, 3})}};
  plan.sequences[0].top = 2;
  plan.sequences[1].top = 3;
  plan.sequences[1].sums = true;
  plan.sequences[1].logits_of = {2, 0};
  plan.sequences[1].selected = {{}, {0, 5, 39}};
  const auto result = l.model->forward(plan);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->top.rows, 3);
  ASSERT_EQ(result->selected.rows, 3);
  const float* const first = all.data();  // of row 0, whose logits come last
  const auto selected = result->selected.row(2);
  EXPECT_EQ(selected[0], first[0]);
  EXPECT_EQ(selected[1], first[5]);
  EXPECT_EQ(selected[2], first[39]);
  EXPECT_EQ(selected[3], -INFINITY);
  for (const kernels::TopLogit& t : result->top.row(2)) {
    EXPECT_THAT(t.id, testing::AllOf(testing::Ne(0), testing::Ne(5), testing::Ne(39)));
  }
  EXPECT_EQ(std::ranges::count(result->top.row(2), -1, &kernels::TopLogit::id), 0);
  for (const float x : result->selected.row(1)) EXPECT_EQ(x, -INFINITY);
  for (const auto& [row, logits] : {std::pair(1, all.data() + 80), std::pair(2, first)}) {
    const kernels::LogSumExp want = kernels::row_log_sum_exp(logits, 40);
    EXPECT_EQ(result->sums[row].e, want.e);
    EXPECT_EQ(result->sums[row].xe, want.xe);
    EXPECT_EQ(result->sums[row].largest, want.largest);
  }
  // All logits of any of the rows can be read until the next step.
  std::vector<float> whole(40);
  ASSERT_TRUE(l.model->read_logits(1, whole).ok());
  EXPECT_EQ(whole, std::vector<float>(all.data() + 80, all.data() + 120));
  ASSERT_TRUE(l.model->read_logits(2, whole).ok());
  for (const int32_t id : {0, 5, 39}) {
    EXPECT_EQ(std::exchange(whole[static_cast<size_t>(id)], first[id]), -INFINITY);
  }
  EXPECT_EQ(whole, std::vector<float>(first, first + 40));
  EXPECT_FALSE(l.model->read_logits(3, whole).ok());
  EXPECT_FALSE(l.model->read_logits(-1, whole).ok());
  whole.pop_back();
  EXPECT_FALSE(l.model->read_logits(0, whole).ok());
  EXPECT_FALSE(l.model->forward({}).ok());
  whole.resize(40);
  EXPECT_FALSE(l.model->read_logits(0, whole).ok());
}

TEST(Forward, RunsEveryFormat) {
  TinyModel m = smallest();
  m.n_embd = 256;
  m.n_ff = 256;
  m.n_ff_shared = 256;
  m.n_heads = 4;
  m.head_dim = 64;
  m.n_k_heads = 2;
  m.n_v_heads = 4;
  m.state_dim = 64;
  for (const DType type : test::kWeightFormats) {
    m.experts = m.mixers = m.embedding = m.head = type;
    Loaded l(tiny(m));
    ASSERT_NE(l.model, nullptr) << l.error.message;
    auto a = l.model->states().create_sequence();
    auto result = l.model->forward({{decode_rows(*a, {1, 2, 3})}});
    ASSERT_TRUE(result.ok());
    for (const float x : values(result->logits)) ASSERT_TRUE(std::isfinite(x)) << dtype_name(type);
  }
}

/// Logits of a prompt as one chunk, then of generated tokens in decode steps.
std::vector<float> answer(const TinyModel& m) {
  const Loaded l(tiny(m));
  EXPECT_NE(l.model, nullptr) << l.error.message;
  if (l.model == nullptr) return {};
  auto state = l.model->states().create_sequence();
  SequenceRows prompt = decode_rows(*state, {5, 1, 38, 4, 17, 30, 2});
  prompt.row_class = RowClass::kPrefill;
  prompt.chunks = {static_cast<int32_t>(prompt.tokens.size())};
  std::vector<float> logits = values(l.model->forward({{std::move(prompt)}})->logits);
  const auto generation = values(l.model->forward({{decode_rows(*state, {7, 9, 11})}})->logits);
  logits.insert(logits.end(), generation.begin(), generation.end());
  return logits;
}

// Released files have some tensors fused or split, and have MTP heads or none.
TEST(Forward, VariantsOfAFileGiveTheSameBits) {
  using Variant = std::pair<const char*, void (*)(TinyModel&)>;
  const Variant variants[] = {
      {"attn_qkv", [](TinyModel& m) { m.fused_attention = true; }},
      {"ffn_gate_up_exps", [](TinyModel& m) { m.fused_gate_up = true; }},
      {"nextn", [](TinyModel& m) { m.n_mtp_layers = 1; }},
      {"ssm_ba", [](TinyModel& m) { m.fused_ba = true; }},
      {"ssm_in", [](TinyModel& m) { m.fused_in = true; }},
  };
  for (const char* architecture : {"qwen35", "qwen35moe", "qwen3next"}) {
    for (const DType type : {DType::kF32, DType::kF16, DType::kQ8_0}) {
      TinyModel plain = smallest();
      plain.architecture = architecture;
      plain.n_k_heads = 2;
      plain.n_v_heads = 6;
      plain.mixers = plain.experts = type;
      const std::vector<float> want = answer(plain);
      EXPECT_EQ(want.size(), 10U * 40);
      for (const auto& [tensor, change] : variants) {
        const bool in_delta_net = std::string_view(tensor).starts_with("ssm_");
        if (in_delta_net && plain.architecture != "qwen3next") continue;
        TinyModel variant = plain;
        change(variant);
        EXPECT_EQ(answer(variant), want) << architecture << " with " << tensor;
      }
    }
  }
}

// The same tensors under another architecture name are a different model if v heads then read other
// k heads, and the same model if every k head has one v head.
TEST(Forward, HeadsAreTiledOrGroupedAsTheArchitectureSays) {
  TinyModel m = smallest();
  m.n_k_heads = 2;
  for (const int v_heads : {2, 4}) {
    m.n_v_heads = v_heads;
    m.architecture = "qwen35moe";
    const std::vector<float> tiled = answer(m);
    m.architecture = "qwen3next";
    EXPECT_EQ(answer(m) == tiled, v_heads == 2);
  }
}

TEST(LoadModel, RefusesFusedTensorsWhereTheirOrderIsUnknown) {
  TinyModel m = smallest();
  m.fused_ba = true;
  const Loaded l(tiny(m));
  EXPECT_THAT(l.error.message, HasSubstr("blk.0.ssm_beta.weight is missing"));
}

TEST(LoadModel, TakesTheExpertsWidthFromOlderKeys) {
  TinyModel m = smallest();
  m.architecture = "qwen3next";
  m.n_ff_shared = m.n_used * m.n_ff;
  auto without = [&](const char* key) {
    // A key of the same length that no code reads.
    auto bytes = tiny(m, [&](gguf::Writer& w) {
      w.set_u32("qwen3next.feed_forward_length", static_cast<uint32_t>(m.n_ff_shared));
    });
    const std::string name = std::string("qwen3next.") + key;
    const auto at = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
    EXPECT_NE(at, bytes.end());
    *at = 'X';
    return bytes;
  };
  for (const char* key : {"expert_feed_forward_length", "expert_shared_feed_forward_length"}) {
    const Loaded l(without(key));
    ASSERT_NE(l.model, nullptr) << l.error.message;
    auto state = l.model->states().create_sequence();
    EXPECT_TRUE(l.model->forward({{decode_rows(*state, {1})}}).ok());
  }
  const Loaded nothing(
      tiny(m, [](gguf::Writer& w) { w.set_u32("qwen3next.expert_feed_forward_length", 0); }));
  EXPECT_THAT(nothing.error.message, HasSubstr("expert_feed_forward_length"));
}

// The file is truncated while threads read its mapping: expect an error, not SIGBUS.
TEST(Forward, SurvivesAFileCutWhileItIsRead) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  TinyModel m = smallest();
  m.n_embd = 256;
  m.n_ff = m.n_ff_shared = 256;
  const auto bytes = tiny(m);
  const auto path = std::filesystem::temp_directory_path() /
                    ("chimere_model_test_" + std::to_string(seed) + ".gguf");
  for (int round = 0; round < 5; ++round) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    auto file = gguf::Reader::open(path.string());
    ASSERT_TRUE(file.ok()) << file.error().message;
    ThreadPool pool(2);
    auto ops = kernels::make_cpu_ops(pool);
    auto model = load_model(**file, *ops, {});
    ASSERT_TRUE(model.ok()) << model.error().message;
    std::thread cutter([&, pause = rng() % 4000, left = bytes.size() / (2 + rng() % 8)] {
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      std::filesystem::resize_file(path, left);
    });
    Result<StepResult> result = StepResult{};
    auto a = (*model)->states().create_sequence();
    std::vector<float> first;
    while (true) {
      result = (*model)->forward({{decode_rows(*a, {1, 2, 3, 4, 5, 6, 7, 8})}});
      if (!result.ok()) break;
      // No logits computed from missing pages are returned.
      const std::vector<float> logits = values(result->logits);
      if (first.empty()) first = logits;
      EXPECT_EQ(logits, first);
      a = (*model)->states().create_sequence();
    }
    cutter.join();
    EXPECT_EQ(result.error().code, Error::Code::kIo);
    EXPECT_THAT(result.error().message, HasSubstr("was changed while in use"));
    EXPECT_FALSE((*model)->forward({{decode_rows(*a, {1})}}).ok());
  }
  std::filesystem::remove(path);
}

TEST(LoadModel, ASplitModelIsTheSameModel) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("chimere_split_" + std::to_string(std::random_device{}()));
  std::filesystem::create_directory(folder);
  auto writer = test::make_tiny_model(smallest());
  ASSERT_TRUE(writer.ok());
  auto paths = writer->write_split((folder / "tiny").string(), 4096, /*metadata_apart=*/true);
  ASSERT_TRUE(paths.ok()) << paths.error().message;
  EXPECT_GT(paths->size(), 3U);
  const Loaded whole(tiny(smallest()));
  auto file = gguf::Reader::open(paths->back());
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto ops = kernels::make_ref_ops();
  auto model = load_model(**file, *ops, {});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->states().fingerprint(), whole.model->states().fingerprint());
  auto a = (*model)->states().create_sequence();
  auto b = whole.model->states().create_sequence();
  EXPECT_EQ(values((*model)->forward({{decode_rows(*a, {1, 2, 3})}})->logits),
            values(whole.model->forward({{decode_rows(*b, {1, 2, 3})}})->logits));
  std::filesystem::remove_all(folder);
}

TEST(Forward, NoticesAFileCutShort) {
  const auto path = std::filesystem::temp_directory_path() / "chimere_model_test_cut.gguf";
  const auto bytes = tiny(smallest());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  auto file = gguf::Reader::open(path.string());
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto ops = kernels::make_ref_ops();
  auto model = load_model(**file, *ops, {});
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto a = (*model)->states().create_sequence();
  ASSERT_TRUE((*model)->forward({{decode_rows(*a, {1})}}).ok());
  std::filesystem::resize_file(path, bytes.size() / 2);
  EXPECT_FALSE((*model)->forward({{decode_rows(*a, {1})}}).ok());
  EXPECT_EQ(a->position(), 1);
  EXPECT_FALSE(load_model(**file, *ops, {}).ok());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace chimere::model
