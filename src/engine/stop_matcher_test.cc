#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/fresh_seed.h"

namespace chimere::engine {
namespace {

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
