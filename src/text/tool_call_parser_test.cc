#include "text/tool_call_parser.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"

namespace chimere::text {
namespace {

using ParserJson = nlohmann::ordered_json;
using Kind = ToolEvent::Kind;

/// Words that stand for the written formats.
constexpr std::string_view kFormatWords[] = {
    "<tool_call>",         "<function=",
    "<arg_key>",           "<|python_tag|>",
    "[TOOL_CALLS]",        "[ARGS]",
    "<|tool_call|>",       "<｜tool▁calls▁begin｜>",
    "<|channel|>",         "<|tool_calls_section_begin|>",
    "<|tool_list_start|>",
};

std::vector<ToolFormat> all_formats() {
  std::vector<ToolFormat> out;
  for (const std::string_view word : kFormatWords) out.push_back(written_tool_format(word));
  ToolFormat deepseek31 = written_tool_format("<｜tool▁calls▁begin｜>");
  deepseek31.call_open = "<｜tool▁call▁begin｜>";
  deepseek31.after_name = "<｜tool▁sep｜>";
  deepseek31.call_close = "<｜tool▁call▁end｜>";
  deepseek31.separator = "";
  out.push_back(deepseek31);
  ToolFormat mistral_ids = written_tool_format("[ARGS]");
  mistral_ids.after_name = "[CALL_ID]";
  mistral_ids.after_id = "[ARGS]";
  out.push_back(mistral_ids);
  ToolFormat minimax = written_tool_format("<function=");
  minimax.section_open = "<minimax:tool_call>";
  minimax.call_open = "\n<invoke name=\"";
  minimax.after_name = "\">";
  minimax.parameter_open = "\n<parameter name=\"";
  minimax.after_key = "\">";
  minimax.parameter_close = "</parameter>";
  minimax.call_close = "\n</invoke>";
  minimax.separator = "";
  minimax.section_close = "\n</minimax:tool_call>";
  out.push_back(minimax);
  return out;
}

const std::vector<Tool> kParserTools = {
    {"get_weather", "",
     R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
         "tags": {"type": "array"}, "where": {"type": "object"}, "metric": {"type": "boolean"},
         "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "none": {"type": "null"}}})"},
    {"now", "", ""},
};

/// A generation as a client sees it.
struct Seen {
  std::string content;
  std::string reasoning;
  struct Call {
    std::string name;
    std::string arguments;
    bool ended = false;
    friend bool operator==(const Call&, const Call&) = default;
  };
  std::vector<Call> calls;
  friend bool operator==(const Seen&, const Seen&) = default;

