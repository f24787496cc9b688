// What words, commands and flags of other programs become.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "foreign_flags.h"
#include "given_command.h"

namespace chimere::app {
namespace {

using Words = std::vector<std::string>;

OwnArguments translate(const Words& words, const std::set<std::string>& own) {
  return without_foreign_flags(words, [&](const std::string& name) {
    return OwnFlag{own.contains(name), own.contains(name)};
  });
}

Words command(const Words& words) {
  const Words commands = {"run", "chat", "list", "inspect", "serve", "quantize"};
  auto out = with_command(words, commands, [](const std::string& name) { return name == "mini"; });
  return out.ok() ? *out : Words{"ERROR", out.error().message};
}

TEST(ForeignFlags, RowsAreUniqueAndNameFlagsThatExist) {
  // Flags of commands that are not settings.
  const std::set<std::string> others = {"--state", "--stop", "--grammar", "--json-schema",
                                        "--system"};
  std::set<std::string_view> names;
  const auto exists = [&](const std::string& flag) {
    return settings::find(flag.substr(2)) != nullptr || others.contains(flag);
  };
  for (const ForeignFlag& flag : foreign_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_TRUE(flag.name.starts_with('-')) << flag.name;
    if (flag.use == ForeignFlag::Use::kSynonym) {
      EXPECT_TRUE(exists(std::string(flag.ours))) << flag.name;
      continue;
    }
    ASSERT_FALSE(flag.advice.empty()) << flag.name;
    EXPECT_FALSE(flag.advice.ends_with('.')) << flag.name;
    const std::string advice(flag.advice);
    for (size_t at = 0; (at = advice.find("--", at)) != std::string::npos;) {
      const size_t end =
          std::min(advice.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at), advice.size());
      EXPECT_TRUE(exists(advice.substr(at, end - at))) << flag.name << ": " << advice;
      at = end;
    }
  }
}

TEST(ForeignFlags, SynonymsAreReplaced) {
  const std::set<std::string> own = {"--ctx", "--temp", "--model", "-p"};
  EXPECT_EQ(
      translate({"--ctx-size", "5", "--temperature=0", "-hf", "a/b", "-p", "-ngl"}, own).words,
      (Words{"--ctx", "5", "--temp=0", "--model", "a/b", "-p", "-ngl"}));
  EXPECT_EQ(translate({"--ctx_size", "5"}, own).words, (Words{"--ctx", "5"}));
  EXPECT_EQ(translate({"--frob_nicate", "-p"}, own).words, (Words{"--frob_nicate", "-p"}));
  EXPECT_NE(translate({"--n-predict", "5"}, own).refusal.find("--max-tokens"), std::string::npos);
}

TEST(ForeignFlags, FlagsThatChangeNothingGoWithTheirValue) {
  const OwnArguments taken =
      translate({"-ngl", "99", "--no-mmap", "x", "-fa", "on", "-fa", "y", "-b=5"}, {});
  EXPECT_EQ(taken.words, (Words{"x", "y"}));
  ASSERT_EQ(taken.notices.size(), 5U);
  EXPECT_TRUE(taken.notices[0].starts_with("-ngl changes nothing here: "));
  EXPECT_TRUE(taken.notices[0].ends_with('.'));
  EXPECT_EQ(taken.refusal, "");
}

TEST(ForeignFlags, OthersAreRefusedUnlessTheCommandHasThem) {
  EXPECT_NE(translate({"--mmproj", "x"}, {}).refusal.find("--mmproj is a flag of another program"),
            std::string::npos);
  EXPECT_EQ(translate({"--file", "-ngl"}, {"--file"}).words, (Words{"--file", "-ngl"}));
  EXPECT_EQ(translate({"--", "--mmproj"}, {}).words, (Words{"--", "--mmproj"}));
}

TEST(GivenCommand, IsTheFirstWordIfThereIsOne) {
  for (const Words& words : {Words{}, {"list", "x"}, {"--help"}, {"-h"}, {"--version"}}) {
    EXPECT_EQ(command(words), words);
  }
}

TEST(GivenCommand, IsRunForPromptsModelsAndFlags) {
  for (const Words& words : {Words{"what is ls"},
                             {"mini"},
                             {"mini", "hi"},
                             {"a/b:Q4"},
                             {"x.gguf"},
                             {"-m", "x", "-p", "hi"},
                             {"tell", "me", "a joke"},
                             {"show", "me", "a list"}}) {
    Words expected = words;
    expected.insert(expected.begin(), "run");
    EXPECT_EQ(command(words), expected);
  }
}

TEST(GivenCommand, OfOllamaIsTranslatedOrAnswered) {
  EXPECT_EQ(command({"ls"}), (Words{"list"}));
  EXPECT_EQ(command({"show", "mini"}), (Words{"inspect", "mini"}));
  EXPECT_NE(command({"ps"})[1].find("'ps' is a command of another program"), std::string::npos);
  EXPECT_EQ(command({"push", "mini"})[0], "ERROR");
}

TEST(GivenCommand, TypingErrorsAreNamed) {
  EXPECT_NE(command({"rnu", "hi"})[1].find("did you mean `chimere run`?"), std::string::npos);
  EXPECT_EQ(command({"rnu", "the", "test"})[0], "run");
  EXPECT_NE(command({"quantise"})[1].find("`chimere quantize`"), std::string::npos);
  EXPECT_NE(command({"it's"})[1].find(R"(`chimere run 'it'\''s'`)"), std::string::npos);
}

TEST(GivenCommand, TheProgramIsNamedAsItWasCalled) {
  EXPECT_EQ(program_word("chimere"), "chimere");
  EXPECT_EQ(program_word("build/chimere"), "build/chimere");
  EXPECT_EQ(program_word("/a folder/chimere"), "'/a folder/chimere'");
  EXPECT_EQ(program_word(""), "chimere");
}

TEST(GivenCommand, APromptForAnotherCommandIsQuoted) {
  EXPECT_EQ(prompt_suggestion(Words{"it's", "me"}), R"(did you mean `chimere run 'it'\''s me'`?)");
  EXPECT_EQ(prompt_suggestion(Words{"hello", "--frob"}), "");
  EXPECT_EQ(prompt_suggestion(Words{}), "");
}

}  // namespace
}  // namespace chimere::app
