#include "text/reasoning_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace chimere::text {
namespace {

using Start = ReasoningSplitter::Start;

const ReasoningTags kSplitTags{.open = {"<think>"}, .close = {"</think>"}};

/// Reasoning and content of a text that arrives in pieces of `size` bytes.
std::pair<std::string, std::string> split(Start start, const std::string& text, size_t size,
                                          const ReasoningTags& tags) {
  ReasoningSplitter splitter(start, tags);
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

/// The text with other tags.
std::string with_tags(std::string text, const ReasoningTags& tags) {
  for (const auto& [from, to] :
       {std::pair(&kSplitTags.close, &tags.close), std::pair(&kSplitTags.open, &tags.open)}) {
    for (size_t at = 0; (at = text.find(from->text, at)) != std::string::npos;) {
      text.replace(at, from->text.size(), to->text);
      at += to->text.size();
    }
  }
  return text;
}

void check_split(const Case& c, const ReasoningTags& tags) {
  for (size_t size = 1; size <= c.text.size(); ++size) {
    const auto [reasoning, content] = split(c.start, c.text, size, tags);
    EXPECT_EQ(reasoning, c.reasoning) << c.text << " in pieces of " << size;
    EXPECT_EQ(content, c.content) << c.text << " in pieces of " << size;
  }
}

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
  const ReasoningTags all[] = {
      kSplitTags,
      {.open = {"[THINK]"}, .close = {"[/THINK]"}},
      {.open = {"<seed:think>"}, .close = {"</seed:think>"}},
      {.open = {"<|START_THINKING|>"}, .close = {"<|END_THINKING|>"}},
      {.open = {"<think>"},
       .close = {"</think>"},
       .answer_open = "<response>",
       .answer_close = "</response>"},
  };
  for (const ReasoningTags& tags : all) {
    for (const Case& c : cases) {
      check_split({c.start, with_tags(c.text, tags), with_tags(c.reasoning, tags),
                   with_tags(c.content, tags)},
                  tags);
    }
  }
}

TEST(ReasoningSplitter, DropsTheTextsAroundTheAnswer) {
  const ReasoningTags tags{.open = {"<think>"},
                           .close = {"</think>"},
                           .answer_open = "<response>",
                           .answer_close = "</response>"};
  const Case cases[] = {
      {Start::kMayThink, "<think>hm</think><response>yes</response>", "hm", "yes"},
      {Start::kMayThink, "<think>hm</think>\n<response>\n\nyes </resp", "hm", "yes </resp"},
      {Start::kMayThink, "<think>hm</think> <resp yes</response>", "hm", "<resp yes</response>"},
      {Start::kMayThink, "<think>hm</think> <resp", "hm", "<resp"},
      {Start::kMayThink, "<think>hm</think>\n", "hm", ""},
      {Start::kMayThink, "\n<response>a</response> b</response>", "", "a b</response>"},
      {Start::kMayThink, "<response> </response>", "", ""},
      {Start::kMayThink, "yes</response>", "", "yes</response>"},
      {Start::kThinking, "hm <response></think><response>yes", "hm <response>", "yes"},
      {Start::kContent, "<response>yes</response>", "", "<response>yes</response>"},
  };
  for (const Case& c : cases) check_split(c, tags);
}

TEST(ReasoningSplitter, WithoutTagsEverythingIsContent) {
  check_split({Start::kMayThink, " <think>x</think>", "", " <think>x</think>"}, {});
  check_split({Start::kThinking, "x</think>", "", "x</think>"}, {});
}

TEST(ReasoningSplitter, AGenerationInPartsHasEachByteOnce) {
  const std::string text = "a < b\n  </x <c";
  for (size_t cut = 1; cut < text.size(); ++cut) {
    SCOPED_TRACE(cut);
    std::string reasoning;
    std::string earlier;
    for (const std::string& part : {text.substr(0, cut), text.substr(cut)}) {
      ReasoningSplitter splitter(Start::kThinking, kSplitTags);
      splitter.skip(earlier);
      for (const char c : part) reasoning += splitter.push({&c, 1}).reasoning;
      reasoning += splitter.finish().reasoning;
      earlier += part;
    }
    EXPECT_EQ(reasoning, text);
  }
  ReasoningSplitter splitter(Start::kThinking, kSplitTags);
  splitter.skip("why</think>\n\nsince");
  EXPECT_EQ(splitter.push(" <b>").content, " <b>");
}

TEST(ReasoningSplitter, ReleasesReasoningBeforeItEnds) {
  ReasoningSplitter splitter(Start::kThinking, kSplitTags);
  EXPECT_EQ(splitter.push("one ").reasoning, "one");
  EXPECT_EQ(splitter.push("two").reasoning, " two");
  EXPECT_TRUE(splitter.thinking());
  EXPECT_EQ(splitter.push("</think>").reasoning, "");
  EXPECT_FALSE(splitter.thinking());
}

}  // namespace
}  // namespace chimere::text