  void add(const std::vector<ToolEvent>& events) {
    for (const ToolEvent& e : events) {
      switch (e.kind) {
        case Kind::kContent:
          content += e.text;
          break;
        case Kind::kReasoning:
          reasoning += e.text;
          break;
        case Kind::kBegin:
          EXPECT_EQ(e.call, static_cast<int32_t>(calls.size()));
          calls.push_back({e.text, ""});
          break;
        case Kind::kArguments:
          ASSERT_EQ(e.call + 1, static_cast<int32_t>(calls.size()));
          EXPECT_FALSE(calls.back().ended);
          calls.back().arguments += e.text;
          break;
        case Kind::kEnd:
          ASSERT_EQ(e.call + 1, static_cast<int32_t>(calls.size()));
          EXPECT_FALSE(calls.back().ended);
          calls.back().ended = true;
          break;
      }
    }
  }
};

Seen parse_pieces(const ToolFormat& format, const std::vector<std::string>& pieces) {
  ToolCallParser parser(format, kParserTools);
  Seen out;
  for (const std::string& piece : pieces) out.add(parser.push(piece));
  out.add(parser.finish());
  return out;
}

Seen parse_whole(const ToolFormat& format, const std::string& text) {
  const Seen whole = parse_pieces(format, {text});
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(parse_pieces(format, bytes), whole) << text;
  for (size_t at = 1; at < text.size(); ++at) {
    const Seen split = parse_pieces(format, {text.substr(0, at), text.substr(at)});
    if (split != whole) {
      ADD_FAILURE() << "split at " << at << " of " << text;
      break;
    }
  }
  return whole;
}

std::string random_words(std::mt19937& random) {
  const std::string_view parts[] = {"a",  "Zürich", "日本", " ",  "\"", "\\", "\n", "<", "</p",
                                    "{}", "[",      "',",   "\t", "=",  "7",  ")",  "é", ">"};
  std::string out = "w";
  for (size_t n = random() % 8; n > 0; --n) out += parts[random() % std::size(parts)];
  return out;
}

ParserJson random_arguments(std::mt19937& random) {
  ParserJson out = ParserJson::object();
  if (random() % 8 == 0) return out;
  if (random() % 2 == 0) out["city"] = random_words(random);
  if (random() % 2 == 0) out["days"] = static_cast<int>(random() % 2000) - 1000;
  if (random() % 2 == 0) out["tags"] = {random_words(random), ParserJson::array(), 1.5, nullptr};
  if (random() % 2 == 0) out["where"] = {{"lat", 2.25}, {"x", {{"y", random_words(random)}}}};
  if (random() % 3 == 0) out["metric"] = random() % 2 == 0;
  if (random() % 3 == 0) out["note"] = nullptr;
  if (random() % 3 == 0) out["note"] = random_words(random);
  if (random() % 4 == 0) out["where"] = ParserJson::object();
  return out;
}

/// The generation of these calls, of any format.
std::string write_generation(const ToolFormat& format, const std::string& before,
                             const std::vector<ToolCall>& calls) {
  if (format.style != ToolFormat::Style::kHarmony) {
    return before + (before.empty() ? "" : "\n\n") + write_tool_calls(format, calls).bytes();
  }
  std::string out = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  if (!before.empty()) out += "<|channel|>final<|message|>" + before + "<|end|><|start|>assistant";
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) out += "<|start|>assistant";
    out += i % 2 == 0 ? "<|channel|>commentary to=functions." + calls[i].name +
                            " <|constrain|>json<|message|>"
                      : " to=functions." + calls[i].name + "<|channel|>commentary json<|message|>";
    out += calls[i].arguments + "<|call|>";
  }
  return out;
}

TEST(ToolCallParser, ReadsWhatEachFormatWrites) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const ToolFormat& format : all_formats()) {
    SCOPED_TRACE(format.section_open + format.call_open);
    for (int round = 0; round < 25; ++round) {
      std::vector<ToolCall> calls;
      const size_t n = format.parallel ? 1 + random() % 3 : 1;
      for (size_t i = 0; i < n; ++i) {
        const bool weather = random() % 4 != 0;
        calls.push_back({"aB3dE6gH9", weather ? "get_weather" : "now",
                         weather ? random_arguments(random).dump() : "{}"});
      }
      const bool before = round % 2 == 0 && !format.trigger().empty();
      const std::string words = before ? "Let me see <b> [x] {y}." : "";
      const std::string text = write_generation(format, words, calls);
      const Seen seen = parse_whole(format, text);
      EXPECT_EQ(seen.content, words) << text;
      if (format.style == ToolFormat::Style::kHarmony) {
        EXPECT_EQ(seen.reasoning, "Hm.");
      }
      ASSERT_EQ(seen.calls.size(), calls.size()) << text;
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(seen.calls[i].name, calls[i].name);
        EXPECT_TRUE(seen.calls[i].ended);
        const ParserJson got = ParserJson::parse(seen.calls[i].arguments, nullptr, false);
        EXPECT_EQ(got, ParserJson::parse(calls[i].arguments)) << text << seen.calls[i].arguments;
      }
    }
  }
}

