#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "base/fresh_seed.h"

namespace chimere::engine {
namespace {

const text::ReasoningTags kStopTags{.open = {"<think>"}, .close = {"</think>"}};

std::string push(StopMatcher& matcher, std::string_view text) {
  std::string released;
  matcher.push(text, released);
  return released;
}

TEST(StopMatcher, HoldsBackPossibleBeginningsOfStopStrings) {
  StopMatcher m({"User:", "\n\n"});
  EXPECT_EQ(push(m, "Hello U"), "Hello ");
  EXPECT_EQ(push(m, "se"), "");
  EXPECT_EQ(push(m, " it\n"), "Use it");
  EXPECT_EQ(push(m, "x"), "\nx");
  EXPECT_EQ(push(m, "Us"), "");
  EXPECT_EQ(push(m, "er: me"), "");
  EXPECT_TRUE(m.matched());
  EXPECT_EQ(push(m, "more"), "");
  EXPECT_EQ(m.finish(), "");
}

TEST(StopMatcher, ReleasesIncompleteStopStringsAtTheEnd) {
  StopMatcher m({"stop"});
  EXPECT_EQ(push(m, "don't sto"), "don't ");
  EXPECT_EQ(m.finish(), "sto");
  EXPECT_FALSE(m.matched());
  StopMatcher none({""});
  EXPECT_EQ(push(none, "abc"), "abc");
}

/// What is released of a text that is pushed in pieces of `n` bytes, and the match.
std::pair<std::string, std::string> run(StopMatcher m, std::string_view text, size_t n) {
  std::string out;
  for (size_t at = 0; at < text.size() && !m.matched(); at += n) m.push(text.substr(at, n), out);
  out += m.finish();
  return {out, m.match()};
}

TEST(StopMatcher, StopStringsActOnTheAnswerAlone) {
  using Start = StopMatcher::Start;
  struct Case {
    Start start;
    std::string_view text;
    std::string_view released;
    std::string_view match;
  };
  const Case cases[] = {
      // The prompt opens the reasoning.
      {Start::kThinking, "a stop\n\n</think>\n\nb stop c", "a stop\n\n</think>\n\nb ", "stop"},
      {Start::kThinking, "a stop\n\nb", "a stop\n\nb", ""},
      {Start::kThinking, "a sto</think>p", "a sto</think>p", ""},
      {Start::kThinking, "</think>stop", "</think>", "stop"},
      {Start::kThinking, "a</think>b\n\nc", "a</think>b", "\n\n"},
      {Start::kThinking, "a</thin</think", "a</thin</think", ""},
      // The model opens it, or not.
      {Start::kMayThink, "\n<think>a stop</think> stop", "\n<think>a stop</think> ", "stop"},
      {Start::kMayThink, "<think>a</think>b</think>", "<think>a</think>b", "</think>"},
      {Start::kMayThink, "a stop", "a ", "stop"},
      {Start::kMayThink, "<thi stop", "<thi ", "stop"},
      {Start::kMayThink, "<thi", "<thi", ""},
      {Start::kMayThink, "\n\na", "", "\n\n"},
      {Start::kMayThink, "\n\n", "", "\n\n"},
      // There is none.
      {Start::kContent, "<think>a stop", "<think>a ", "stop"},
      {Start::kContent, "<think>a</think>", "<think>a", "</think>"},
  };
  for (const Case& c : cases) {
    for (size_t n = 1; n <= c.text.size(); ++n) {
      SCOPED_TRACE(std::string(c.text) + ", " + std::to_string(n));
      const auto [released, match] =
          run(StopMatcher({"stop", "\n\n", "</think>"}, c.start, kStopTags), c.text, n);
      EXPECT_EQ(released, c.released);
      EXPECT_EQ(match, c.match);
    }
  }
}

TEST(StopMatcher, NoMatchBeginsInTheTextThatOpensTheAnswer) {
  using Start = StopMatcher::Start;
  text::ReasoningTags tags = kStopTags;
  tags.answer_open = "<response>";
  tags.answer_close = "</response>";
  const auto check = [&](Start start, std::string_view text, std::string_view released) {
    for (size_t n = 1; n <= text.size(); ++n) {
      SCOPED_TRACE(std::string(text) + ", " + std::to_string(n));
      EXPECT_EQ(run(StopMatcher({"<"}, start, tags), text, n),
                std::pair(std::string(released), std::string("<")));
    }
  };
  check(Start::kThinking, "a</think>\n<response>b<c", "a</think>\n<response>b");
  check(Start::kThinking, "a</think>b<response>", "a</think>b");
  check(Start::kThinking, "a</think><resp", "a</think>");
  check(Start::kMayThink, "<response>b</response>", "<response>b");
  check(Start::kMayThink, "<think>a</think><response><", "<think>a</think><response>");
  check(Start::kMayThink, "<resp", "");
  check(Start::kContent, "<response>b", "");
}

TEST(StopMatcher, ReasoningMayBeginLaterAndEndOtherwise) {
  StopMatcher m({"stop"}, StopMatcher::Start::kContent, kStopTags);
  std::string out;
  m.push("a sto", out);
  m.begin_reasoning();
  m.push("p stop</think>b", out);
  EXPECT_EQ(out, "a stop stop</think>b");
  EXPECT_FALSE(m.matched());
  m.push(" stop", out);
  EXPECT_TRUE(m.matched());
  StopMatcher told({"stop"}, StopMatcher::Start::kThinking, kStopTags);
  out.clear();
  told.push("stop</th", out);
  told.end_reasoning(out);
  EXPECT_EQ(out, "stop</th");
  told.push(" \nstop", out);
  EXPECT_EQ(out, "stop</th \n");
  EXPECT_TRUE(told.matched());

  const StopMatcher channels({"x"}, StopMatcher::Start::kThinking, {.close = {"<final>"}});
  EXPECT_EQ(run(channels, "x</think>x<final>yxz", 2),
            std::pair(std::string("x</think>x<final>y"), std::string("x")));
}

TEST(StopMatcher, AnEarlierTextTellsWhereTheReasoningEnds) {
  using Start = StopMatcher::Start;
  struct Case {
    Start start;
    std::string_view earlier;
    std::string_view released;  ///< of "stop</think> stop"
  };
  const Case cases[] = {
      {Start::kThinking, "", "stop</think> "},
      {Start::kThinking, "a stop", "stop</think> "},
      {Start::kThinking, "a</think>", ""},
      {Start::kThinking, "a</think>b", ""},
      {Start::kMayThink, "\n", ""},
      {Start::kMayThink, "\n<think>", "stop</think> "},
      {Start::kMayThink, "a<think>", ""},
      {Start::kContent, "<think>", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.earlier);
    StopMatcher m({"stop"}, c.start, kStopTags);
    m.skip(c.earlier);
    EXPECT_EQ(run(m, "stop</think> stop", 1),
              std::pair(std::string(c.released), std::string("stop")));
  }
  // The white space between reasoning and answer.
  StopMatcher m({"\n"}, Start::kThinking, kStopTags);
  m.skip("a</think>\n");
  EXPECT_EQ(run(m, "\nb\nc", 2), std::pair(std::string("\nb"), std::string("\n")));
}

TEST(StopMatcher, WithoutTagsNothingEndsReasoning) {
  for (size_t n = 1; n <= 12; ++n) {
    EXPECT_EQ(run(StopMatcher({"stop"}, StopMatcher::Start::kThinking), "a stop</x> stop", n),
              std::pair(std::string("a stop</x> stop"), std::string()));
    EXPECT_EQ(run(StopMatcher({"stop"}, StopMatcher::Start::kMayThink), "a stop", n),
              std::pair(std::string("a "), std::string("stop")));
  }
}

TEST(StopMatcher, TheResultDoesNotDependOnHowTheTextIsSplit) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto word = [&](size_t max) {
    std::string s;
    for (size_t n = 1 + random() % max; n > 0; --n) s += static_cast<char>('a' + random() % 2);
    return s;
  };
  int matches = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::vector<std::string> stops = {word(5), word(5), word(6)};
    const std::string text = word(12);
    // The definition: the earliest end, then the earliest start.
    std::string expected = text;
    for (size_t end = 1; end <= text.size() && expected == text; ++end) {
      for (size_t begin = 0; begin < end; ++begin) {
        if (std::find(stops.begin(), stops.end(), text.substr(begin, end - begin)) != stops.end()) {
          expected = text.substr(0, begin);
          break;
        }
      }
    }
    StopMatcher m(stops);
    std::string shown;
    for (size_t at = 0; at < text.size() && !m.matched();) {
      const size_t n = 1 + random() % 4;
      m.push(std::string_view(text).substr(at, n), shown);
      at += n;
    }
    shown += m.finish();
    ASSERT_EQ(shown, expected) << text << " " << stops[0] << " " << stops[1] << " " << stops[2];
    matches += m.matched();
  }
  EXPECT_GT(matches, 1000);
}

}  // namespace
}  // namespace chimere::engine
