#include "constraints/constraint.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>

#include "base/fresh_seed.h"
#include "constraints/constraint_cache.h"
#include "constraints/forced_tokens.h"
#include "constraints/testing.h"

namespace chimere::constraints {
namespace {

bool bit(std::span<const uint32_t> mask, int32_t token) {
  const auto t = static_cast<uint32_t>(token);
  return (mask[t / 32] >> (t % 32) & 1U) != 0;
}

ReasoningSpec reasoning(bool inside) {
  ReasoningSpec spec;
  spec.open.text = "<think>";
  spec.close.text = "</think>";
  spec.inside = inside;
  return spec;
}

TriggeredSpec::Trigger trigger(std::string text, const Grammar& body, bool at_start = false) {
  TriggeredSpec::Trigger made;
  made.begin.text = std::move(text);
  made.body = body;
  made.at_start = at_start;
  return made;
}

/// All bytes, some control tokens, and random texts over what the grammars below are made of.
TestTokenizer random_tokenizer(std::mt19937& random) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"<|call|>", "<|x|>", "</think>", "<think>", "<tool>", "</tool>", "\n\n",
                           "é", "\xE6\x97", "ab</tool><", "k>ab", "</", "tool>a"}) {
    tokens.emplace_back(text);
  }
  constexpr std::string_view kAlphabet = "ab,<>/tolhink\" \n{}[]:1.";
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (unsigned n = 2 + random() % 4; n > 0; --n) text += kAlphabet[random() % kAlphabet.size()];
    tokens.push_back(std::move(text));
  }
  return TestTokenizer(std::move(tokens));
}

std::vector<ConstraintSpec> specs(const TestTokenizer& tokenizer) {
  std::vector<ConstraintSpec> all;
  const auto add = [&](auto content) -> ConstraintSpec& {
    ConstraintSpec& spec = all.emplace_back();
    spec.content = std::move(content);
    return spec;
  };
  add(GbnfSpec{"root ::= \"\\\"\" [^\"]* \"\\\"\" (\",\" root)?"});
  add(GbnfSpec{"root ::= [ab]{2,7} \" \" <|x|>? ([a-z] root)? | \"a\""});
  add(ChoicesSpec{{"ab", "abab", "b,a", "éa"}});
  for (
      const char* schema :
      {R"({"type":"object"})",
       R"({"type":"object","properties":{"ab":{"type":"integer","minimum":-5},"a":{"enum":["tool","",3]}},
           "required":["ab"]})",
       R"({"type":"object","properties":{"ab":{"type":"number"},"b":{"$ref":"#"}},"required":["ab"],
           "additionalProperties":false})",
       R"({"type":"array","items":{"type":"string","minLength":1,"maxLength":3},"minItems":1,"uniqueItems":true})",
       R"({"anyOf":[{"type":"string","pattern":"^[a-k]+$"},{"type":"array","items":{"type":"number"}}]})",
       R"({"type":"object","properties":{"日a":{"type":"null"},"日b":{},"é\"日":{"const":1}},"minProperties":1})",
       R"({"type":"string","maxLength":40})", R"({"type":"string","pattern":"a.?k"})",
       R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
       R"({"type":"array","items":{"type":["string","array"],"items":{"type":"string"}},
           "uniqueItems":true})",
       R"({"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}},
           "uniqueItems":true})",
       R"({"type":"object","patternProperties":{"ab":{"type":"integer"}},
           "properties":{"a":{"type":"string"}}})",
       R"({"type":"object","properties":{"é":{"type":"null"},"aé":{"type":"string"}}})",
       R"({"oneOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a","b"]},
                    {"type":"object","properties":{"a":{"type":"string"}},"required":["a","k"]}]})",
       R"({"anyOf":[{"type":"object","properties":{"a":{"type":["string","number"],"pattern":"b"}},
                     "required":["a"],"additionalProperties":{"type":"null"}},
                    {"type":"object","properties":{"a":{"type":["string","integer"],"maxLength":2}},
                     "required":["b"]}]})"}) {
    add(JsonSchemaSpec{schema});
  }
  add(RegexSpec{"[a-k]+(\\. ?[a-l]{2,4})*"});
  Grammar document;
  document.set_root(document.sequence(
      {document.literal("<tool>"),
       document.json_schema(R"({"type":"object","properties":{"ab":{"type":"string"}}})"),
       document.literal("</tool>"), document.json_schema(R"({"type":"number"})"),
       document.repeat(document.literal("1"), 0, Grammar::kUnbounded)}));
  add(document);
  Grammar body;
  body.set_root(body.sequence({body.literal("a"), body.text_until("</tool>")}));
  for (const bool text_before : {true, false}) {
    for (const bool text_after : {true, false}) {
      for (const int32_t min_calls : {0, 1, 2}) {
        for (const int32_t max_calls : {-1, 2}) {
          TriggeredSpec spec;
          spec.triggers.push_back(trigger("<tool>", body));
          spec.triggers.push_back(trigger("", body));
          spec.triggers.back().begin.token = tokenizer.find("<|call|>");
          if (max_calls < 0) spec.excluded = {"</tool>", "ab</", "<|"};
          if (min_calls < 2) spec.triggers.push_back(trigger("ab", body, true));
          spec.text_before = text_before;
          spec.text_after = text_after;
          spec.min_calls = min_calls;
          spec.max_calls = max_calls;
          add(std::move(spec));
        }
      }
    }
  }
  const size_t plain = all.size();
  for (size_t i = 0; i < plain; ++i) {
    ConstraintSpec spec = all[i];
    spec.reasoning = reasoning(i % 2 == 0);
    if (i % 3 == 0) spec.reasoning->close.token = tokenizer.find("<|x|>");
    all.push_back(std::move(spec));
  }
  return all;
}

