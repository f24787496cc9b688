// Converts tokenizers and compares the keys with those of llama.cpp's converter, and the tokens of
// a text with those of transformers (README.md here).
#include "convert/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "gguf/writer.h"
#include "model/vocabulary.h"
#include "text/tokenizer.h"

namespace chimere {
namespace {

using Json = nlohmann::json;

Json read(const std::string& path) {
  std::ifstream in(path);
  return Json::parse(in);
}

struct Case {
  std::string name;
  /// Keys whose values differ from llama.cpp's on purpose (README.md says why).
  std::vector<std::string> other;
};

std::vector<Case> cases() {
  return {{"qwen2", {}},   {"llama-bpe", {}},
          {"gpt-2", {}},   {"spm", {"tokenizer.ggml.scores", "tokenizer.ggml.token_type"}},
          {"spmodel", {}}, {"bert", {}}};
}

class ConvertedTokenizer : public testing::TestWithParam<Case> {
 protected:
  std::string folder() const {
    return std::string(CHIMERE_CONVERT_TOKENIZERS) + "/" + GetParam().name;
  }
  void SetUp() override {
    auto config = convert::Config::of(read(folder() + "/config.json"));
    ASSERT_TRUE(config.ok()) << config.error().message;
    const auto entries = config->integer({"vocab_size"});
    ASSERT_TRUE(entries.ok());
    gguf::Writer writer;
    writer.set_string("general.architecture", "any");
    const Status written = convert::write_tokenizer(
        {.folder = folder(), .entries = *entries, .add_bos = false}, *config, writer);
    ASSERT_TRUE(written.ok()) << written.error().message;
    bytes_ = writer.bytes();
    auto file = gguf::Reader::from_bytes(bytes_.data(), bytes_.size());
    ASSERT_TRUE(file.ok()) << file.error().message;
    file_ = *std::move(file);
  }

  std::vector<uint8_t> bytes_;
  std::unique_ptr<gguf::Reader> file_;
};

TEST_P(ConvertedTokenizer, HasTheKeysOfLlamaCpp) {
  const auto theirs = gguf::Reader::open(folder() + "/llama_cpp.gguf");
  ASSERT_TRUE(theirs.ok()) << theirs.error().message;
  int compared = 0;
  for (const std::string& key : (*theirs)->keys()) {
    if (!key.starts_with("tokenizer.")) continue;
    const auto& other = GetParam().other;
    if (std::find(other.begin(), other.end(), key) != other.end()) continue;
    const gguf::Value* const ours = file_->find(key);
    if (ours == nullptr) {
      ADD_FAILURE() << key << " is missing";
      continue;
    }
    EXPECT_TRUE(*ours == *(*theirs)->find(key)) << key;
    ++compared;
  }
  EXPECT_GT(compared, 4);
}

TEST_P(ConvertedTokenizer, GivesTheTokensOfTransformers) {
  auto vocabulary = model::vocabulary_from_gguf(*file_);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  const auto tokenizer = text::Tokenizer::create(*std::move(vocabulary));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const Json expected = read(folder() + "/ids.json");
  auto ids = expected["ids"].get<std::vector<int32_t>>();
  // What transformers puts around a text.
  if (ids.front() == (*tokenizer)->bos()) ids.erase(ids.begin());
  if ((*tokenizer)->add_eos() && ids.back() == (*tokenizer)->eos()) ids.pop_back();
  EXPECT_EQ((*tokenizer)->encode(expected["text"].get<std::string>(), /*parse_special=*/true), ids);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ConvertedTokenizer, testing::ValuesIn(cases()),
                         [](const auto& one) {
                           std::string name = one.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// A unigram model with SentencePiece's own character map (nmt_nfkc), trained and applied by
/// SentencePiece (unigram.py).
TEST(UnigramTokenizer, GivesTheTokensOfSentencePiece) {
  const std::string folder = std::string(CHIMERE_CONVERT_TOKENIZERS) + "/unigram";
  const auto config = convert::Config::of(read(folder + "/config.json"));
  ASSERT_TRUE(config.ok()) << config.error().message;
  constexpr int64_t kEntries = 1200;
  gguf::Writer writer;
  writer.set_string("general.architecture", "any");
  const Status written = convert::write_tokenizer(
      {.folder = folder, .entries = kEntries, .add_bos = false}, *config, writer);
  ASSERT_TRUE(written.ok()) << written.error().message;
  const std::vector<uint8_t> bytes = writer.bytes();
  const auto file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto vocabulary = model::vocabulary_from_gguf(**file);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->bos, 0);
  EXPECT_EQ(vocabulary->eos, 2);
  EXPECT_TRUE(vocabulary->add_bos);
  EXPECT_TRUE(vocabulary->add_eos);
  EXPECT_GT(vocabulary->precompiled_charsmap.size(), size_t{100000});
  const auto tokenizer = text::Tokenizer::create(*std::move(vocabulary));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const Json expected = read(folder + "/ids.json");
  size_t tokens = 0;
  for (size_t i = 0; i < expected["lines"].size(); ++i) {
    const auto line = expected["lines"][i].get<std::string>();
    const auto ids = expected["ids"][i].get<std::vector<int32_t>>();
    EXPECT_EQ((*tokenizer)->encode(line, /*parse_special=*/false), ids) << line;
    tokens += ids.size();
  }
  EXPECT_GT(tokens, size_t{1000});
}

}  // namespace
}  // namespace chimere