/// Every prefix of a generation: what is shown is the beginning of what the whole shows.
TEST(ToolCallParser, ShowsNothingThatItTakesBack) {
  for (const ToolFormat& format : all_formats()) {
    const std::string text = write_generation(
        format, format.trigger().empty() ? "" : "Yes.",
        {{"aB3dE6gH9", "get_weather", R"({"city": "Köln \"x\"", "tags": [1, "a"]})"}});
    const Seen whole = parse_pieces(format, {text});
    ToolCallParser parser(format, kParserTools);
    Seen seen;
    for (const char c : text) {
      seen.add(parser.push({&c, 1}));
      EXPECT_TRUE(whole.content.starts_with(seen.content));
      if (seen.calls.empty()) continue;
      EXPECT_TRUE(whole.calls[0].arguments.starts_with(seen.calls[0].arguments));
    }
    seen.add(parser.finish());
    EXPECT_EQ(seen, whole);
  }
}

/// A generation that a limit cuts off shows the beginning of what the whole shows, and no markup.
TEST(ToolCallParser, CutOffCallsShowNoMarkup) {
  for (const ToolFormat& format : all_formats()) {
    const std::string words = format.trigger().empty() ? "" : "Yes.";
    const std::string weather = R"({"city": "Köln \"x\"", "days": 7, "tags": [1, "a"]})";
    std::vector<ToolCall> calls = {{"aB3dE6gH9", "get_weather", weather}};
    if (format.parallel) calls.push_back({"aB3dE6gH9", "now", "{}"});
    const std::string text = write_generation(format, words, calls);
    const Seen whole = parse_pieces(format, {text});
    std::string opener = format.section_open + format.call_open + "<|";
    opener.erase(0, opener.find_first_not_of('\n'));
    for (size_t size = 0; size < text.size(); ++size) {
      ToolCallParser parser(format, kParserTools);
      Seen seen;
      seen.add(parser.push(text.substr(0, size)));
      seen.add(parser.finish(ToolCallParser::End::kCutOff));
      // A few bytes may begin a marker or text.
      const size_t more = seen.content.find_first_not_of('\n', words.size());
      if (seen.calls.empty() && more != std::string::npos) {
        EXPECT_TRUE(opener.starts_with(seen.content.substr(more))) << seen.content;
        EXPECT_LT(seen.content.size() - more, opener.size());
      } else if (more == std::string::npos) {
        EXPECT_TRUE(whole.content.starts_with(seen.content.substr(0, words.size())));
      } else {
        EXPECT_TRUE(whole.content.starts_with(seen.content)) << seen.content;
      }
      ASSERT_LE(seen.calls.size(), whole.calls.size());
      for (size_t i = 0; i < seen.calls.size(); ++i) {
        EXPECT_EQ(seen.calls[i].name, whole.calls[i].name);
        EXPECT_TRUE(whole.calls[i].arguments.starts_with(seen.calls[i].arguments))
            << text.substr(0, size) << ": " << seen.calls[i].arguments;
        EXPECT_TRUE(seen.calls[i].ended);
      }
    }
  }
}

/// With each byte of a text inside the arguments its JSON is out.
TEST(ToolCallParser, ArgumentsAreNotDelayed) {
  const std::string words = "aaaa bbbb cccc";
  for (const ToolFormat& format : all_formats()) {
    const std::string text = write_generation(
        format, "",
        {{"aB3dE6gH9", "get_weather", R"({"city": ")" + words + R"(", "days": 12345})"}});
    for (const std::string& value : {words, std::string("12345")}) {
      const size_t at = text.find(value);
      ASSERT_NE(at, std::string::npos);
      ToolCallParser parser(format, kParserTools);
      Seen seen;
      seen.add(parser.push(text.substr(0, at)));
      for (size_t n = 0; n < value.size(); ++n) {
        seen.add(parser.push(value.substr(n, 1)));
        ASSERT_EQ(seen.calls.size(), 1U);
        // Python's numbers wait for their end: a name could begin the same.
        const bool word = format.style == ToolFormat::Style::kPython && value != words;
        if (word) continue;
        EXPECT_TRUE(seen.calls[0].arguments.ends_with(value.substr(0, n + 1)))
            << text << " " << seen.calls[0].arguments;
      }
    }
  }
}

/// Text in a parameter that the tool's schema does not declare is out with the byte that shows that
/// it is no JSON.
TEST(ToolCallParser, UndeclaredTextIsNotDelayed) {
  for (const ToolFormat& format : all_formats()) {
    if (format.style != ToolFormat::Style::kTagged) continue;
    for (const std::string value : {"some words", "nothing", "None of them", "12 days", "[x] y"}) {
      const std::string text = write_generation(
          format, "", {{"aB3dE6gH9", "get_weather", R"({"other": ")" + value + "\"}"}});
      const size_t at = text.find(value);
      ASSERT_NE(at, std::string::npos);
      ToolCallParser parser(format, kParserTools);
      Seen seen;
      seen.add(parser.push(text.substr(0, at)));
      const size_t decided = value == "some words" ? 1 : value == "12 days" ? 4 : 6;
      for (size_t n = 1; n <= value.size(); ++n) {
        seen.add(parser.push(value.substr(n - 1, 1)));
        if (n < decided) continue;
        EXPECT_TRUE(seen.calls[0].arguments.ends_with(value.substr(0, n)))
            << text << " " << seen.calls[0].arguments;
      }
    }
  }
}