// A token is allowed exactly when its bytes can be read one by one.
TEST(Constraint, MasksAllowWhatCanBeRead) {
  std::mt19937 random(fresh_seed());
  const TestTokenizer tokenizer = random_tokenizer(random);
  const auto trie = TokenTrie::create(tokenizer, tokenizer.n_tokens() + 5);
  const auto all = specs(tokenizer);
  for (size_t index = 0; index < all.size(); ++index) {
    auto constraint = Constraint::compile(all[index], trie);
    ASSERT_TRUE(constraint.ok()) << index << ": " << constraint.error().message;
    for (int walk = 0; walk < 4; ++walk) {
      Matcher matcher = (*constraint)->matcher();
      std::string text;
      for (int step = 0; step < 25 && !matcher.finished(); ++step) {
        const std::span<const uint32_t> mask = matcher.mask();
        std::vector<int32_t> allowed;
        bool all_allowed = true;
        for (int32_t token = 0; token < tokenizer.n_tokens() + 5; ++token) {
          Matcher bytewise = matcher;
          const bool expected =
              tokenizer.eos() == token ? bytewise.complete() : bytewise.allows(token);
          ASSERT_EQ(bit(mask, token), expected)
              << "spec " << index << ", token " << tokenizer.token_bytes(token, true) << " after "
              << text;
          if (token == tokenizer.eos() || token >= tokenizer.n_tokens()) continue;
          all_allowed = all_allowed && expected;
          if (expected) allowed.push_back(token);
        }
        EXPECT_EQ(matcher.unconstrained(), all_allowed);
        ASSERT_FALSE(allowed.empty() && !matcher.complete()) << "dead end after " << text;
        if (allowed.empty()) break;
        // Rare tokens are drawn more often: those that end something are few.
        int32_t token = allowed[random() % allowed.size()];
        for (const char* wanted : {"</think>", "<tool>", "a", "</tool>", "<|call|>", "\""}) {
          const int32_t id = tokenizer.find(wanted);
          if (random() % 4 == 0 && matcher.allows(id)) token = id;
        }
        text += tokenizer.token_bytes(token, true);
        ASSERT_TRUE(matcher.accept(token));
      }
    }
  }
}

TEST(Constraint, AByteThatNoTokenBeginsWithIsAnError) {
  const TestTokenizer tokenizer({"a", "b", "c", "cd"});
  ConstraintSpec spec;
  spec.content = GbnfSpec{"root ::= \"a\" (\"b\" | \"cd\" | \"c\" [d-z\u0130])"};
  const auto constraint = Constraint::compile(spec, TokenTrie::create(tokenizer));
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  const auto after = [&](std::string_view text) {
    Matcher matcher = (*constraint)->matcher();
    for (const char c : text) {
      EXPECT_TRUE(matcher.accept(tokenizer.find(std::string_view(&c, 1))));
      (void)matcher.mask();
    }
    return matcher;
  };
  EXPECT_TRUE(after("a").status().ok());
  EXPECT_TRUE(after("ab").status().ok());
  Matcher stuck = after("ac");
  const Status status = stuck.status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Error::Code::kUnsupported);
  const std::string& message = status.error().message;
  EXPECT_NE(message.find("may be 0x64, 0x65, 0x66, 0x67, ..."), std::string::npos) << message;
  // Nothing but the end is allowed then; another generation is not affected.
  EXPECT_TRUE(bit(stuck.mask(), tokenizer.eos()));
  EXPECT_FALSE(stuck.accept(tokenizer.find("b")));
  // As a draft that is taken back it is none.
  stuck.rollback(1);
  EXPECT_TRUE(stuck.status().ok());
  EXPECT_TRUE(bit(stuck.mask(), tokenizer.find("b")));
  EXPECT_TRUE(stuck.accept(tokenizer.find("b")));
  EXPECT_TRUE(after("a").status().ok());
}

