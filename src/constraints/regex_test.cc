#include "constraints/regex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "constraints/regex_machine.h"
#include "text/utf8.h"

namespace chimere::constraints {
namespace {

Regex search(RegexArena& arena, std::string_view pattern) {
  auto parsed = arena.parse(pattern, RegexSyntax::kEcma262Search);
  EXPECT_TRUE(parsed.ok()) << pattern << ": " << (parsed.ok() ? "" : parsed.error().message);
  return parsed.ok() ? *parsed : arena.none();
}

bool found(std::string_view pattern, std::string_view text) {
  RegexArena arena;
  return arena.matches(search(arena, pattern), text);
}

/// Random patterns of constructs that std::regex knows, too.
class PatternMaker {
 public:
  explicit PatternMaker(std::mt19937& random) : random_(random) {}

  std::string alternation(int depth) {
    std::string out = sequence(depth);
    while (pick(4) == 0) out += "|" + sequence(depth);
    return out;
  }

 private:
  uint32_t pick(uint32_t n) { return random_() % n; }

  std::string sequence(int depth) {
    std::string out;
    for (uint32_t n = pick(4); n > 0; --n) out += term(depth);
    return out;
  }

  std::string term(int depth) {
    const uint32_t kind = pick(depth > 0 ? 16 : 9);
    switch (kind) {
      case 0:
        return "^";
      case 1:
        return "$";
      case 2:
        return pick(2) == 0 ? "\\b" : "\\B";
      case 9:
      case 10:
        return (pick(2) == 0 ? "(?=" : "(?!") + alternation(depth - 1) + ")";
      default:
        break;
    }
    // Assertions inside repeats are rarely supported: keep repeats plain.
    std::string atom;
    if (kind < 12) {
      static const char* const kAtoms[] = {"a",   "b",   "_",    " ",    ".",
                                           "\\w", "\\d", "[ab]", "[^a]", "\\W"};
      atom = kAtoms[pick(10)];
    } else if (kind == 12) {
      return "(" + alternation(depth - 1) + ")";
    } else if (kind == 13) {
      atom = "(?:" + plain(depth - 1) + "(?:" + (pick(2) == 0 ? "$|" : "") + plain(0) + "))";
    } else {
      atom = "(?:" + plain(depth - 1) + ")";
    }
    static const char* const kCounts[] = {"",    "",      "",     "*",  "+",    "?",
                                          "{2}", "{1,3}", "{2,}", "*?", "{0,4}"};
    return atom + kCounts[pick(11)];
  }

  std::string plain(int depth) {
    std::string out;
    do {
      for (uint32_t n = 1 + pick(3); n > 0; --n) {
        if (depth > 0 && pick(3) == 0) {
          out += "(" + plain(depth - 1) + ")" + (pick(2) == 0 ? "*" : "{1,2}");
        } else {
          static const char* const kAtoms[] = {"a", "b", "1", "[a1]", "b?", "a+", "\\w{2}"};
          out += kAtoms[pick(7)];
        }
      }
      if (pick(3) != 0) return out;
      out += "|";
    } while (true);
  }

