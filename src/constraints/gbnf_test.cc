#include "constraints/gbnf.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "constraints/earley_machine.h"

namespace chimere::constraints {
namespace {

const FindToken kNoToken = [](std::string_view text) { return text == "<think>" ? 7 : -1; };

bool matches(std::string_view gbnf, std::string_view text) {
  const auto grammar = parse_gbnf(gbnf, kNoToken);
  EXPECT_TRUE(grammar.ok()) << grammar.error().message;
  if (!grammar.ok()) return false;
  auto productions = make_productions(*grammar, nullptr);
  EXPECT_TRUE(productions.ok()) << productions.error().message;
  if (!productions.ok()) return false;
  EarleyMachine machine(*std::move(productions));
  State state = machine.start();
  for (const char c : text) state = machine.next(state, static_cast<uint8_t>(c));
  return machine.accepts(state);
}

std::string error_of(std::string_view gbnf) {
  const auto grammar = parse_gbnf(gbnf, kNoToken);
  return grammar.ok() ? "" : grammar.error().message;
}

constexpr std::string_view kChess = R"(# moves
root ::= (
    "1. " move " " move "\n"   # the first pair

    ([1-9] [0-9]? ". " move " " move "\n")*
)
move ::= (pawn | [NBRQK] [a-h] [1-8] |
          "O-O" "-O"?) [+#]?
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBRQ])?
)";

TEST(Gbnf, ReadsRulesGroupsAndRepetitions) {
  EXPECT_TRUE(matches(kChess, "1. e4 e5\n"));
  EXPECT_TRUE(matches(kChess, "1. e4 O-O-O+\n12. exd8=Q Nf3#\n"));
  EXPECT_FALSE(matches(kChess, "1. e9 e5\n"));
  EXPECT_TRUE(matches("root ::= \"a\"{2} \"b\"{1,} [c-e]{0,2} .?", "aabbbcdé"));
  EXPECT_FALSE(matches("root ::= \"a\"{2}", "a"));
  EXPECT_TRUE(matches("root ::= \"ab\"+", "ababab"));
  EXPECT_TRUE(
      matches("root ::= \"\\x41\\u00e9\\U0001F600\\\"\\n\" | x\nx ::=", "Aé\U0001F600\"\n"));
  EXPECT_TRUE(matches("root ::= \"a\" | x\nx ::=", ""));
  EXPECT_TRUE(matches("root ::= [a\\]\\-^-]+", "]a-^"));
  EXPECT_TRUE(matches("root ::= \"a\"\n  | \"b\"\n", "b"));
  EXPECT_TRUE(matches("root ::= \"a\"\r\n# c\r\nx ::= \"b\"", "a"));
}

TEST(Gbnf, ReadsTokens) {
  const std::string symbol = {'\xFF', 0, 0, 0, 7};
  EXPECT_TRUE(matches("root ::= <think> \"a\" <[1000]>",
                      symbol + "a" + std::string{'\xFF', 0, 0, 3, '\xE8'}));
  EXPECT_EQ(error_of("root ::= <what>"),
            "Grammar, line 1, column 10: the vocabulary has no control token <what>.");
}

TEST(Gbnf, NamesThePlaceOfAnError) {
  EXPECT_EQ(error_of("root ::= \"a\"\n  x"),
            "Grammar, line 2, column 4: ::= is missing after the name of a rule.");
  EXPECT_EQ(error_of("root ::= (\"a\" | b"),
            "Grammar, line 1, column 10: the group is not closed.");
  EXPECT_EQ(error_of("root ::= b"), "Grammar, line 1, column 10: the rule b is not defined.");
  EXPECT_EQ(error_of("root ::= \"a\"\nroot ::= \"b\""),
            "Grammar, line 2, column 1: the rule root is defined twice.");
  EXPECT_EQ(error_of("a ::= \"a\""), "The grammar has no rule named root.");
  EXPECT_EQ(error_of("root ::= *"), "Grammar, line 1, column 10: there is nothing to repeat.");
  for (const char* bad : {"root ::= [a", "root ::= \"a", "root ::= \"\\q\"", "root ::= a{2,1}",
                          "root ::= \"a\"{", "root ::= \"\\ud800\"", "root ::= [z-a]", "root ::= )",
                          "root ::= \"a\"{99999999999}", "= x", "root ::= !x", "root ::= \xff"}) {
    EXPECT_NE(error_of(bad), "") << bad;
  }
}

TEST(Gbnf, RefusesAGrammarWithoutTexts) {
  const auto grammar = parse_gbnf("root ::= \"a\" root", kNoToken);
  ASSERT_TRUE(grammar.ok());
  EXPECT_FALSE(make_productions(*grammar, nullptr).ok());
}

TEST(Gbnf, NamesTheRuleThatIsTooLarge) {
  const auto read = parse_gbnf("root ::= \"a\" | many\n\nmany ::= root", kNoToken);
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->rules().size(), 2U);
  EXPECT_EQ(read->rules()[0].line, 1U);
  EXPECT_EQ(read->rules()[1].line, 3U);
  // Each alternative takes positions of its own.
  Grammar grammar;
  const int32_t root = grammar.add_rule("root");
  const int32_t many = grammar.add_rule("many");
  grammar.define(root, grammar.choice({grammar.literal("a"), grammar.reference(many)}), 1);
  const std::vector<Grammar::Id> parts(kMaxPositions / 2 + 1, grammar.reference(root));
  grammar.define(many, grammar.choice(parts), 3);
  grammar.set_root(grammar.reference(root));
  const auto productions = make_productions(grammar, nullptr);
  ASSERT_FALSE(productions.ok());
  EXPECT_EQ(productions.error().message,
            "Grammar, line 3, rule many: the grammar has more than 2000000 symbols up to here");
}

TEST(Gbnf, NestsGroupsDeeply) {
  const std::string text =
      "root ::= " + std::string(60000, '(') + "\"a\"" + std::string(60000, ')');
  EXPECT_TRUE(matches(text, "a"));
}

}  // namespace
}  // namespace chimere::constraints