// A text of the expression that leads to the same state as a shorter one may have been read by what
// follows in part: not every token that continues one continues the other.
TEST(Constraint, MasksWhereATerminalOverlapsWhatFollows) {
  const TestTokenizer tokenizer({"ab1", "cd1", "ab", "cd", "cdb1", "abb1", "1"});
  ConstraintSpec spec;
  spec.content = GbnfSpec{
      "root ::= (\"a\" | \"ab\" | \"cd\") tail\n"
      "tail ::= \"b1\" | \"(\" tail \")\""};
  auto constraint = Constraint::compile(spec, TokenTrie::create(tokenizer));
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  Matcher matcher = (*constraint)->matcher();
  EXPECT_EQ(matcher.mask()[0], 0b111101U);
}

/// Ambiguous in a way that no repetition describes: n letters have a number of readings that is
/// exponential in n, and reading one more takes about n^2 steps.
constexpr const char* kAmbiguous = "root ::= s\ns ::= t t | \"a\"\nt ::= s s | s | \"a\"";

TEST(Constraint, ExhaustsTheBudgetOfOneGeneration) {
  const TestTokenizer tokenizer({"a", std::string(3000, 'a')});
  constexpr int32_t kLong = 1;
  ConstraintSpec spec;
  spec.content = GbnfSpec{kAmbiguous};
  auto constraint = Constraint::compile(spec, TokenTrie::create(tokenizer));
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  Matcher before = (*constraint)->matcher();
  Matcher exhausted = (*constraint)->matcher();
  EXPECT_FALSE(exhausted.accept(kLong));
  ASSERT_FALSE(exhausted.status().ok());
  EXPECT_EQ(exhausted.status().error().code, Error::Code::kUnsupported);
  EXPECT_EQ(exhausted.mask()[0], 1U << static_cast<uint32_t>(tokenizer.eos()));
  EXPECT_FALSE(exhausted.finished());  // ends with the error, not as if it were complete
  EXPECT_FALSE(exhausted.accept(0));
  Matcher after = (*constraint)->matcher();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(before.accept(0));
    ASSERT_TRUE(after.accept(0));
  }
  EXPECT_TRUE(after.complete());
  EXPECT_TRUE(before.status().ok());
  EXPECT_TRUE(after.status().ok());
}

TEST(Constraint, KeepsNoMaskThatIsHalfComputed) {
  const TestTokenizer tokenizer({"a", std::string(160, 'a'), "b"});
  ConstraintSpec spec;
  spec.content = GbnfSpec{kAmbiguous};
  auto constraint = Constraint::compile(spec, TokenTrie::create(tokenizer));
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  // States that are computed stay, so that one of the next masks is complete.
  int attempts = 0;
  for (;; ++attempts) {
    Matcher matcher = (*constraint)->matcher();
    const uint32_t mask = matcher.mask()[0];
    if (matcher.status().ok()) {
      EXPECT_EQ(mask, 0b11U);
      break;
    }
    EXPECT_EQ(mask, 1U << static_cast<uint32_t>(tokenizer.eos()));
    ASSERT_LT(attempts, 100);
  }
  EXPECT_GT(attempts, 0);
}

