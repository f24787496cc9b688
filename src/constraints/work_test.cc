// Hostile specifications: what a compilation and what a call may take is counted.
#include "constraints/work.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "constraints/automaton.h"
#include "constraints/build_machine.h"
#include "constraints/constraint.h"
#include "constraints/constraint_cache.h"
#include "constraints/testing.h"

namespace chimere::constraints {
namespace {

/// All bytes and random texts of 2 to 8 characters.
TestTokenizer letters_tokenizer() {
  std::mt19937 random(1);
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  constexpr std::string_view kAlphabet = "abcxyzABC019 .,:\"{}[]";
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (unsigned n = 2 + random() % 7; n > 0; --n) text += kAlphabet[random() % kAlphabet.size()];
    tokens.push_back(std::move(text));
  }
  return TestTokenizer(std::move(tokens));
}

/// Objects that differ in one key, with numbers that are told apart by their divisors.
std::string divisors_of_objects(int objects) {
  std::string schema = R"({"oneOf":[)";
  for (int i = 0; i < objects; ++i) {
    const std::string key = "\"k" + std::to_string(i) + "\"";
    schema += (i > 0 ? "," : "") + (R"({"type":"object","properties":{)" + key) +
              R"(:{"type":"string"},"common":{"type":"integer","multipleOf":)" +
              std::to_string(i + 2) + R"(}},"required":[)" + key + "]}";
  }
  return schema + "]}";
}

std::vector<ConstraintSpec> hostile() {
  std::string words = R"({"enum":[)";
  for (int i = 0; i < 2000; ++i) {
    words += (i > 0 ? ",\"" : "\"") + std::to_string(i * 7919 % 10007) + "\"";
  }
  words += "]}";
  std::vector<ConstraintSpec> all;
  for (const char* text :
       {"root ::= s\ns ::= s s s | s s | \"a\" | \"b\" | [a-z]",
        "root ::= (word | number | text)+\nword ::= [a-z]+ | [a-zA-Z ]*\n"
        "number ::= [0-9a-f]+ \".\" | [0-9]*\ntext ::= [^\"]* | \"a\" text \"b\"",
        "root ::= a\na ::= [a-z]* a [a-z]* | [a-z] a | a \"b\" | \"\""}) {
    all.push_back({GbnfSpec{text}, {}});
  }
  for (const char* pattern : {"(a{0,1000}){0,1000}", "(a|aa|[a-z]{2,40})+$",
                              R"((\p{L}+\p{N}*|[^\p{Lu}]{3,300}\s){1,200})", "(a*b*c*x*y*){50}",
                              "(.{0,200}a.{0,200}){5}"}) {
    all.push_back({RegexSpec{pattern}, {}});
  }
  for (const std::string& schema :
       {divisors_of_objects(4), words,
        std::string(R"({"type":"array","uniqueItems":true,"items":{"type":"integer","maximum":40},)"
                    R"("contains":{"multipleOf":3},"minContains":2})")}) {
    all.push_back({JsonSchemaSpec{schema}, {}});
  }
  return all;
}

TEST(Work, OfACallIsBounded) {
  const TestTokenizer tokenizer = letters_tokenizer();
  const auto trie = TokenTrie::create(tokenizer);
  std::mt19937 random(1);
  // A call ends at the first node or item behind its limit, which has a cost of its own.
  constexpr uint64_t kMost = kWorkPerCall + kWorkPerCall / 10;
  size_t compiled = 0;
  for (const ConstraintSpec& spec : hostile()) {
    auto machine = build_machine(spec, *trie);
    if (!machine.ok()) continue;
    ++compiled;
    Automaton automaton(*std::move(machine), trie);
    WorkBudget budget;
    State state = automaton.start();
    std::vector<uint32_t> mask(trie->mask_words());
    auto within = [&, before = uint64_t{0}]() mutable {
      const uint64_t call = budget.spent() - std::exchange(before, budget.spent());
      EXPECT_LE(call, kMost) << spec.key().substr(0, 80);
      return budget.status().ok();
    };
    for (int step = 0; step < 20 && state != kDead; ++step) {
      ASSERT_TRUE(automaton.mask(state, mask, budget).ok());
      if (!within()) break;
      std::vector<int32_t> allowed;
      for (int32_t token = 0; token < tokenizer.n_tokens(); ++token) {
        const auto t = static_cast<uint32_t>(token);
        if ((mask[t / 32] >> (t % 32) & 1U) != 0 && !tokenizer.is_end_of_generation(token)) {
          allowed.push_back(token);
        }
      }
      if (allowed.empty()) break;
      StateFacts facts;
      const int32_t token = allowed[random() % allowed.size()];
      state = automaton.read(state, trie->bytes(token), facts, budget);
      if (!within()) break;
      budget.add_token();
    }
  }
  EXPECT_GE(compiled, 8U);
}

/// New states of patterns are work, too, not only the nodes of the trie.
TEST(Work, OfPatternsIsCounted) {
  const TestTokenizer tokenizer = letters_tokenizer();
  const auto trie = TokenTrie::create(tokenizer);
  const ConstraintSpec spec{RegexSpec{R"((\p{L}+\p{N}*|[^\p{Lu}]{3,300}\s){1,200})"}, {}};
  Automaton automaton(build_machine(spec, *trie).value(), trie);
  WorkBudget budget;
  std::vector<uint32_t> mask(trie->mask_words());
  ASSERT_TRUE(automaton.mask(automaton.start(), mask, budget).ok());
  EXPECT_GT(budget.spent(), 2 * trie->trie().nodes.size() / kNodesPerUnit);
}

TEST(Work, OfACompilationIsBounded) {
  const TestTokenizer tokenizer({"a", "b"});
  ConstraintCache cache(TokenTrie::create(tokenizer), size_t{1} << 30);
  int slow = 0;
  const auto compile = [&](const std::string& schema) {
    return cache.get({JsonSchemaSpec{schema}, {}}, [&] { ++slow; });
  };
  EXPECT_TRUE(compile(R"({"type":"object","properties":{"a":{"type":"integer"}}})").ok());
  EXPECT_EQ(slow, 0);
  const auto refused = compile(divisors_of_objects(20));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Error::Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("too much work to compile"), std::string::npos);
  EXPECT_EQ(slow, 1);
  EXPECT_FALSE(compile(divisors_of_objects(20)).ok());
  EXPECT_EQ(slow, 1);  // remembered
}

}  // namespace
}  // namespace chimere::constraints
