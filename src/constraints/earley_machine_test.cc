#include "constraints/earley_machine.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "base/fresh_seed.h"
#include "base/test_cpu_seconds.h"
#include "constraints/flatten_recursion.h"
#include "constraints/gbnf.h"
#include "constraints/text_machine.h"

namespace chimere::constraints {
namespace {

MachineFactory text_until_factory() {
  return [](const Grammar::Node& node) -> Result<std::unique_ptr<Machine>> {
    CHIMERE_TRY(std::unique_ptr<Machine> machine,
                TextMachine::create({node.text}, {}, TextMachine::Language::kUntil,
                                    TextMachine::Alphabet::kText));
    return machine;
  };
}

EarleyMachine machine_of(const Grammar& grammar) {
  auto productions = make_productions(grammar, text_until_factory());
  EXPECT_TRUE(productions.ok()) << productions.error().message;
  return EarleyMachine(*std::move(productions));
}

EarleyMachine machine_of(std::string_view gbnf) {
  auto grammar = parse_gbnf(gbnf, nullptr);
  EXPECT_TRUE(grammar.ok()) << grammar.error().message;
  return machine_of(*grammar);
}

State read(Machine& machine, std::string_view text) {
  State state = machine.start();
  for (const char c : text) state = machine.next(state, static_cast<uint8_t>(c));
  return state;
}

bool matches(Machine& machine, std::string_view text) {
  return machine.accepts(read(machine, text));
}

/// All texts of up to `longest` bytes that the nodes of a grammar derive, by iteration up to the
/// fixpoint.
class Enumeration {
 public:
  Enumeration(const Grammar& grammar, size_t longest) : grammar_(grammar), longest_(longest) {
    texts_.resize(grammar.nodes().size());
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < texts_.size(); ++i) {
        const size_t before = texts_[i].size();
        add(i);
        changed = changed || texts_[i].size() != before;
      }
    }
  }
  const std::set<std::string>& texts() const { return of(grammar_.root()); }

 private:
  using Texts = std::set<std::string>;
  const Texts& of(Grammar::Id id) const { return texts_[static_cast<size_t>(id)]; }
  Texts joined(const Texts& a, const Texts& b) const {
    Texts result;
    for (const std::string& x : a) {
      for (const std::string& y : b) {
        if (x.size() + y.size() <= longest_) result.insert(x + y);
      }
    }
    return result;
  }
  void add(size_t i) {
    const Grammar::Node& node = grammar_.nodes()[i];
    switch (node.kind) {
      case Grammar::Kind::kLiteral:
        if (node.text.size() <= longest_) texts_[i].insert(node.text);
        return;
      case Grammar::Kind::kSequence: {
        Texts all = {""};
        for (const Grammar::Id part : node.parts) all = joined(all, of(part));
        texts_[i].merge(all);
        return;
      }
      case Grammar::Kind::kChoice:
        for (const Grammar::Id part : node.parts) {
          texts_[i].insert(of(part).begin(), of(part).end());
        }
        return;
      case Grammar::Kind::kRepeat: {
        Texts all = {""};
        for (int32_t n = 0; n <= static_cast<int32_t>(longest_) + node.min; ++n) {
          if (n >= node.min && (node.max < 0 || n <= node.max)) {
            texts_[i].insert(all.begin(), all.end());
          }
          all = joined(all, of(node.parts[0]));
        }
        return;
      }
      case Grammar::Kind::kRule: {
        const Texts& body = of(grammar_.rules()[static_cast<size_t>(node.value)].body);
        texts_[i].insert(body.begin(), body.end());
        return;
      }
      default:
        FAIL() << "a kind of node that this test does not draw";
    }
  }
  const Grammar& grammar_;
  size_t longest_;
  std::vector<Texts> texts_;
};

