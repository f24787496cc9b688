// Files of other converters: names of tensors that differ, and tensors of parts that are not run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "model/vocabulary.h"
#include "support/model_runner.h"
#include "support/tiny_model.h"
#include "support/vocabulary.h"

namespace chimere::model {
namespace {

using test::Runner;
using testing::HasSubstr;

gguf::Writer tiny(bool bare_dt) {
  test::TinyModel shape;
  shape.architecture = "qwen35moe";
  shape.bare_dt = bare_dt;
  return test::make_tiny_model(shape).value();
}

void add_zeros(gguf::Writer& writer, const std::string& name) {
  const std::vector<float> zeros(32 * 4);
  EXPECT_TRUE(writer.add_tensor(name, {32, 4}, DType::kF32, zeros.data(), zeros.size() * 4).ok());
}

TEST(OtherConverters, AnSsmDtWithoutItsSuffixIsTheBias) {
  std::mt19937 rng(fresh_seed());
  const auto prompt = test::random_tokens(rng, 64, 20);
  const auto more = test::random_tokens(rng, 64, 4);
  const Runner usual(tiny(false).bytes());
  const Runner bare(tiny(true).bytes());
  ASSERT_NE(bare.model, nullptr) << bare.error.message;
  EXPECT_EQ(test::answer(bare, prompt, more), test::answer(usual, prompt, more));
  EXPECT_EQ(bare.model->left_out(), "");
}

TEST(OtherConverters, TensorsOfOtherPartsAreLeftOutAndCounted) {
  std::mt19937 rng(fresh_seed());
  const auto prompt = test::random_tokens(rng, 64, 20);
  const auto more = test::random_tokens(rng, 64, 4);
  gguf::Writer writer = tiny(false);
  for (const char* name :
       {"v.blk.0.attn_q.weight", "v.blk.1.attn_q.weight", "mm.0.weight", "mtp.fc.weight",
        "a.conv1d.1.weight", "blk.4.nextn.eh_proj.weight", "blk.4.attn_norm.weight"}) {
    add_zeros(writer, name);
  }
  writer.set_i32s("qwen35moe.rope.dimension_sections", {2, 1, 1});
  writer.set_i32s("qwen35moe.attention.head_count_kv", {0, 0, 0, 2});
  const Runner whole(writer.bytes());
  ASSERT_NE(whole.model, nullptr) << whole.error.message;
  EXPECT_EQ(whole.model->left_out(),
            "Only the text model of the file is run: 7 tensors are left out, a.* (1), blk.4.* (2), "
            "mm.* (1), mtp.* (1), v.* (2).");
  EXPECT_EQ(test::answer(whole, prompt, more),
            test::answer(Runner(tiny(false).bytes()), prompt, more));
}

TEST(OtherConverters, UnknownTensorsOfTheTextModelAreRefusedByName) {
  for (const char* name : {"blk.0.attn_gate_b.weight", "blk.4.attn_norm.weight", "dense_2.weight",
                           "vx.weight", "output_scale.weight"}) {
    gguf::Writer writer = tiny(false);
    add_zeros(writer, name);
    const Runner runner(writer.bytes());
    EXPECT_EQ(runner.model, nullptr);
    EXPECT_THAT(runner.error.message, HasSubstr(name));
  }
}

Result<text::Vocabulary> vocabulary_of(const gguf::Writer& writer, std::string& corrected) {
  const std::vector<uint8_t> bytes = writer.bytes();
  CHIMERE_TRY(const auto file, gguf::Reader::from_bytes(bytes.data(), bytes.size()));
  return vocabulary_from_gguf(*file, &corrected);
}

TEST(OtherConverters, ControlTokensOfTheWrongTypeAreCorrectedWithALine) {
  std::string corrected;
  gguf::Writer writer;
  test::write_vocabulary(writer, 300);
  const auto right = vocabulary_of(writer, corrected);
  ASSERT_TRUE(right.ok());
  EXPECT_EQ(corrected, "");
  // <|im_start|> and <|im_end|> are the last two of 300.
  std::vector<int32_t> types(300, 1);
  types[297] = 3;
  writer.set_i32s("tokenizer.ggml.token_type", types);
  const auto wrong = vocabulary_of(writer, corrected);
  ASSERT_TRUE(wrong.ok());
  EXPECT_EQ(wrong->types, right->types);
  EXPECT_THAT(corrected, HasSubstr("declares 2 control tokens as ordinary text"));
  EXPECT_THAT(corrected, HasSubstr("the first <|im_start|>"));
  // A token that merges lead to is a word.
  corrected.clear();
  writer.set_strings("tokenizer.ggml.merges", {"t h", "<|im_start |>"});
  EXPECT_EQ(vocabulary_of(writer, corrected)->types[298], 1);
  EXPECT_THAT(corrected, HasSubstr("declares 1 control token as"));
}

TEST(OtherConverters, AVocabularyWithoutMergesIsRefused) {
  std::string corrected;
  gguf::Writer writer;
  test::write_vocabulary(writer, 300);
  writer.set_strings("tokenizer.ggml.merges", {});
  const auto read = vocabulary_of(writer, corrected);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message, HasSubstr("tokenizer.ggml.merges"));
}

}  // namespace
}  // namespace chimere::model
