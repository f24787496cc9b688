#include "suggestions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"

namespace chimere::app {
namespace {

TEST(Suggestions, RowsAreUniqueAndNameFlagsThatExist) {
  // Flags of commands that are not settings.
  const std::set<std::string> others = {"--state", "--stop", "--raw", "--grammar", "--json-schema"};
  std::set<std::string_view> names;
  for (const ForeignFlag& flag : foreign_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_TRUE(flag.name.starts_with('-')) << flag.name;
    ASSERT_FALSE(flag.advice.empty()) << flag.name;
    EXPECT_FALSE(flag.advice.ends_with('.')) << flag.name;
    const std::string advice(flag.advice);
    for (size_t at = 0; (at = advice.find("--", at)) != std::string::npos;) {
      const size_t end =
          std::min(advice.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at), advice.size());
      const std::string ours = advice.substr(at, end - at);
      EXPECT_TRUE(settings::find(ours.substr(2)) != nullptr || others.contains(ours))
          << flag.name << ": " << ours;
      at = end;
    }
  }
}

TEST(Suggestions, FindsTheFirstFlagThatTheCommandLacks) {
  const auto none = [](const std::string& /*name*/) { return false; };
  const auto file = [](const std::string& name) { return name == "-f"; };
  using Words = std::vector<std::string>;
  const auto name = [](const ForeignFlag* flag) {
    return flag == nullptr ? std::string() : std::string(flag->name);
  };
  EXPECT_EQ(name(find_foreign_flag(Words{"run", "-n", "5", "-ngl", "99"}, none)), "-ngl");
  EXPECT_EQ(name(find_foreign_flag(Words{"run", "--ctx-size=5", "-ngl"}, none)), "--ctx-size");
  EXPECT_EQ(name(find_foreign_flag(Words{"run", "-f", "x", "-ngl"}, file)), "-ngl");
  EXPECT_EQ(name(find_foreign_flag(Words{"tokenize", "--", "-ngl"}, none)), "");
  EXPECT_EQ(name(find_foreign_flag(Words{"run", "-p", "x"}, none)), "");
}

TEST(Suggestions, QuotesAPrompt) {
  EXPECT_EQ(prompt_suggestion({"it's", "me"}), R"(did you mean `chimere run 'it'\''s me'`)");
  EXPECT_EQ(prompt_suggestion({"hello", "--frob"}), "");
  EXPECT_EQ(prompt_suggestion({}), "");
}

TEST(Suggestions, NamesTheCommandThatTakesAPrompt) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(command_suggestion(Words{"-m", "a/b:Q4", "-p", "it's"}),
            R"(flags follow the command: chimere run -m a/b:Q4 -p 'it'\''s')");
  EXPECT_EQ(command_suggestion(Words{"--prompt="}),
            "flags follow the command: chimere run --prompt=");
  EXPECT_EQ(command_suggestion(Words{"-m", "x"}), "");
}

}  // namespace
}  // namespace chimere::app