Grammar random_grammar(std::mt19937& random) {
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Grammar grammar;
  const int rules = 1 + draw(4);
  for (int i = 0; i < rules; ++i) grammar.add_rule("r" + std::to_string(i));
  for (int i = 0; i < rules; ++i) {
    std::vector<Grammar::Id> pool;
    for (int n = 4 + draw(8); n > 0; --n) {
      const auto any = [&] {
        return pool[static_cast<size_t>(draw(static_cast<int>(pool.size())))];
      };
      switch (pool.size() < 2 ? draw(3) : draw(7)) {
        case 0:
        case 1: {
          std::string text;
          for (int k = draw(3); k > 0; --k) text += static_cast<char>('a' + draw(2));
          pool.push_back(grammar.literal(text));
          break;
        }
        case 2:
          pool.push_back(grammar.reference(draw(rules)));
          break;
        case 3:
        case 4:
          pool.push_back(grammar.sequence({any(), any()}));
          break;
        case 5:
          pool.push_back(grammar.choice({any(), any()}));
          break;
        default: {
          const int min = draw(3);
          pool.push_back(grammar.repeat(any(), min, draw(2) ? Grammar::kUnbounded : min + draw(3)));
        }
      }
    }
    grammar.define(i, pool.back());
  }
  grammar.set_root(grammar.reference(0));
  return grammar;
}

TEST(EarleyMachine, ReadsTheTextsOfRandomGrammars) {
  std::mt19937 random(fresh_seed());
  constexpr size_t kLongest = 6;
  int with_texts = 0;
  for (int round = 0; round < 3000; ++round) {
    const Grammar grammar = random_grammar(random);
    auto productions = make_productions(grammar, text_until_factory());
    const Enumeration oracle(grammar, kLongest);
    if (!productions.ok()) {
      EXPECT_TRUE(oracle.texts().empty()) << grammar.key();
      continue;
    }
    EarleyMachine machine(*std::move(productions));
    with_texts += oracle.texts().size() > 3 ? 1 : 0;
    std::set<std::string> beginnings;
    for (const std::string& text : oracle.texts()) {
      for (size_t n = 0; n <= text.size(); ++n) beginnings.insert(text.substr(0, n));
    }
    std::deque<std::pair<std::string, State>> open = {{"", machine.start()}};
    while (!open.empty()) {
      const auto [text, state] = open.front();
      open.pop_front();
      if (state == kDead) {
        EXPECT_FALSE(beginnings.contains(text)) << text << " in " << grammar.key();
        continue;
      }
      ASSERT_EQ(machine.accepts(state), oracle.texts().contains(text))
          << text << " in " << grammar.key();
      if (text.size() == kLongest) continue;
      const ByteSet first = machine.first_bytes(state);
      for (const char c : {'a', 'b'}) {
        const State next = machine.next(state, static_cast<uint8_t>(c));
        EXPECT_TRUE(next == kDead || first[static_cast<uint8_t>(c)]);
        open.emplace_back(text + c, next);
      }
    }
  }
  EXPECT_GT(with_texts, 80);
}

TEST(EarleyMachine, LeadsNowhereIntoADeadEnd) {
  std::mt19937 random(fresh_seed());
  for (int round = 0; round < 300; ++round) {
    const Grammar grammar = random_grammar(random);
    auto productions = make_productions(grammar, text_until_factory());
    if (!productions.ok()) continue;
    EarleyMachine machine(*std::move(productions));
    State state = machine.start();
    for (int step = 0; step < 12; ++step) {
      // Breadth first to an accepting state.
      std::deque<State> open = {state};
      std::set<State> seen = {state};
      bool accepted = false;
      while (!open.empty() && !accepted && seen.size() < 3000) {
        const State at = open.front();
        open.pop_front();
        accepted = machine.accepts(at);
        for (const uint8_t byte : {'a', 'b'}) {
          const State next = machine.next(at, byte);
          if (next != kDead && seen.insert(next).second) open.push_back(next);
        }
      }
      EXPECT_TRUE(accepted || seen.size() >= 3000) << grammar.key();
      const State a = machine.next(state, 'a');
      const State b = machine.next(state, 'b');
      if (a == kDead && b == kDead) break;
      state = b == kDead || (a != kDead && random() % 2 == 0) ? a : b;
    }
  }
}