  std::mt19937& random_;
};

TEST(Regex, AgreesWithStdRegexOnRandomPatterns) {
  std::mt19937 random(fresh_seed());
  const auto seed = random();
  random.seed(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  int compared = 0;
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string pattern = PatternMaker(random).alternation(2);
    RegexArena arena;
    const auto language = arena.parse(pattern, RegexSyntax::kEcma262Search);
    if (!language.ok()) {
      ASSERT_EQ(language.error().code, Error::Code::kUnsupported)
          << pattern << ": " << language.error().message;
      ++refused;
      continue;
    }
    // The breadth-first matcher of the library: the other one takes exponential time.
    const std::regex oracle(pattern, std::regex::ECMAScript | std::regex_constants::__polynomial);
    for (int k = 0; k < 20; ++k) {
      std::string text;
      for (uint32_t n = random() % 8; n > 0; --n) text += "ab_1 "[random() % 5];
      ASSERT_EQ(arena.matches(*language, text), std::regex_search(text, oracle))
          << "pattern " << pattern << " text '" << text << "'";
      ++compared;
    }
  }
  EXPECT_GT(compared, 30'000);
  EXPECT_LT(refused, 1'000);
}

TEST(Regex, AnchorsInsideAlternatives) {
  EXPECT_TRUE(found("^a|b$", "ax"));
  EXPECT_TRUE(found("^a|b$", "xb"));
  EXPECT_FALSE(found("^a|b$", "xax"));
  EXPECT_TRUE(found("(^|,)x", "a,x"));
  EXPECT_FALSE(found("(^|,)x", "ax"));
  EXPECT_TRUE(found("", "anything"));
  EXPECT_FALSE(found("a^", "a"));
}

TEST(Regex, LookAround) {
  EXPECT_TRUE(found("^(?!foo).*$", "bar"));
  EXPECT_FALSE(found("^(?!foo).*$", "foobar"));
  EXPECT_TRUE(found("^(?=.*[A-Z])(?=.*\\d)[^ ]{4,}$", "aB1c"));
  EXPECT_FALSE(found("^(?=.*[A-Z])(?=.*\\d)[^ ]{4,}$", "aBcc"));
  EXPECT_TRUE(found("^[a-z-]+(?<!-)$", "a-b"));
  EXPECT_FALSE(found("^[a-z-]+(?<!-)$", "a-"));
  EXPECT_TRUE(found("(?<=\\$)\\d+", "cost $12"));
  EXPECT_FALSE(found("(?<=\\$)\\d+", "cost 12"));
  EXPECT_TRUE(found("^((?!stop).)*$", "go on"));
  EXPECT_FALSE(found("^((?!stop).)*$", "go stop on"));
  EXPECT_TRUE(found("\\bcat\\b", "a cat."));
  EXPECT_FALSE(found("\\bcat\\b", "concat."));
}

TEST(Regex, EndOfTextInsideRepeats) {
  const char* list = "^([^,]+(,|$)){3,}$";
  EXPECT_TRUE(found(list, "a,b,c"));
  EXPECT_TRUE(found(list, "a,b,c,"));
  EXPECT_TRUE(found(list, "a,b,c,d"));
  EXPECT_FALSE(found(list, "a,b"));
  EXPECT_FALSE(found(list, "a,,b,c"));
  const char* path = "^(\\/?((\\.{2})|([a-z0-9\\-]*))($|\\/))*$";
  for (const char* text : {"", "/", "a/b", "../a/", "a//b"}) EXPECT_TRUE(found(path, text)) << text;
  for (const char* text : {"a.b", "A", "...", "a b"}) EXPECT_FALSE(found(path, text)) << text;
}

TEST(Regex, Unicode) {
  EXPECT_TRUE(found("^\\p{L}+$", "Straße日本"));
  EXPECT_FALSE(found("^\\p{L}+$", "a1"));
  EXPECT_TRUE(found("^.$", "😀"));
  EXPECT_TRUE(found("^\\uD83D\\uDE00$", "😀"));
  EXPECT_TRUE(found("^\\u{1F600}$", "😀"));
  EXPECT_TRUE(found("^[\\u0000-\\uD7FF\\uE000-\\uFFFF]$", "é"));
  EXPECT_TRUE(found("^[^\\uD800-\\uDFFF]$", "😀"));
  EXPECT_FALSE(found("^\\W$", "a"));
  EXPECT_TRUE(found("^\\s$", "\u3000"));
  RegexArena arena;
  EXPECT_FALSE(arena.matches(arena.any(), "\xED\xA0\x80"));
}

TEST(Regex, ErrorsNameTheConstruct) {
  RegexArena arena;
  for (const char* pattern : {"(a)\\1", "\\p{Script=Greek}", "(?>a)", "(?i)a", "a{1,9999999999}"}) {
    const auto parsed = arena.parse(pattern, RegexSyntax::kEcma262Search);
    ASSERT_FALSE(parsed.ok()) << pattern;
    EXPECT_EQ(parsed.error().code, Error::Code::kUnsupported) << pattern;
  }
  for (const char* pattern :
       {"(", ")", "a**", "[a", "[z-a]", "a{2,1}", "\\", "(?<n", "\\xZ", "*", "\xFF"}) {
    const auto parsed = arena.parse(pattern, RegexSyntax::kEcma262Search);
    ASSERT_FALSE(parsed.ok()) << pattern;
    EXPECT_EQ(parsed.error().code, Error::Code::kInvalidArgument) << pattern;
  }
  const auto deep = arena.parse(std::string(60'000, '('), RegexSyntax::kEcma262Search);
  EXPECT_FALSE(deep.ok());
}

TEST(Regex, LargeCountsCostNothing) {
  RegexArena arena;
  const Regex many = *arena.parse("^(a|bc){0,1000000}$", RegexSyntax::kEcma262Search);
  EXPECT_TRUE(arena.matches(many, "abcabca"));
  EXPECT_FALSE(arena.matches(many, "abcabcb"));
  const Regex window = *arena.parse("^.*x.{0,1000000}$", RegexSyntax::kEcma262Search);
  std::string text(2'000, 'x');
  EXPECT_TRUE(arena.matches(window, text));
  EXPECT_LT(arena.memory(), size_t{4} << 20);
}

/// Random languages over a and b as sets of all texts of up to six characters.
class Brute {
 public:
  static constexpr int kLongest = 6;
  using Set = std::vector<bool>;  // index: 1 followed by the characters as bits

  static std::string text(size_t index) {
    std::string out;
    for (; index > 1; index >>= 1) out += (index & 1) != 0 ? 'b' : 'a';
    std::ranges::reverse(out);
    return out;
  }
  static size_t index(std::string_view text) {
    size_t out = 1;
    for (const char c : text) out = out << 1 | (c == 'b' ? 1 : 0);
    return out;
  }
  static Set make(const auto& member) {
    Set out(size_t{2} << kLongest);
    for (size_t i = 1; i < out.size(); ++i) out[i] = member(text(i));
    return out;
  }
  static Set concat(const Set& a, const Set& b) {
    return make([&](const std::string& t) {
      for (size_t cut = 0; cut <= t.size(); ++cut) {
        if (a[index(t.substr(0, cut))] && b[index(t.substr(cut))]) return true;
      }
      return false;
    });
  }
};

struct Both {
  Regex regex;
  Brute::Set set;
};

Both random_language(RegexArena& arena, std::mt19937& random, int depth) {
  const auto sub = [&] { return random_language(arena, random, depth - 1); };
  switch (depth == 0 ? random() % 4 : random() % 10) {
    case 0: {
      const char c = "ab"[random() % 2];
      return {arena.characters(CodePointSet::of(static_cast<uint32_t>(c))),
              Brute::make([&](const std::string& t) { return t == std::string(1, c); })};
    }
    case 1:
      return {arena.words({"ab", "a", "bba", ""}), Brute::make([](const std::string& t) {
                return t.empty() || t == "ab" || t == "a" || t == "bba";
              })};
    case 2: {
      const uint32_t min = random() % 3;
      const uint32_t max = min + random() % 3;
      return {arena.length(min, max), Brute::make([&](const std::string& t) {
                return t.size() >= min && t.size() <= max;
              })};
    }
    case 3:
      return {arena.any(), Brute::make([](const std::string&) { return true; })};
    case 4:
    case 5: {
      const Both a = sub();
      const Both b = sub();
      return {arena.concat(a.regex, b.regex), Brute::concat(a.set, b.set)};
    }
    case 6: {
      const Both a = sub();
      const Both b = sub();
      return {arena.unite(a.regex, b.regex), Brute::make([&](const std::string& t) {
                return a.set[Brute::index(t)] || b.set[Brute::index(t)];
              })};
    }
    case 7: {
      const Both a = sub();
      const Both b = sub();
      return {arena.intersect(a.regex, b.regex), Brute::make([&](const std::string& t) {
                return a.set[Brute::index(t)] && b.set[Brute::index(t)];
              })};
    }
    case 8: {
      const Both a = sub();
      return {arena.complement(a.regex),
              Brute::make([&](const std::string& t) { return !a.set[Brute::index(t)]; })};
    }
    default: {
      const Both a = sub();
      const uint32_t min = random() % 3;
      const bool open = random() % 3 == 0;
      const uint32_t max = min + random() % 3;
      Brute::Set power = Brute::make([](const std::string& t) { return t.empty(); });
      Brute::Set sum(power.size());
      for (uint32_t count = 0; count <= (open ? Brute::kLongest + 2 : max); ++count) {
        for (size_t i = 0; i < sum.size() && count >= min; ++i) sum[i] = sum[i] || power[i];
        power = Brute::concat(power, a.set);
      }
      return {arena.repeat(a.regex, min, open ? RegexArena::kUnbounded : max), sum};
    }
  }
}

TEST(Regex, OperationsAgreeWithSetsOfTexts) {
  std::mt19937 random(fresh_seed());
  const auto seed = random();
  random.seed(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (int round = 0; round < 400; ++round) {
    RegexArena arena;
    const Both both = random_language(arena, random, 3);
    bool some = false;
    size_t shortest = SIZE_MAX;
    std::vector<size_t> lengths;
    for (size_t i = 1; i < both.set.size(); ++i) {
      const std::string text = Brute::text(i);
      ASSERT_EQ(arena.matches(both.regex, text), both.set[i]) << text;
      if (both.set[i]) {
        some = true;
        shortest = std::min(shortest, text.size());
        lengths.push_back(text.size());
      }
    }
    const auto empty = arena.empty(both.regex);
    ASSERT_TRUE(empty.ok());
    if (some) {
      EXPECT_FALSE(*empty);
      // Characters other than a and b may give shorter texts only through complements.
      EXPECT_LE(arena.shortest(both.regex), shortest);
    }
    if (const auto set = arena.lengths(both.regex)) {
      for (const size_t length : lengths) EXPECT_TRUE(set->meets(length, length));
    }
    const auto texts = arena.enumerate(both.regex, 30);
    ASSERT_TRUE(texts.ok());
    for (const std::string& text : *texts) EXPECT_TRUE(arena.matches(both.regex, text));
    EXPECT_EQ(texts->empty(), *empty);
    for (size_t i = 0; i + 1 < texts->size(); ++i) EXPECT_NE((*texts)[i], (*texts)[i + 1]);
    // Of every live derivative, an end can be reached.
    Regex at = both.regex;
    for (int step = 0; step < 10 && !*empty; ++step) {
      const auto segments = arena.segments(at);
      const Regex target = segments[random() % segments.size()].target;
      if (!arena.alive(target)) continue;
      at = target;
      const auto one = arena.enumerate(at, 1);
      ASSERT_TRUE(one.ok());
      ASSERT_EQ(one->size(), 1U);
      EXPECT_TRUE(arena.matches(at, one->front()));
    }
  }
}

TEST(Regex, EmptinessAndSubsets) {
  RegexArena arena;
  const Regex digits = search(arena, "^\\d+$");
  const Regex word = search(arena, "^\\w+$");
  EXPECT_TRUE(*arena.subset(digits, word));
  EXPECT_FALSE(*arena.subset(word, digits));
  EXPECT_TRUE(*arena.empty(arena.intersect(digits, search(arena, "[a-z]"))));
  const auto few = arena.finite(search(arena, "^(a|b)c?$"), 10);
  ASSERT_TRUE(few.ok() && few->has_value());
  EXPECT_EQ((*few)->size(), 4U);
  EXPECT_FALSE(arena.finite(digits, 10)->has_value());
}

TEST(Regex, ManyWords) {
  std::vector<std::string> words;
  for (int i = 0; i < 10'000; ++i) words.push_back("item number " + std::to_string(i * 7));
  RegexArena arena;
  const Regex language = arena.words(words);
  EXPECT_TRUE(arena.matches(language, "item number 700"));
  EXPECT_FALSE(arena.matches(language, "item number 701"));
  EXPECT_FALSE(arena.matches(language, "item number "));
  EXPECT_EQ(arena.finite(language, 10'000)->value().size(), 10'000U);
}

TEST(RegexMachine, BytesOfCharacters) {
  RegexArena arena;
  auto machine = RegexMachine::create(arena, search(arena, "^[é-ｚ\\u{10000}-\\u{10FFFF}]{1,2}$"));
  ASSERT_TRUE(machine.ok());
  std::mt19937 random(5);
  for (uint32_t code = 0; code <= 0x10FFFF; code += 1 + random() % 50) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    text::append_utf8(text, code);
    State state = (*machine)->start();
    for (const char c : text) state = (*machine)->next(state, static_cast<uint8_t>(c));
    const bool member = (code >= 0xE9 && code <= 0xFF5A) || code >= 0x10000;
    ASSERT_EQ((*machine)->accepts(state), member) << code;
    ASSERT_EQ(state != kDead, member);
  }
  for (const char* invalid : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                              "\xF0\x80\x80\x80", "\x80"}) {
    State state = (*machine)->start();
    for (const char* c = invalid; *c != 0; ++c) {
      state = (*machine)->next(state, static_cast<uint8_t>(*c));
    }
    EXPECT_EQ(state, kDead);
  }
}

}  // namespace
}  // namespace chimere::constraints
