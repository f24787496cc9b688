#include "text/reasoning_splitter.h"

#include <gtest/gtest.h>

#include <string>

namespace chimere::text {
namespace {

using Start = ReasoningSplitter::Start;

/// Reasoning and content of a text that arrives in pieces of `size` bytes.
std::pair<std::string, std::string> split(Start start, const std::string& text, size_t size) {
  ReasoningSplitter splitter(start);
  std::pair<std::string, std::string> out;
  const auto add = [&](const ReasoningSplitter::Piece& piece) {
    out.first += piece.reasoning;
    out.second += piece.content;
  };
  for (size_t at = 0; at < text.size(); at += size) add(splitter.push(text.substr(at, size)));
  add(splitter.finish());
  return out;
}

struct Case {
  Start start;
  std::string text;
  std::string reasoning;
  std::string content;
};

TEST(ReasoningSplitter, TheResultDoesNotDependOnThePieces) {
  const Case cases[] = {
      {Start::kThinking, "\nI think.\n\nA lot.\n</think>\n\nSo it is.", "I think.\n\nA lot.",
       "So it is."},
      {Start::kThinking, "a < b </thin\n</think>c</think>", "a < b </thin", "c</think>"},
      {Start::kThinking, "never ends </thi", "never ends </thi", ""},
      {Start::kThinking, "never ends \n", "never ends", ""},
      {Start::kThinking, "</think>\n\nat once", "", "at once"},
      {Start::kMayThink, "\n<think>\nhm\n</think>\nyes", "hm", "yes"},
      {Start::kMayThink, "<thinking is hard", "", "<thinking is hard"},
      {Start::kMayThink, " \n<thi", "", " \n<thi"},
      {Start::kMayThink, "plain <think>text</think>", "", "plain <think>text</think>"},
      {Start::kContent, "<think>x</think>", "", "<think>x</think>"},
  };
  for (const Case& c : cases) {
    for (size_t size = 1; size <= c.text.size(); ++size) {
      const auto [reasoning, content] = split(c.start, c.text, size);
      EXPECT_EQ(reasoning, c.reasoning) << c.text << " in pieces of " << size;
      EXPECT_EQ(content, c.content) << c.text << " in pieces of " << size;
    }
  }
}

TEST(ReasoningSplitter, ReleasesReasoningBeforeItEnds) {
  ReasoningSplitter splitter(Start::kThinking);
  EXPECT_EQ(splitter.push("one ").reasoning, "one");
  EXPECT_EQ(splitter.push("two").reasoning, " two");
  EXPECT_TRUE(splitter.thinking());
  EXPECT_EQ(splitter.push("</think>").reasoning, "");
  EXPECT_FALSE(splitter.thinking());
}

TEST(ReasoningSplitter, DetectsHowAGenerationStarts) {
  EXPECT_EQ(reasoning_start("{{ messages }}", "<think>\n"), Start::kContent);
  EXPECT_EQ(reasoning_start("a <think> b </think>", "assistant\n<think>\n"), Start::kThinking);
  EXPECT_EQ(reasoning_start("a <think> b </think>", "<think>\n\n</think>\n\n"), Start::kMayThink);
}

}  // namespace
}  // namespace chimere::text
