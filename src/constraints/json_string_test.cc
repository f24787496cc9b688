#include "constraints/json_string.h"

#include <gtest/gtest.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "constraints/regex_machine.h"
#include "text/utf8.h"

namespace chimere::constraints {
namespace {

State read(Machine& machine, State state, std::string_view text) {
  for (const char c : text) state = machine.next(state, static_cast<uint8_t>(c));
  return state;
}

bool accepts(Machine& machine, std::string_view text) {
  const State state = read(machine, machine.start(), text);
  return state != kDead && machine.accepts(state);
}

std::string escape(uint32_t unit, std::mt19937& random) {
  std::string out = "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) {
    out += (random() % 2 == 0 ? "0123456789abcdef" : "0123456789ABCDEF")[unit >> shift & 15];
  }
  return out;
}

/// A string of random characters in random forms; sometimes not JSON.
std::string random_json(std::mt19937& random) {
  static constexpr uint32_t kCodes[] = {'a',  'b',  'a',  'b',    '1',     ' ',      '"', '/',
                                        '\\', '\n', 0xE9, 0x4E2D, 0x1F600, 0x10FFFF, 0x7F};
  std::string out = "\"";
  for (uint32_t n = random() % 6; n > 0; --n) {
    const uint32_t code = kCodes[random() % 15];
    if (random() % 40 == 0) {
      static const char* const kWrong[] = {"\xFF",     "\\x",   "\n",      "\\uD800",
                                           "\\uDC00a", "\\u12", "\xE4\xB8"};
      out += kWrong[random() % 7];
      continue;
    }
    const size_t simple = std::string_view("\"\\/\n").find(static_cast<char>(code));
    if (code < 0x80 && simple != std::string_view::npos && random() % 2 == 0) {
      out += std::string("\\") + "\"\\/n"[simple];
    } else if (random() % 3 == 0 || code == '"' || code == '\\' || code == '\n') {
      if (code < 0x10000) {
        out += escape(code, random);
      } else {
        out += escape(0xD800 + ((code - 0x10000) >> 10), random);
        out += escape(0xDC00 + (code & 0x3FF), random);
      }
    } else {
      text::append_utf8(out, code);
    }
  }
  return out + "\"";
}

size_t characters(std::string_view utf8) {
  size_t count = 0;
  for (const char c : utf8) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

constexpr const char* kPatterns[] = {
    "",
    "^[ab]*$",
    "^(ab|a|bab)+$",
    "a.*b",
    "^(?!a)",
    "^(?=.*1)(?=.*a)[ab1 ]*$",
    "[^\\x00-\\x7F]",
    "^(aa)*$",
    "^[\\u{1F600}-\\u{1F64F}]+$",
    "^([ab]{2}|[ab1]{5}|.{9})*$",
    "\\ba",
    "^[^a]{0,1000000}$",
    "^(?:\\s|\\S)?$",
    "^\\P{L}*$",
};

TEST(JsonString, AgreesWithParserAndMatcher) {
  std::mt19937 random(fresh_seed());
  const auto seed = random();
  random.seed(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  int accepted = 0;
  for (int round = 0; round < 300; ++round) {
    RegexArena arena;
    const char* pattern = kPatterns[random() % std::size(kPatterns)];
    Regex language = *arena.parse(pattern, RegexSyntax::kEcma262Search);
    JsonStringMachine::Options options;
    if (random() % 2 == 0) options.min_length = random() % 4;
    if (random() % 2 == 0) options.max_length = options.min_length + random() % 5;
    options.canonical = random() % 3 == 0;
    SCOPED_TRACE(testing::Message()
                 << pattern << " " << options.min_length << " to " << options.max_length
                 << (options.canonical ? ", canonical" : ""));
    auto machine = JsonStringMachine::create(arena, language, options);
    const auto member = [&](const std::string& value) {
      const size_t length = characters(value);
      return length >= options.min_length && length <= options.max_length &&
             arena.matches(language, value);
    };
    if (!machine.ok()) {
      ASSERT_EQ(machine.error().code, Error::Code::kInvalidArgument) << machine.error().message;
    }
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_json(random);
      const auto parsed = nlohmann::json::parse(text, nullptr, false);
      const bool valid = parsed.is_string() && member(parsed.get<std::string>()) &&
                         (!options.canonical || text == parsed.dump());
      ASSERT_EQ(machine.ok() && accepts(**machine, text), valid) << text;
      accepted += valid ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 1'000);
}

/// Whether some bytes lead from `state` to an accepting one.
bool ends(Machine& machine, State state) {
  std::set<State> seen = {state};
  std::deque<State> queue = {state};
  while (!queue.empty() && seen.size() < 20'000) {
    const State at = queue.front();
    queue.pop_front();
    if (machine.accepts(at)) return true;
    for (int byte = 0; byte < 256; ++byte) {
      const State next = machine.next(at, static_cast<uint8_t>(byte));
      if (next != kDead && seen.insert(next).second) queue.push_back(next);
    }
  }
  return false;
}

TEST(JsonString, NoStateIsADeadEnd) {
  std::mt19937 random(fresh_seed());
  const auto seed = random();
  random.seed(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (int round = 0; round < 150; ++round) {
    RegexArena arena;
    const char* pattern = kPatterns[random() % std::size(kPatterns)];
    const Regex language = *arena.parse(pattern, RegexSyntax::kEcma262Search);
    JsonStringMachine::Options options;
    if (random() % 2 == 0) options.min_length = random() % 4;
    if (random() % 3 != 0) options.max_length = options.min_length + random() % 5;
    options.opening_quote = random() % 2 == 0;
    options.canonical = random() % 3 == 0;
    SCOPED_TRACE(testing::Message()
                 << pattern << " " << options.min_length << " to " << options.max_length);
    auto machine = JsonStringMachine::create(arena, language, options);
    if (!machine.ok()) continue;
    State state = (*machine)->start();
    std::string text;
    for (int step = 0; step < 25; ++step) {
      ASSERT_TRUE(ends(**machine, state)) << "after " << text;
      std::vector<uint8_t> live;
      const ByteSet first = (*machine)->first_bytes(state);
      for (int byte = 0; byte < 256; ++byte) {
        if ((*machine)->next(state, static_cast<uint8_t>(byte)) == kDead) continue;
        ASSERT_TRUE(first[static_cast<size_t>(byte)]) << byte << " after " << text;
        live.push_back(static_cast<uint8_t>(byte));
        if (byte == '\\' || byte == 'u' || byte == 'd') live.insert(live.end(), 20, byte);
      }
      if (live.empty()) break;
      text += static_cast<char>(live[random() % live.size()]);
      state = (*machine)->next(state, static_cast<uint8_t>(text.back()));
    }
  }
}

TEST(JsonString, MaskClassesAllowTheSameTexts) {
  std::mt19937 random(7);
  for (const char* pattern : {"", "^[ab]*$", "^(ab|b)*$"}) {
    RegexArena arena;
    const Regex language = *arena.parse(pattern, RegexSyntax::kEcma262Search);
    JsonStringMachine::Options options;
    options.min_length = 12;
    options.max_length = 30;
    auto machine = JsonStringMachine::create(arena, language, options);
    ASSERT_TRUE(machine.ok());
    constexpr int kLongest = 5;
    State state = read(**machine, (*machine)->start(), "\"");
    for (int at = 0; at < 30 && state != kDead; ++at) {
      const State other = (*machine)->mask_class(state, kLongest);
      for (int i = 0; i < 300; ++i) {
        std::string text;
        for (uint32_t n = 1 + random() % kLongest; n > 0; --n) text += "aab\"\\u0"[random() % 7];
        const State a = read(**machine, state, text);
        const State b = read(**machine, other, text);
        ASSERT_EQ(a == kDead, b == kDead) << pattern << " " << at << " " << text;
        if (a != kDead) {
          ASSERT_EQ((*machine)->accepts(a), (*machine)->accepts(b)) << text;
        }
      }
      state = (*machine)->next(state, at % 2 == 0 ? 'a' : 'b');
    }
  }
}

TEST(JsonString, CanonicalTextsEscapeWhatTheyMust) {
  RegexArena arena;
  JsonStringMachine::Options options;
  options.canonical = true;
  auto any = JsonStringMachine::create(arena, arena.any(), options);
  auto words = JsonStringMachine::create(arena, arena.words({"\x1F\n\"é/"}), options);
  ASSERT_TRUE(any.ok() && words.ok());
  for (JsonStringMachine* machine : {any->get(), words->get()}) {
    EXPECT_TRUE(accepts(*machine, R"("\u001f\n\"é/")"));
    for (const char* text : {R"("\u001f\u000a\"é/")", R"("\u001f\n\u0022é/")",
                             R"("\u001f\n\"\u00e9/")", R"("\u001f\n\"é\/")"}) {
      EXPECT_FALSE(accepts(*machine, text)) << text;
    }
  }
  for (const char* begun : {"\"\\u1", "\"\\ud", "\"\\u006", "\"\\/"}) {
    EXPECT_EQ(read(**any, (*any)->start(), begun), kDead) << begun;
  }
  // Masks are shared between requests, but not with other escapes.
  auto again = JsonStringMachine::create(arena, arena.any(), options);
  auto escaped = JsonStringMachine::create(arena, arena.any());
  const auto key = [](JsonStringMachine& machine) {
    return machine.shared_key(read(machine, machine.start(), "\""));
  };
  EXPECT_EQ(key(**any), key(**again));
  EXPECT_NE(key(**any), key(**escaped));
}

TEST(JsonString, LargeBoundsAndEnumerationsAreCheap) {
  RegexArena arena;
  JsonStringMachine::Options options;
  options.min_length = 500'000;
  options.max_length = 1'000'000;
  auto machine = JsonStringMachine::create(arena, arena.any(), options);
  ASSERT_TRUE(machine.ok());
  EXPECT_TRUE(accepts(**machine, "\"" + std::string(500'000, 'x') + "\""));
  EXPECT_FALSE(accepts(**machine, "\"" + std::string(499'999, 'x') + "\""));
  std::vector<std::string> words;
  for (int i = 0; i < 10'000; ++i) words.push_back("say \"" + std::to_string(i * 31) + "\"");
  auto choice = JsonStringMachine::create(arena, arena.words(words));
  ASSERT_TRUE(choice.ok());
  EXPECT_TRUE(accepts(**choice, R"("say \"310\"")"));
  // Escapes of characters that need none are not offered where the texts are listed.
  EXPECT_TRUE(accepts(**choice, R"("say \u0022310\u0022")"));
  EXPECT_FALSE(accepts(**choice, R"("\u0073ay \"310\"")"));
  EXPECT_FALSE(accepts(**choice, R"("say \"311\"")"));
}

TEST(JsonString, PlainStringsShareMasks) {
  RegexArena arena;
  RegexArena other_arena;
  auto plain = JsonStringMachine::create(arena, arena.any());
  JsonStringMachine::Options options;
  options.max_length = 100;
  auto bounded = JsonStringMachine::create(other_arena, other_arena.any(), options);
  for (const char* text : {"\"ab", "\"\\u00", "\"\xE4", "\"\xE4\xB8", "\"\\"}) {
    const State a = read(**plain, (*plain)->start(), text);
    const State b = read(**bounded, (*bounded)->start(), text);
    EXPECT_NE((*plain)->shared_key(a), 0U);
    EXPECT_NE((*bounded)->shared_key(b), (*plain)->shared_key(a));
    EXPECT_EQ((*bounded)->shared_key((*bounded)->mask_class(b, 10)), (*plain)->shared_key(a));
  }
}

TEST(JsonString, EmptyLanguagesAreErrors) {
  RegexArena arena;
  JsonStringMachine::Options options;
  options.min_length = 3;
  options.max_length = 2;
  EXPECT_FALSE(JsonStringMachine::create(arena, arena.any(), options).ok());
  options = JsonStringMachine::Options();
  options.min_length = 3;
  options.max_length = 3;
  const Regex even = *arena.parse("^(aa)*$", RegexSyntax::kEcma262Search);
  EXPECT_FALSE(JsonStringMachine::create(arena, even, options).ok());
  EXPECT_FALSE(JsonStringMachine::create(arena, arena.none()).ok());
}

}  // namespace
}  // namespace chimere::constraints
