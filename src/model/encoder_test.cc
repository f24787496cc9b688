// Encoders: random files of every architecture, against double precision of their own definition,
// and in batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <random>

#include "base/fresh_seed.h"
#include "gguf/reader.h"
#include "model/chunking.h"
#include "model/layers/encoder_attention.h"
#include "model/model.h"
#include "model/rank_head.h"
#include "support/encoder_model.h"

namespace chimere::model {
namespace {

using test::EncoderModel;

struct Loaded {
  std::vector<uint8_t> bytes;
  std::unique_ptr<gguf::Reader> file;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<Model> model;
};

Result<Loaded> load_bytes(std::vector<uint8_t> bytes, int threads) {
  Loaded out;
  out.bytes = std::move(bytes);
  CHIMERE_TRY(out.file, gguf::Reader::from_bytes(out.bytes.data(), out.bytes.size()));
  out.pool = std::make_unique<ThreadPool>(threads);
  out.ops = kernels::make_cpu_ops(*out.pool);
  ModelOptions options;
  options.max_step_rows = 1024;
  CHIMERE_TRY(out.model, load_model(*out.file, *out.ops, options));
  return out;
}

Result<Loaded> load(const gguf::Writer& writer, int threads = 2) {
  return load_bytes(writer.bytes(), threads);
}

Result<Loaded> load(const EncoderModel& shape, int threads = 2) {
  CHIMERE_TRY(gguf::Writer writer, test::make_encoder_model(shape));
  return load(writer, threads);
}

struct Text {
  std::vector<int32_t> tokens;
  int32_t second_segment = 0;
};

/// The final hidden states of all rows of all texts, in one step.
std::vector<std::vector<float>> hidden_states(Model& model, const std::vector<Text>& texts) {
  StepPlan plan;
  std::vector<std::unique_ptr<state::SequenceState>> states;
  for (const Text& text : texts) {
    states.push_back(model.states().create_sequence());
    SequenceRows rows;
    rows.state = states.back().get();
    rows.row_class = RowClass::kPrefill;
    rows.tokens = text.tokens;
    rows.second_segment = text.second_segment;
    rows.chunks = chunk_sizes(text.tokens, {});
    for (size_t r = 0; r < text.tokens.size(); ++r) rows.logits_of.push_back(static_cast<int>(r));
    plan.sequences.push_back(std::move(rows));
  }
  const auto result = model.forward(plan);
  EXPECT_TRUE(result.ok()) << result.error().message;
  std::vector<std::vector<float>> all;
  for (int64_t r = 0; result.ok() && r < result->logits.rows; ++r) {
    all.emplace_back(result->logits.row(r), result->logits.row(r) + result->logits.cols);
  }
  return all;
}

std::vector<Text> random_texts(std::mt19937& rng, size_t n, size_t longest, bool segments) {
  std::vector<Text> texts(n);
  for (Text& text : texts) {
    text.tokens.resize(1 + rng() % longest);
    for (int32_t& t : text.tokens) t = static_cast<int32_t>(rng() % test::kEncoderTokens);
    if (segments && text.tokens.size() > 1 && rng() % 2 == 0) {
      text.second_segment = 1 + static_cast<int32_t>(rng() % (text.tokens.size() - 1));
    }
  }
  return texts;
}

class Encoder : public testing::TestWithParam<const char*> {};

TEST_P(Encoder, ATextHasTheSameBitsInAnyBatch) {
  std::mt19937 rng(fresh_seed());
  EncoderModel shape = {.architecture = GetParam(), .seed = rng()};
  shape.weights = rng() % 2 == 0 ? DType::kQ8_0 : DType::kF16;
  shape.fused_gate = GetParam() == std::string("jina-bert-v2") && rng() % 2 == 0;
  shape.qk_norms = GetParam() == std::string("jina-bert-v2") && rng() % 2 == 0;
  const auto together = load(shape, 3);
  const auto alone = load(shape, 1);
  ASSERT_TRUE(together.ok()) << together.error().message;
  ASSERT_TRUE(alone.ok());
  EXPECT_TRUE(together->model->encoder());
  for (int round = 0; round < 6; ++round) {
    const auto texts = random_texts(rng, 1 + rng() % 6, 130, together->model->has_segments());
    const auto all = hidden_states(*together->model, texts);
    size_t row = 0;
    for (const Text& text : texts) {
      for (const auto& one : hidden_states(*alone->model, {text})) {
        ASSERT_LT(row, all.size());
        EXPECT_EQ(one, all[row++]);
      }
    }
  }
}

TEST_P(Encoder, EveryRowSeesTheWholeText) {
  std::mt19937 rng(fresh_seed());
  // Two layers of modern-bert: the first one attends globally.
  const auto m = load({.architecture = GetParam(), .seed = rng(), .n_layers = 2});
  ASSERT_TRUE(m.ok()) << m.error().message;
  Text text = random_texts(rng, 1, 1, false)[0];
  text.tokens.assign(60, 7);
  const auto before = hidden_states(*m->model, {text});
  text.tokens.back() = 9;
  const auto after = hidden_states(*m->model, {text});
  EXPECT_NE(before.front(), after.front());
}

/// Values that hostile files have in place of sizes and counts.
uint32_t odd_value(std::mt19937& rng) {
  constexpr uint32_t kOdd[] = {0, 1, 2, 3, 7, 17, 1000, 65537, 0x7FFFFFFF, 0xFFFFFFFF};
  return kOdd[rng() % std::size(kOdd)];
}

// A hostile file is refused with a reason, or runs: it never crashes.
TEST_P(Encoder, OddKeysAreRefusedOrRun) {
  std::mt19937 rng(fresh_seed());
  const EncoderModel shape = {
      .architecture = GetParam(), .seed = rng(), .context = 64, .pooling = 4};
  const auto whole = load(shape);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  int refused = 0;
  for (const std::string& key : whole->file->keys()) {
    if (!key.starts_with(std::string(GetParam()) + ".")) continue;
    for (int round = 0; round < 4; ++round) {
      auto writer = test::make_encoder_model(shape);
      ASSERT_TRUE(writer.ok());
      const uint32_t value = odd_value(rng);
      writer->set_u32(key, value);
      const auto odd = load(*writer);
      if (odd.ok()) {
        hidden_states(*odd->model, {{{5, 6, 7}, 0}});
        continue;
      }
      ++refused;
      EXPECT_FALSE(odd.error().message.empty()) << key << " = " << value;
    }
  }
  EXPECT_GT(refused, 5);
}

// No tensor is optional in the sense that a file without it, or with one that is not known, runs.
TEST_P(Encoder, ARenamedOrMisshapenTensorIsRefused) {
  std::mt19937 rng(fresh_seed());
  const EncoderModel shape = {
      .architecture = GetParam(), .seed = rng(), .n_layers = 2, .context = 64, .pooling = 4};
  const auto whole = load(shape);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  for (const gguf::TensorInfo& tensor : whole->file->tensors()) {
    const std::string name(tensor.name);
    // The name with its length in 8 bytes before it; then the number of dimensions in 4 bytes, and
    // each in 8.
    std::string counted(8, '\0');
    counted[0] = static_cast<char>(name.size());
    counted += name;
    for (const bool renamed : {true, false}) {
      std::vector<uint8_t> bytes = whole->bytes;
      const auto found = std::ranges::search(bytes, counted, {}, {},
                                             [](char c) { return static_cast<uint8_t>(c); });
      ASSERT_FALSE(found.empty()) << name;
      uint8_t* const after = &*found.begin() + counted.size();
      if (renamed) {
        after[-1] = '~';
      } else {
        uint8_t& last = after[4 + 8 * (*after - 1)];
        last = static_cast<uint8_t>(last > 1 ? last - 1 : 3);
      }
      const auto odd = load_bytes(std::move(bytes), 1);
      // With one segment the file is another valid model.
      if (odd.ok() && name == "token_types.weight" && !renamed) continue;
      ASSERT_FALSE(odd.ok()) << name;
      EXPECT_THAT(odd.error().message,
                  testing::AnyOf(testing::HasSubstr(name.substr(0, name.size() - 1)),
                                 testing::HasSubstr(".weight is missing"),
                                 testing::HasSubstr(".weight is 64")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Encoder, testing::ValuesIn(test::kEncoders));

TEST(EncoderModel, WindowsHideWhatIsFarAway) {
  std::mt19937 rng(fresh_seed());
  // With a pattern of one layer in a thousand, only the first layer is global; and it is read by
  // none with a window of 4: a change 30 positions away passes through it alone.
  EncoderModel shape = {.architecture = "modern-bert", .seed = rng(), .n_layers = 3, .window = 4};
  auto writer = test::make_encoder_model(shape);
  ASSERT_TRUE(writer.ok());
  const auto m = load(*writer);
  ASSERT_TRUE(m.ok()) << m.error().message;
  shape.window = 400;
  const auto wide = load(shape);
  Text text = random_texts(rng, 1, 1, false)[0];
  text.tokens.assign(40, 11);
  text.tokens[20] = 12;
  EXPECT_NE(hidden_states(*m->model, {text}), hidden_states(*wide->model, {text}));
}

TEST(EncoderModel, AlibiSlopesAreThoseOfThePaper) {
  EXPECT_EQ(alibi_slopes(8, 8), (std::vector<float>{0.5F, 0.25F, 0.125F, 0.0625F, 0.03125F,
                                                    0.015625F, 0.0078125F, 0.00390625F}));
  const std::vector<float> twelve = alibi_slopes(12, 8);
  EXPECT_EQ(twelve.size(), 12U);
  EXPECT_EQ(twelve[7], 0.00390625F);
  EXPECT_FLOAT_EQ(twelve[8], std::exp2(-0.5F));
  EXPECT_FLOAT_EQ(twelve[9], std::exp2(-1.5F));
}

TEST(EncoderModel, SecondSegmentsAndPositionsAreChecked) {
  const auto m = load(EncoderModel{.context = 64});
  ASSERT_TRUE(m.ok()) << m.error().message;
  const auto refusal = [&](std::vector<int32_t> tokens, int32_t second, RowClass row_class) {
    auto state = m->model->states().create_sequence();
    StepPlan plan;
    plan.sequences.resize(1);
    SequenceRows& rows = plan.sequences[0];
    rows.state = state.get();
    rows.row_class = row_class;
    if (row_class == RowClass::kPrefill) rows.chunks = chunk_sizes(tokens, {});
    rows.tokens = std::move(tokens);
    rows.second_segment = second;
    const auto result = m->model->forward(plan);
    return result.ok() ? std::string("fine") : result.error().message;
  };
  EXPECT_EQ(refusal({5, 6, 7}, 2, RowClass::kPrefill), "fine");
  EXPECT_THAT(refusal({5, 6, 7}, 3, RowClass::kPrefill), testing::HasSubstr("second segment"));
  EXPECT_THAT(refusal({5, 6, 7}, -1, RowClass::kPrefill), testing::HasSubstr("second segment"));
  EXPECT_THAT(refusal(std::vector<int32_t>(65, 5), 0, RowClass::kPrefill),
              testing::HasSubstr("64 positions"));
  EXPECT_THAT(refusal({5, 1000}, 0, RowClass::kPrefill), testing::HasSubstr("token 1000"));
  EXPECT_THAT(refusal({5}, 0, RowClass::kDecode), testing::HasSubstr("one step"));
}

TEST(EncoderModel, AHeadScoresTheFirstRow) {
  std::mt19937 rng(fresh_seed());
  const auto m = load(EncoderModel{.seed = rng(), .pooling = 4});
  ASSERT_TRUE(m.ok()) << m.error().message;
  const RankHead* head = m->model->rank_head();
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->outputs(), 1U);
  EXPECT_EQ(head->input(), Pooling::kCls);
  const auto* dense = m->file->find_tensor("cls.weight");
  const auto* out = m->file->find_tensor("cls.output.weight");
  const auto floats = [&](const std::string& name) {
    return static_cast<const float*>(m->file->find_tensor(name)->data);
  };
  ASSERT_NE(dense, nullptr);
  ASSERT_NE(out, nullptr);
  std::vector<double> hidden(64);
  for (double& x : hidden) x = static_cast<double>(rng() % 1000) / 500 - 1;
  double expected = floats("cls.output.bias")[0];
  for (int r = 0; r < 64; ++r) {
    double sum = floats("cls.bias")[r];
    for (int i = 0; i < 64; ++i) sum += hidden[i] * floats("cls.weight")[r * 64 + i];
    expected += std::tanh(sum) * floats("cls.output.weight")[r];
  }
  EXPECT_NEAR(head->logits(hidden)[0], expected, 1e-9);
  EXPECT_NEAR(RankHead::probability(std::vector<double>{expected}), 1 / (1 + std::exp(-expected)),
              1e-12);
  EXPECT_NEAR(RankHead::probability(std::vector<double>{2, 1}), 1 / (1 + std::exp(-1.0)), 1e-12);
}

TEST(EncoderModel, RefusesFilesThatContradictThemselves) {
  const auto refusal = [](const EncoderModel& shape,
                          const std::function<void(gguf::Writer&)>& edit) {
    auto writer = test::make_encoder_model(shape);
    EXPECT_TRUE(writer.ok());
    edit(*writer);
    const auto m = load(*writer);
    return m.ok() ? std::string("loaded") : m.error().message;
  };
  const std::vector<float> row(64, 1);
  EXPECT_THAT(refusal({}, [](auto& w) { w.set_bool("bert.attention.causal", true); }),
              testing::HasSubstr("attention.causal"));
  EXPECT_THAT(refusal({}, [](auto& w) { w.set_u32("bert.context_length", 1000); }),
              testing::HasSubstr("position_embd.weight"));
  EXPECT_THAT(refusal({}, [](auto& w) { w.set_u32("bert.attention.head_count", 3); }),
              testing::HasSubstr("multiple of 16"));
  EXPECT_THAT(refusal({}, [](auto& w) { w.set_u32("bert.pooling_type", 5); }),
              testing::HasSubstr("pooling_type"));
  EXPECT_THAT(refusal({}, [](auto& w) { w.set_u32("bert.pooling_type", 4); }),
              testing::HasSubstr("cls.output.weight"));
  EXPECT_THAT(refusal({.pooling = 4}, [](auto& w) { w.set_u32("bert.pooling_type", 1); }),
              testing::HasSubstr("cls"));
  EXPECT_THAT(refusal({}, [](auto& w) { w.set_f32("bert.rope.freq_base_swa", 1e4F); }),
              testing::HasSubstr("freq_base_swa"));
  EXPECT_THAT(refusal({.architecture = "modern-bert"},
                      [](auto& w) { w.set_f32("modern-bert.rope.freq_base_swa", 0.5F); }),
              testing::HasSubstr("freq_base_swa"));
  EXPECT_THAT(refusal({.architecture = "nomic-bert"},
                      [&](auto& w) {
                        (void)w.add_tensor("blk.0.attn_norm_2.weight", {64}, DType::kF32,
                                           row.data(), row.size() * sizeof(float));
                      }),
              testing::HasSubstr("attn_norm_2"));
}

}  // namespace
}  // namespace chimere::model