TEST(ToolCallParser, WhatIsNoCallIsContent) {
  const ToolFormat hermes = written_tool_format("<tool_call>");
  for (const std::string text : {
           "Plain text with < and <tool and <tool_cal",
           "Use <tool_call> to call.",
           "<tool_call>\n{\"name\": \"unknown\", \"arguments\": {}}\n</tool_call>",
           "<tool_call>\n{\"arguments\": {}}\n</tool_call>",
           "<tool_call>\n[1]",
           "<tool_call>{\"name\": 5}",
           "<tool_call>{\"name\": \"now\\u0041\"}",
           "<<<tool_call<tool_call",
           "a\n\n b \n",
           " ",
       }) {
    const Seen seen = parse_whole(hermes, text);
    EXPECT_EQ(seen.content, text);
    EXPECT_TRUE(seen.calls.empty());
  }
  const ToolFormat llama = written_tool_format("<|python_tag|>");
  for (const std::string text : {R"({"answer": {"name": "now", "parameters": {}}})", "Not {",
                                 R"(x {"name": "now", "parameters": {}})", R"({"name": "x"})"}) {
    const Seen seen = parse_whole(llama, text);
    EXPECT_EQ(seen.content, text);
    EXPECT_TRUE(seen.calls.empty());
  }
  for (const ToolFormat& format : all_formats()) {
    for (const std::string text : {"Hello, < [ { world!", "[TOOL", "<|tool_", "Text"}) {
      EXPECT_EQ(parse_whole(format, text).content, text);
    }
  }
}

TEST(ToolCallParser, DamagedCalls) {
  const ToolFormat hermes = written_tool_format("<tool_call>");
  const auto call = [&](const std::string& text) {
    const Seen seen = parse_whole(hermes, text);
    std::string out;
    for (const auto& c : seen.calls) out += c.name + c.arguments + (c.ended ? ";" : "?");
    return out + "|" + seen.content;
  };
  // A second marker begins anew.
  EXPECT_EQ(call("<tool_call>\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"),
            "now{};|<tool_call>\n");
  // Other white space, another order, another member, no arguments, no closing tag.
  EXPECT_EQ(call(" <tool_call>{\"name\":\"now\",\n\"arguments\":{ }}</tool_call> "), "now{ };|");
  EXPECT_EQ(call("<tool_call>{\"arguments\": {\"city\": 1}, \"name\": \"now\"}</tool_call>"),
            "now{\"city\": 1};|");
  EXPECT_EQ(call("<tool_call>{\"id\": 7, \"name\": \"now\"}</tool_call>"), "now{};|");
  EXPECT_EQ(call("<tool_call>{\"name\": \"now\", \"arguments\": {}}"), "now{};|");
  // Broken off.
  EXPECT_EQ(call("<tool_call>{\"name\": \"now\", \"arguments\": {\"city\": \"B"),
            "now{\"city\": \"B;|");
  EXPECT_EQ(call("<tool_call>{\"name\": \"no"), "|<tool_call>{\"name\": \"no");
  // No JSON: the call ends, and the rest is content.
  EXPECT_EQ(call("<tool_call>{\"name\": \"now\", \"arguments\": {\"city\" 1}}</tool_call>"),
            "now{\"city\" ;|1}}</tool_call>");
  // A line break in a string.
  EXPECT_EQ(call("<tool_call>{\"name\": \"now\", \"arguments\": {\"city\": \"a\nb\"}}</tool_call>"),
            "now{\"city\": \"a\\nb\"};|");
  // Text behind a call.
  EXPECT_EQ(call("A <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>\nB"),
            "now{};|A\nB");
}

