#include "prompt_words.h"

#include <gtest/gtest.h>

namespace chimere::app {
namespace {

PromptWords read(const std::vector<std::string>& words, bool named = false) {
  auto out = read_prompt_words(words, named, [](const std::string& name) {
    return name == "mini" ? Status() : Status(not_found("There is no model " + name));
  });
  EXPECT_TRUE(out.ok());
  return out.ok() ? *out : PromptWords();
}

bool refused(const std::vector<std::string>& words) {
  return !read_prompt_words(words, false, [](const std::string&) {
            return Status(not_found("none"));
          }).ok();
}

TEST(PromptWords, AModelThenThePrompt) {
  EXPECT_EQ(read({"mini", "what is ls"}).model, "mini");
  EXPECT_EQ(read({"mini", "what is ls"}).prompt, "what is ls");
  EXPECT_EQ(read({"mini", "what", "is", "ls"}).prompt, "what is ls");
  EXPECT_EQ(read({"mini"}).model, "mini");
  EXPECT_FALSE(read({"mini"}).prompt);
}

TEST(PromptWords, APromptAlone) {
  EXPECT_EQ(read({"what is ls"}).prompt, "what is ls");
  EXPECT_EQ(read({"what", "is", "ls"}).prompt, "what is ls");
  EXPECT_EQ(read({"what", "is", "ls"}).notice, "");
  EXPECT_EQ(read({"hello"}).prompt, "hello");
  EXPECT_NE(read({"hello"}).notice, "");
  EXPECT_EQ(read({""}).prompt, "");
  EXPECT_FALSE(read({}).prompt);
}

TEST(PromptWords, WithModelAllWordsAreThePrompt) {
  EXPECT_EQ(read({"mini", "is small"}, true).prompt, "mini is small");
  EXPECT_EQ(read({"mini"}, true).prompt, "mini");
  EXPECT_EQ(read({"mini"}, true).notice, "");
}

TEST(PromptWords, AMissingModelIsNoPrompt) {
  EXPECT_TRUE(refused({"qwen3", "Tell me a joke"}));
  EXPECT_TRUE(refused({"a/b", "hello"}));
  EXPECT_TRUE(refused({"a/b:Q4"}));
  EXPECT_TRUE(refused({"model.gguf"}));
  EXPECT_FALSE(refused({"either/or is a book"}));
  EXPECT_FALSE(refused({"List:"}));
}

}  // namespace
}  // namespace chimere::app