TEST(Constraint, RollsBackAndForks) {
  const TestTokenizer tokenizer({"a", "b", "ab", "c"});
  const auto trie = TokenTrie::create(tokenizer);
  ConstraintSpec spec;
  spec.content = ChoicesSpec{{"abc", "ab"}};
  auto constraint = Constraint::compile(spec, trie);
  ASSERT_TRUE(constraint.ok());
  Matcher matcher = (*constraint)->matcher();
  const int32_t end = tokenizer.eos();
  EXPECT_FALSE(matcher.accept(1));
  EXPECT_FALSE(matcher.accept(end));
  EXPECT_TRUE(matcher.accept(2));
  EXPECT_TRUE(matcher.complete());
  EXPECT_FALSE(matcher.finished());
  Matcher fork = matcher;
  EXPECT_TRUE(fork.accept(3));
  EXPECT_TRUE(fork.finished());
  EXPECT_TRUE(fork.accept(end));
  EXPECT_FALSE(fork.accept(0));
  EXPECT_TRUE(bit(fork.mask(), end));
  fork.rollback(3);
  EXPECT_EQ(fork.accepted(), 0);
  EXPECT_EQ(fork.forced(), "ab");
  EXPECT_EQ(matcher.accepted(), 1);
  EXPECT_EQ(matcher.mask()[0], 1U << 3 | 1U << static_cast<uint32_t>(end));
}

TEST(Constraint, KeepsReasoningOutOfTheContent) {
  const TestTokenizer tokenizer({"<think>", "</think>", "\n", "yes", "no", "<tool>", "yes</"});
  const auto trie = TokenTrie::create(tokenizer);
  ConstraintSpec spec;
  spec.content = ChoicesSpec{{"yes"}};
  spec.reasoning = reasoning(false);
  auto constraint = Constraint::compile(spec, trie);
  ASSERT_TRUE(constraint.ok());
  Matcher matcher = (*constraint)->matcher();
  EXPECT_FALSE(matcher.allows(4));
  ASSERT_TRUE(matcher.accept(0));
  EXPECT_TRUE(matcher.unconstrained());
  EXPECT_FALSE(matcher.allows(tokenizer.eos()));
  for (const int32_t token : {5, 4, 0}) EXPECT_TRUE(matcher.accept(token));
  ASSERT_TRUE(matcher.accept(1));
  EXPECT_FALSE(matcher.unconstrained());
  EXPECT_TRUE(matcher.accept(2));
  EXPECT_FALSE(matcher.allows(4));
  EXPECT_TRUE(matcher.accept(3));
  EXPECT_TRUE(matcher.finished());
}

// A token may end inside of a character of a property's name.
TEST(Constraint, NamesInPartsOfCharacters) {
  std::mt19937 random(1);
  const TestTokenizer tokenizer = random_tokenizer(random);
  ConstraintSpec spec;
  spec.content = JsonSchemaSpec{R"({"type":"object","properties":{"日a":{},"日b":{},"é":{}}})"};
  auto constraint = Constraint::compile(spec, TokenTrie::create(tokenizer));
  ASSERT_TRUE(constraint.ok());
  Matcher matcher = (*constraint)->matcher();
  for (const char c : std::string_view("{\"日b\":1,\"é\":2}")) {
    const uint8_t byte = static_cast<uint8_t>(c);
    EXPECT_EQ(matcher.mask()[byte / 32U] >> (byte % 32U) & 1U, 1U);
    ASSERT_TRUE(matcher.accept(byte));
  }
  EXPECT_TRUE(matcher.complete());
}

TEST(Constraint, ExcludesTagsFromText) {
  const TestTokenizer tokenizer({"<tool>", "</tool>", "x", "a", "</", "tool", ">"});
  TriggeredSpec calls;
  Grammar body;
  body.set_root(body.sequence({body.literal("a"), body.literal("</tool>")}));
  calls.triggers.push_back(trigger("<tool>", body));
  calls.excluded = {"</tool>"};
  ConstraintSpec spec;
  spec.content = calls;
  auto constraint = Constraint::compile(spec, TokenTrie::create(tokenizer));
  ASSERT_TRUE(constraint.ok());
  Matcher matcher = (*constraint)->matcher();
  for (const int32_t token : {2, 6, 4, 5}) {
    EXPECT_FALSE(matcher.allows(1));
    ASSERT_TRUE(matcher.accept(token));
  }
  EXPECT_FALSE(matcher.allows(6));  // spelled by other tokens
  EXPECT_EQ(matcher.mask()[0] >> 6U & 1U, 0U);
  EXPECT_TRUE(matcher.complete());
  for (const int32_t token : {2, 6, 0, 3}) ASSERT_TRUE(matcher.accept(token));
  EXPECT_TRUE(matcher.allows(1));
  calls.excluded.clear();
  ConstraintSpec other;
  other.content = calls;
  EXPECT_NE(spec.key(), other.key());
}

