#include "vocabulary/bpe_trainer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/fresh_seed.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace chimere::train {
namespace {

using text::ByteAlphabet;
using text::Tokenizer;

/// Reference: recounts all pairs for every merge.
std::vector<std::string> plain_merges(const WordCounts& counts, int n_merges, int64_t min_count) {
  std::vector<std::pair<std::vector<std::string>, int64_t>> words;
  for (const auto& [text, count] : counts) {
    std::vector<std::string> symbols;
    for (const char c : text) symbols.emplace_back(1, c);
    words.emplace_back(symbols, count);
  }
  std::map<std::string, int> id;
  for (int b = 0; b < 256; ++b) id[std::string(1, static_cast<char>(b))] = b;
  std::vector<std::string> merges;
  while (static_cast<int>(id.size()) < 256 + n_merges) {
    std::map<std::pair<int, int>, int64_t> pairs;
    std::map<int, std::string> text_of;
    for (const auto& [text, number] : id) text_of[number] = text;
    for (const auto& [symbols, count] : words) {
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        pairs[{id[symbols[i]], id[symbols[i + 1]]}] += count;
      }
    }
    std::pair<int, int> best;
    int64_t best_count = 0;
    for (const auto& [pair, count] : pairs) {
      if (count > best_count) {
        best = pair;
        best_count = count;
      }
    }
    if (best_count < min_count) break;
    const std::string left = text_of[best.first];
    const std::string right = text_of[best.second];
    id.emplace(left + right, static_cast<int>(id.size()));
    const ByteAlphabet& alphabet = ByteAlphabet::get();
    merges.push_back(alphabet.encode(left) + " " + alphabet.encode(right));
    for (auto& [symbols, count] : words) {
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] == left && symbols[i + 1] == right) {
          symbols[i] += symbols[i + 1];
          symbols.erase(symbols.begin() + i + 1);
        }
      }
    }
  }
  return merges;
}

TEST(BpeTrainer, EqualsTheReference) {
  const auto seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    const int letters = 1 + static_cast<int>(random() % 5);
    WordCounts counts;
    for (int w = 0; w < 60; ++w) {
      std::string word;
      const int length = 1 + static_cast<int>(random() % 12);
      for (int i = 0; i < length; ++i) word.push_back(static_cast<char>('a' + random() % letters));
      counts[word] += 1 + random() % 9;
    }
    BpeTrainOptions options;
    options.vocab_size = 256 + 40;
    const auto vocabulary = train_bpe(counts, options);
    ASSERT_TRUE(vocabulary.ok());
    EXPECT_EQ(vocabulary->merges, plain_merges(counts, 40, options.min_count));
    EXPECT_LE(vocabulary->tokens.size(), 296u);
  }
}

TEST(BpeTrainer, PutsNamedTokensLastAndTheTokenizerWorks) {
  WordCounts counts;
  ASSERT_TRUE(count_words("qwen2", "the cat sat on the mat, the cat sat on the hat.", counts).ok());
  EXPECT_EQ(counts.at(" the"), 3);
  EXPECT_EQ(counts.at("the"), 1);
  BpeTrainOptions options;
  options.vocab_size = 280;
  options.control_tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  options.user_defined_tokens = {"<think>"};
  auto vocabulary = train_bpe(counts, options);
  ASSERT_TRUE(vocabulary.ok());
  const size_t n = vocabulary->tokens.size();
  EXPECT_EQ(vocabulary->tokens[n - 1], "<|im_end|>");
  EXPECT_EQ(vocabulary->tokens[n - 4], "<think>");
  auto tokenizer = Tokenizer::create(*std::move(vocabulary));
  ASSERT_TRUE(tokenizer.ok());
  const std::vector<int32_t> ids = (*tokenizer)->encode("the cat<|im_end|>", true);
  EXPECT_EQ(ids.back(), static_cast<int32_t>(n - 1));
  EXPECT_LT(ids.size(), 6u);
  EXPECT_EQ((*tokenizer)->decode(ids, true), "the cat<|im_end|>");
}

TEST(BpeTrainer, RespectsItsLimits) {
  const WordCounts counts = {{"aaaaaaaaaaaaaaaa", 10}, {"bc", 1}};
  BpeTrainOptions options;
  options.vocab_size = 300;
  options.max_token_bytes = 4;
  const auto vocabulary = train_bpe(counts, options);
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->merges, (std::vector<std::string>{"a a", "aa aa"}));
  options.vocab_size = 256;
  options.control_tokens = {"<end>"};
  EXPECT_FALSE(train_bpe(counts, options).ok());
  WordCounts none;
  EXPECT_FALSE(count_words("no such rule", "text", none).ok());
}

}  // namespace
}  // namespace chimere::train