TEST(ToolCallParser, TaggedValuesByTheirSchema) {
  const ToolFormat format = written_tool_format("<function=");
  const auto arguments = [&](const std::string& key, const std::string& value) {
    const Seen seen =
        parse_whole(format, "<tool_call>\n<function=get_weather>\n<parameter=" + key + ">\n" +
                                value + "\n</parameter>\n</function>\n</tool_call>");
    return seen.calls.size() == 1 ? seen.calls[0].arguments : "no call: " + seen.content;
  };
  EXPECT_EQ(arguments("city", "123"), R"({"city": "123"})");
  EXPECT_EQ(arguments("city", ""), R"({"city": ""})");
  EXPECT_EQ(arguments("city", "\n a\n"), R"({"city": "\n a\n"})");
  EXPECT_EQ(arguments("city", "</paramete"), R"({"city": "</paramete"})");
  EXPECT_EQ(arguments("days", " 12 "), R"({"days": 12})");
  EXPECT_EQ(arguments("days", "twelve"), R"({"days": twelve})");
  EXPECT_EQ(arguments("metric", "True"), R"({"metric": true})");
  EXPECT_EQ(arguments("metric", "false"), R"({"metric": false})");
  EXPECT_EQ(arguments("note", "null"), R"({"note": null})");
  EXPECT_EQ(arguments("note", "nullable"), R"({"note": "nullable"})");
  EXPECT_EQ(arguments("none", "None"), R"({"none": null})");
  EXPECT_EQ(arguments("tags", "[\"a\", {\"b\": 1}]"), R"({"tags": ["a", {"b": 1}]})");
  EXPECT_EQ(arguments("other", "7"), R"({"other": 7})");
  EXPECT_EQ(arguments("other", "seven"), R"({"other": "seven"})");
  EXPECT_EQ(arguments("other", "[a"), R"({"other": "[a"})");
  EXPECT_EQ(arguments("other", " [1, {}] "), R"({"other": [1, {}]})");
  EXPECT_EQ(arguments("other", "[1] a"), R"({"other": "[1] a"})");
  EXPECT_EQ(arguments("other", "\"a\" b"), R"({"other": "\"a\" b"})");
  EXPECT_EQ(arguments("other", "True"), R"({"other": true})");
  EXPECT_EQ(arguments("other", "True "), R"({"other": true})");
  EXPECT_EQ(arguments("other", "True a"), R"({"other": "True a"})");
  EXPECT_EQ(arguments("other", "Nobody"), R"({"other": "Nobody"})");
  EXPECT_EQ(arguments("other", ""), R"({"other": ""})");
}

TEST(ToolCallParser, PythonsLiterals) {
  const ToolFormat format = written_tool_format("<|tool_list_start|>");
  const auto arguments = [&](const std::string& text) {
    const Seen seen =
        parse_whole(format, "<|tool_call_start|>[now(" + text + ")]<|tool_call_end|>");
    return seen.calls.size() == 1 ? seen.calls[0].arguments + seen.content : seen.content;
  };
  EXPECT_EQ(arguments("a='it\\'s \"q\"', b=-1.5e3"), R"({"a": "it's \"q\"", "b": -1.5e3})");
  EXPECT_EQ(arguments("a=[True, None, (1, 2)], b={'k': False}"),
            R"({"a": [true,null,[1,2]], "b": {"k":false}})");
  EXPECT_EQ(arguments("a='\\x41\\u00e9\\n\\q)'"), R"j({"a": "\u0041\u00e9\n\\q)"})j");
  EXPECT_EQ(arguments("positional"), R"({positional)]<|tool_call_end|>)");
}

TEST(ToolCallParser, HostileTextTakesLinearTime) {
  for (const ToolFormat& format : all_formats()) {
    const std::string marker = format.section_open + format.call_open;
    for (const std::string& unit : {marker, marker.substr(0, marker.size() / 2), std::string(" "),
                                    std::string("{"), std::string("<"), std::string("\n<")}) {
      if (unit.empty()) continue;
      std::string text;
      while (text.size() < 200'000) text += unit;
      ToolCallParser parser(format, kParserTools);
      Seen seen;
      seen.add(parser.push(text));
      seen.add(parser.finish());
      if (format.style == ToolFormat::Style::kHarmony) continue;
      EXPECT_EQ(seen.content.size(), text.size()) << unit;
    }
  }
}

}  // namespace
}  // namespace chimere::text