TEST(Constraint, RequiresCalls) {
  const TestTokenizer tokenizer({"<tool>", "</tool>", "x", "a", "<", "too", "l>"});
  const auto trie = TokenTrie::create(tokenizer);
  TriggeredSpec calls;
  Grammar body;
  body.set_root(body.sequence({body.literal("a"), body.literal("</tool>")}));
  calls.triggers.push_back(trigger("<tool>", body));
  calls.min_calls = 1;
  calls.max_calls = 1;
  ConstraintSpec spec;
  spec.content = calls;
  auto constraint = Constraint::compile(spec, trie);
  ASSERT_TRUE(constraint.ok());
  Matcher matcher = (*constraint)->matcher();
  EXPECT_FALSE(matcher.complete());
  for (const int32_t token : {2, 4, 5}) ASSERT_TRUE(matcher.accept(token));
  ASSERT_TRUE(matcher.accept(6));  // spelled by other tokens
  EXPECT_EQ(matcher.forced(), "a</tool>");
  ASSERT_TRUE(matcher.accept(3));
  ASSERT_TRUE(matcher.accept(1));
  EXPECT_TRUE(matcher.finished());
}

TEST(Constraint, SharesMasksBetweenThreads) {
  std::mt19937 random(fresh_seed());
  const TestTokenizer tokenizer = random_tokenizer(random);
  const auto trie = TokenTrie::create(tokenizer);
  ConstraintSpec spec;
  spec.content = GbnfSpec{"root ::= \"\\\"\" [^\"]* \"\\\"\" (\",\" root)?"};
  auto constraint = Constraint::compile(spec, trie);
  ASSERT_TRUE(constraint.ok());
  std::vector<std::thread> threads;
  std::vector<uint64_t> sums(4);
  for (uint64_t& sum : sums) {
    threads.emplace_back([&] {
      Matcher matcher = (*constraint)->matcher();
      for (const char c : std::string_view("\"ab\",\"<\"")) {
        for (const uint32_t word : matcher.mask()) sum = sum * 31 + word;
        if (!matcher.accept(static_cast<uint8_t>(c))) sum = 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t sum : sums) EXPECT_EQ(sum, sums[0]);
}

TEST(ConstraintCache, KeepsTheLastUsed) {
  const TestTokenizer tokenizer({"a", "b"});
  ConstraintCache cache(TokenTrie::create(tokenizer), size_t{1} << 30);
  const auto choice = [](const std::string& text) {
    ConstraintSpec spec;
    spec.content = ChoicesSpec{{text}};
    return spec;
  };
  const auto first = cache.get(choice("first"));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*cache.get(choice("first")), *first);
  for (size_t i = 0; i + 1 < ConstraintCache::kMaxConstraints; ++i) {
    ASSERT_TRUE(cache.get(choice(std::to_string(i))).ok());
  }
  EXPECT_EQ(*cache.get(choice("first")), *first);
  ASSERT_TRUE(cache.get(choice("one more")).ok());
  EXPECT_EQ(cache.size(), ConstraintCache::kMaxConstraints);
  EXPECT_EQ(*cache.get(choice("first")), *first);
  EXPECT_FALSE(cache.get(choice("")).ok() && cache.get(ConstraintSpec{ChoicesSpec{}, {}}).ok());
  ConstraintCache small(TokenTrie::create(tokenizer), 1);
  ASSERT_TRUE(small.get(choice("a")).ok());
  ASSERT_TRUE(small.get(choice("b")).ok());
  EXPECT_EQ(small.size(), 1);
}

TEST(ConstraintCache, RemembersRefusals) {
  const TestTokenizer tokenizer({"a", "b"});
  ConstraintCache cache(TokenTrie::create(tokenizer), size_t{1} << 30);
  const ConstraintSpec good{ChoicesSpec{{"a"}}, {}};
  const auto kept = cache.get(good);
  ASSERT_TRUE(kept.ok());
  const auto refused = [](size_t i) {
    return ConstraintSpec{GbnfSpec{"root ::= missing" + std::to_string(i)}, {}};
  };
  const auto first = cache.get(refused(0));
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(cache.size(), 2);
  const auto again = cache.get(refused(0));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().message, first.error().message);
  EXPECT_EQ(cache.size(), 2);
  for (size_t i = 1; i < 2 * ConstraintCache::kMaxRefusals; ++i) {
    EXPECT_FALSE(cache.get(refused(i)).ok());
  }
  EXPECT_EQ(cache.size(), 1 + ConstraintCache::kMaxRefusals);
  EXPECT_EQ(*cache.get(good), *kept);
}

TEST(ForcedTokens, AreDividedAsTheTokenizerDoes) {
  const TestTokenizer tokenizer(
      {"{", "\"", "{\"", "name", "\":", "\": ", "\": \"", "na", "x", ":", " "});
  const auto trie = TokenTrie::create(tokenizer);
  ConstraintSpec spec;
  spec.content = GbnfSpec{"root ::= \"{\" \"\\\"name\\\":\" \" \"? \"\\\"\" [x:]* \"\\\"\" \"}\"?"};
  auto constraint = Constraint::compile(spec, trie);
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  Matcher matcher = (*constraint)->matcher();
  EXPECT_EQ(matcher.forced(), "{\"name\":");
  EXPECT_EQ(matcher.expected(), "{\"name\": \"");
  // The last quote may belong to a longer token if a colon follows.
  EXPECT_EQ(canonical_tokens(matcher, tokenizer, {}, matcher.expected(), 8),
            (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(matcher.last_boundaries(matcher.expected()), (std::vector<size_t>{9, 10}));
  EXPECT_EQ(canonical_tokens(matcher, tokenizer, {}, matcher.expected(), 1),
            (std::vector<int32_t>{2}));
  // After { alone, the tokenizer would have chosen {"; what follows is divided alone.
  ASSERT_TRUE(matcher.accept(0));
  EXPECT_EQ(canonical_tokens(matcher, tokenizer, std::vector<int32_t>{0}, matcher.expected(), 8),
            (std::vector<int32_t>{1, 3}));
}

/// The tokens that are certain at the start of a grammar's text.
std::vector<int32_t> forced_tokens(const char* gbnf, const text::Tokenizer& tokenizer) {
  ConstraintSpec spec;
  spec.content = GbnfSpec{gbnf};
  auto constraint = Constraint::compile(spec, TokenTrie::create(tokenizer));
  EXPECT_TRUE(constraint.ok());
  Matcher matcher = (*constraint)->matcher();
  return canonical_tokens(matcher, tokenizer, {}, matcher.forced(), 8);
}

TEST(ForcedTokens, AreThoseThatNoLaterMergeChanges) {
  text::Vocabulary v;
  v.model = "gpt2";
  v.pre = "qwen2";
  v.tokens = {"\"", "}", "\u010A", "x", "\"}", "}}", "}\u010A", "<|im_end|>"};
  v.types = {1, 1, 1, 1, 1, 1, 1, 3};
  v.merges = {"} \u010A", "} }", "\" }"};
  v.eos = 7;
  const auto tokenizer = text::Tokenizer::create(v);
  ASSERT_TRUE(tokenizer.ok());
  // A line break takes the last bracket, and so the other one goes to the quote.
  const std::string brackets = "\"}}";
  ASSERT_EQ((*tokenizer)->encode(brackets, false), (std::vector<int32_t>{0, 5}));
  ASSERT_EQ((*tokenizer)->encode(brackets + "\n", false), (std::vector<int32_t>{4, 6}));
  EXPECT_EQ(forced_tokens(R"(root ::= "\"}}" ("x" | "\n"))", **tokenizer), std::vector<int32_t>());
  EXPECT_EQ(forced_tokens(R"(root ::= "\"}}x" ("x" | "\n"))", **tokenizer),
            (std::vector<int32_t>{0, 5, 3}));
}

TEST(ForcedTokens, HoldNoSpaceThatATokenizerPutsInFront) {
  text::Vocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "</s>", "\u2581", "a", "b", "c", "\u2581a"};
  v.types = {2, 3, 1, 1, 1, 1, 1};
  v.scores = {0, 0, -1, -2, -3, -4, -5};
  v.unknown = 0;
  v.eos = 1;
  const auto tokenizer = text::Tokenizer::create(v);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  ASSERT_EQ((*tokenizer)->encode("ab", false), (std::vector<int32_t>{6, 4}));
  EXPECT_EQ(forced_tokens(R"(root ::= "ab" [bc])", **tokenizer), std::vector<int32_t>());
  ASSERT_EQ((*tokenizer)->encode("ba", false), (std::vector<int32_t>{2, 4, 3}));
  EXPECT_EQ(forced_tokens(R"(root ::= "ba" [bc])", **tokenizer), (std::vector<int32_t>{4, 3}));
}

TEST(Constraint, KeysTellSpecificationsApart) {
  std::mt19937 random(1);
  const TestTokenizer tokenizer = random_tokenizer(random);
  const auto all = specs(tokenizer);
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) EXPECT_EQ(all[i].key() == all[j].key(), i == j);
  }
}

}  // namespace
}  // namespace chimere::constraints