TEST(EarleyMachine, CountsWithoutExpanding) {
  Grammar grammar;
  const Grammar::Id item = grammar.sequence({grammar.literal("a"), grammar.literal("b")});
  grammar.set_root(grammar.repeat(item, 2, 1'000'000'000));
  EarleyMachine machine = machine_of(grammar);
  EXPECT_FALSE(matches(machine, "ab"));
  EXPECT_TRUE(matches(machine, "abab"));
  EXPECT_FALSE(matches(machine, "ababa"));
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "ab";
  EXPECT_TRUE(matches(machine, text));
  EXPECT_LT(machine.memory(), size_t{1} << 20);
}

TEST(EarleyMachine, NestsDeeply) {
  EarleyMachine machine = machine_of(R"(root ::= "[" (root ("," root)*)? "]")");
  constexpr int kDepth = 60000;
  State state = machine.start();
  for (int i = 0; i < kDepth; ++i) state = machine.next(state, '[');
  for (int i = 0; i < kDepth; ++i) {
    EXPECT_FALSE(machine.accepts(state));
    state = machine.next(state, ']');
  }
  EXPECT_TRUE(machine.accepts(state));
  EXPECT_EQ(machine.next(state, ']'), kDead);
}

TEST(EarleyMachine, RecursesToTheRightInConstantTime) {
  EarleyMachine machine = machine_of(R"(root ::= "a" root | "b")");
  State state = machine.start();
  const double begin = test_cpu_seconds();
  for (int i = 0; i < 100000; ++i) state = machine.next(state, 'a');
  EXPECT_FALSE(machine.accepts(state));
  EXPECT_TRUE(machine.accepts(machine.next(state, 'b')));
  EXPECT_LT(test_cpu_seconds() - begin, 5);
}

TEST(EarleyMachine, KeepsEqualStatesEqual) {
  EarleyMachine machine = machine_of(
      "root ::= item (\",\" item)*\n"
      "item ::= [a-z]+ | \"(\" root \")\"");
  EXPECT_EQ(read(machine, "ab,cd"), read(machine, "x,y,zz"));
  EXPECT_EQ(read(machine, "a,(b,c"), read(machine, "a,(bcd,e,fg"));
  EXPECT_NE(read(machine, "a,(b"), read(machine, "a,((b"));
}

/// Work for a text of `n` times the letter; nothing if it took more than `limit`.
std::optional<uint64_t> work_of(std::string_view gbnf, std::string_view letters, int n,
                                uint64_t limit) {
  EarleyMachine machine = machine_of(gbnf);
  WorkMeter meter;
  meter.begin(limit);
  machine.count_work(meter);
  State state = machine.start();
  for (int i = 0; i < n; ++i) {
    for (const char c : letters) state = machine.next(state, static_cast<uint8_t>(c));
  }
  if (meter.exhausted()) return std::nullopt;
  EXPECT_TRUE(machine.accepts(state));
  return meter.spent();
}

TEST(EarleyMachine, GivesUpOnBoundlessAmbiguity) {
  constexpr const char* kAmbiguous = "root ::= t t | \"a\"\nt ::= root root | root | \"a\"";
  EXPECT_FALSE(work_of(kAmbiguous, "a", 3000, 1'000'000));
  EarleyMachine machine = machine_of(kAmbiguous);
  WorkMeter meter;
  meter.begin(10'000);
  machine.count_work(meter);
  State state = machine.start();
  State last = state;
  while (state != kDead) {
    last = state;
    state = machine.next(state, 'a');
  }
  EXPECT_TRUE(meter.exhausted());
  // With more work, the same state has a next one.
  meter.begin(1'000'000);
  EXPECT_NE(machine.next(last, 'a'), kDead);
  EXPECT_TRUE(machine.status().ok());
}

TEST(EarleyMachine, ReadsRepetitionsInConstantTime) {
  constexpr uint64_t kLimit = 10'000;
  EXPECT_TRUE(work_of(R"(root ::= root root root | root root | "a" | "")", "a", 1000, kLimit));
  EXPECT_TRUE(work_of("root ::= s\ns ::= s s s | s s | \"a\" | \"b\" | [a-z]", "a", 1000, kLimit));
  EXPECT_TRUE(work_of("root ::= root root | (\"(\" root \")\")?", "()", 1000, kLimit));
  constexpr const char* kExpressions =
      "root ::= e \"=\"\n"
      "e ::= e \"+\" e | e \"*\" e | \"-\" e | e \"!\" | \"(\" e \")\" | [0-9]+";
  EarleyMachine machine = machine_of(kExpressions);
  WorkMeter meter;
  meter.begin(kLimit);
  machine.count_work(meter);
  std::string text = "1";
  for (int i = 0; i < 1000; ++i) text += "+-(2*3)!*45";
  EXPECT_TRUE(matches(machine, text + "="));
  EXPECT_FALSE(matches(machine, text + "+="));
}

/// A rule whose alternatives begin and end with the rule itself or not, and its parts.
Grammar random_recursion(std::mt19937& random) {
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Grammar grammar;
  for (const char* name : {"root", "s", "t"}) grammar.add_rule(name);
  const auto self = [&] { return grammar.reference(1); };
  const auto part = [&] {
    switch (draw(6)) {
      case 0:
        return grammar.reference(2);
      case 1:
        return grammar.optional(grammar.literal("a"));
      case 2:
        return self();
      default:
        return grammar.literal(draw(2) ? "a" : "b");
    }
  };
  std::vector<Grammar::Id> alternatives = {grammar.literal(draw(2) ? "a" : "bb")};
  for (int n = 1 + draw(4); n > 0; --n) {
    std::vector<Grammar::Id> parts;
    switch (draw(5)) {
      case 0:
        for (int k = draw(5); k > 0; --k) parts.push_back(self());
        break;
      case 1:
        parts = {self(), part(), self()};
        break;
      case 2:
        parts = {self(), part()};
        break;
      case 3:
        parts = {part(), self()};
        break;
      default:
        parts = {grammar.repeat(self(), draw(3), draw(2) ? Grammar::kUnbounded : 3)};
    }
    alternatives.push_back(grammar.sequence(parts));
  }
  grammar.define(1, grammar.choice(alternatives));
  grammar.define(
      2, grammar.choice({grammar.literal("b"), grammar.sequence({grammar.literal("a"), self()})}));
  grammar.define(0, grammar.sequence({self(), grammar.optional(grammar.literal("b"))}));
  grammar.set_root(grammar.reference(0));
  return grammar;
}

TEST(EarleyMachine, ReadsTheTextsOfRandomRecursion) {
  std::mt19937 random(fresh_seed());
  constexpr size_t kLongest = 6;
  int flattened = 0;
  for (int round = 0; round < 300; ++round) {
    const Grammar grammar = random_recursion(random);
    flattened += flatten_recursion(grammar) ? 1 : 0;
    const Enumeration oracle(grammar, kLongest);
    EarleyMachine machine = machine_of(grammar);
    for (uint32_t bits = 2; bits < 1U << (kLongest + 1); ++bits) {
      // The bits below the highest one are the letters.
      std::string text;
      for (uint32_t b = bits; b > 1; b >>= 1) text += (b & 1U) != 0 ? 'b' : 'a';
      ASSERT_EQ(matches(machine, text), oracle.texts().contains(text))
          << text << " in " << grammar.key();
    }
  }
  EXPECT_GT(flattened, 150);
}

TEST(EarleyMachine, ReadsCharacters) {
  EarleyMachine machine = machine_of(R"(root ::= [^"\\a-c\u00e9\U0001F600-\U0001F64F] "!")");
  EXPECT_TRUE(matches(machine, "d!"));
  EXPECT_TRUE(matches(machine, "日!"));
  EXPECT_TRUE(matches(machine, "è!"));
  EXPECT_TRUE(matches(machine, "\U0001F650!"));
  for (const char* bad : {"b!", "\"!", "é!", "\U0001F642!", "\xED\xA0\x80!", "\xC0\x80!",
                          "\xE0\x80\x80!", "\xF4\x90\x80\x80!", "\xF0\x80\x80\x80!", "\xFF!"}) {
    EXPECT_EQ(read(machine, bad), kDead) << bad;
  }
}

TEST(EarleyMachine, ReadsTextUpToATag) {
  Grammar grammar;
  grammar.set_root(grammar.sequence({grammar.literal("<p>"), grammar.text_until("</p>"),
                                     grammar.optional(grammar.literal("."))}));
  EarleyMachine machine = machine_of(grammar);
  EXPECT_TRUE(matches(machine, "<p>a</</p>"));
  EXPECT_TRUE(matches(machine, "<p>a</p>."));
  EXPECT_FALSE(matches(machine, "<p>a</p"));
  EXPECT_EQ(read(machine, "<p>a</p>b"), kDead);
}

}  // namespace
}  // namespace chimere::constraints
