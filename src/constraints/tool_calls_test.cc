#include "constraints/tool_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/fresh_seed.h"
#include "constraints/testing.h"
#include "text/tool_call_parser.h"

namespace chimere::constraints {
namespace {

using Choice = ToolCallsSpec::Choice;
using text::ToolEvent;
using text::ToolFormat;

/// All bytes, and the tags of gpt-oss and DeepSeek as control tokens.
TestTokenizer call_tokenizer() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"<|channel|>", "<|message|>", "<|constrain|>", "<|start|>",
                           "<|tool_calls_section_begin|>", "<|tool_call_begin|>"}) {
    tokens.emplace_back(text);
  }
  return TestTokenizer(std::move(tokens));
}

/// Random texts of a constraint: letters and brackets are likelier than other bytes, and texts end
/// where they can.
class CallWriter {
 public:
  CallWriter(const TestTokenizer& tokenizer, std::mt19937& random)
      : tokenizer_(tokenizer), random_(random), trie_(TokenTrie::create(tokenizer)) {}

  /// Empty: none was found within its length.
  std::string write(const ConstraintSpec& spec) {
    auto constraint = Constraint::compile(spec, trie_);
    EXPECT_TRUE(constraint.ok()) << constraint.error().message;
    if (!constraint.ok()) return "";
    Matcher matcher = (*constraint)->matcher();
    std::string out;
    constexpr int kLongest = 3000;
    for (int i = 0; i < kLongest; ++i) {
      if (matcher.complete() && (matcher.finished() || random_() % 2 == 0)) return out;
      const int32_t token = choose(matcher, i > 300);
      EXPECT_GE(token, 0) << "a dead end behind " << out;
      if (token < 0) return "";
      EXPECT_TRUE(matcher.accept(token));
      out += tokenizer_.token_bytes(token, true);
    }
    return "";
  }

 private:
  int32_t choose(Matcher& matcher, bool hurry) {
    const auto mask = matcher.mask();
    std::vector<int32_t> allowed;
    for (int32_t t = 0; t < tokenizer_.n_tokens(); ++t) {
      const auto bit = static_cast<uint32_t>(t);
      const bool set = (mask[bit / 32] >> (bit % 32) & 1U) != 0;
      if (set && !tokenizer_.is_end_of_generation(t)) allowed.push_back(t);
    }
    if (allowed.empty()) return -1;
    // What closes something, or begins a tag.
    constexpr std::string_view kClosing = "\"}]<[\n/)>";
    for (int tries = 0; tries < (hurry ? 40 : 2); ++tries) {
      const int32_t token = allowed[random_() % allowed.size()];
      const bool closes = token < 128 && kClosing.find(static_cast<char>(token)) != kClosing.npos;
      if (closes || token >= 256) return token;
    }
    return allowed[random_() % allowed.size()];
  }

  const TestTokenizer& tokenizer_;
  std::mt19937& random_;
  std::shared_ptr<const TokenTrie> trie_;
};

struct ReadCalls {
  std::string content;
  std::vector<text::ToolCall> calls;
};

ReadCalls read_calls(const ToolFormat& format, const std::vector<text::Tool>& tools,
                     const std::string& text) {
  text::ToolCallParser parser(format, tools);
  std::vector<ToolEvent> events = parser.push(text);
  for (ToolEvent& e : parser.finish()) events.push_back(std::move(e));
  ReadCalls out;
  for (const ToolEvent& e : events) {
    if (e.kind == ToolEvent::Kind::kContent) out.content += e.text;
    if (e.kind == ToolEvent::Kind::kBegin) out.calls.push_back({"", e.text, ""});
    if (e.kind == ToolEvent::Kind::kArguments) out.calls.back().arguments += e.text;
  }
  return out;
}

const std::vector<text::Tool> kCallTools = {
    {"look_up", "",
     R"({"type": "object", "properties": {
         "word": {"type": "string", "maxLength": 5},
         "kind": {"type": "string", "enum": ["noun", "a <b>"]},
         "count": {"type": "integer", "minimum": 1, "maximum": 99},
         "code": {"type": "string", "pattern": "^[a-c]{2,4}$"},
         "tags": {"type": "array", "items": {"enum": [1, "x", null]}, "maxItems": 3}},
         "required": ["kind", "count"], "additionalProperties": false})",
     false},
    {"stop", "", "", false},
};

void check_arguments(const text::ToolCall& call) {
  const auto json = nlohmann::json::parse(call.arguments, nullptr, false);
  ASSERT_TRUE(json.is_object()) << call.arguments;
  if (call.name == "stop") {
    EXPECT_TRUE(json.empty()) << call.arguments;
    return;
  }
  ASSERT_EQ(call.name, "look_up");
  ASSERT_TRUE(json.contains("kind") && json.contains("count")) << call.arguments;
  EXPECT_TRUE(json["kind"] == "noun" || json["kind"] == "a <b>") << call.arguments;
  ASSERT_TRUE(json["count"].is_number()) << call.arguments;
  const auto count = json["count"].get<double>();  // 2e1 is an integer
  EXPECT_TRUE(count == std::floor(count) && count >= 1 && count <= 99) << call.arguments;
  for (const auto& [key, value] : json.items()) {
    if (key == "code") {
      const auto text = value.get<std::string>();
      EXPECT_TRUE(text.size() >= 2 && text.size() <= 4 &&
                  text.find_first_not_of("abc") == std::string::npos)
          << call.arguments;
    } else if (key == "tags") {
      EXPECT_LE(value.size(), 3U) << call.arguments;
    } else {
      EXPECT_TRUE(key == "kind" || key == "count" || key == "word") << call.arguments;
    }
  }
}

std::vector<ToolFormat> call_formats() {
  std::vector<ToolFormat> out;
  for (const char* word : {"<tool_call>", "<function=", "<arg_key>", "<|python_tag|>",
                           "[TOOL_CALLS]", "[ARGS]", "<|tool_call|>", "<｜tool▁calls▁begin｜>",
                           "<|channel|>", "<|tool_calls_section_begin|>", "<|tool_list_start|>"}) {
    out.push_back(text::written_tool_format(word));
  }
  return out;
}

/// Whatever is written under the constraint is read as valid calls, in every format.
TEST(ToolCallsConstraint, WritesValidCalls) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TestTokenizer tokenizer = call_tokenizer();
  CallWriter writer(tokenizer, random);
  for (const ToolFormat& format : call_formats()) {
    SCOPED_TRACE(format.section_open + format.call_open);
    for (const Choice choice : {Choice::kRequired, Choice::kNamed}) {
      for (const bool parallel : {false, true}) {
        ToolCallsSpec spec;
        spec.tools = kCallTools;
        spec.choice = choice;
        spec.named = random() % 2 == 0 ? "look_up" : "stop";
        spec.parallel = parallel;
        const auto constraint = tool_calls_constraint(format, spec, tokenizer);
        ASSERT_TRUE(constraint.ok()) << constraint.error().message;
        for (int round = 0; round < 6; ++round) {
          const std::string text = writer.write(*constraint);
          if (text.empty()) continue;
          const ReadCalls read = read_calls(format, kCallTools, text);
          ASSERT_FALSE(read.calls.empty()) << text;
          if (choice == Choice::kNamed || !parallel) {
            EXPECT_EQ(read.calls.size(), 1U) << text;
          }
          if (format.style != ToolFormat::Style::kHarmony) {
            EXPECT_EQ(read.content, "") << text;
          }
          for (const text::ToolCall& call : read.calls) {
            check_arguments(call);
            if (choice == Choice::kNamed) {
              EXPECT_EQ(call.name, spec.named);
            }
          }
        }
      }
    }
  }
}

bool call_allowed(const ConstraintSpec& spec, const TestTokenizer& tokenizer,
                  std::string_view text) {
  auto constraint = Constraint::compile(spec, TokenTrie::create(tokenizer));
  EXPECT_TRUE(constraint.ok()) << constraint.error().message;
  Matcher matcher = (*constraint)->matcher();
  for (const char c : text) {
    if (!matcher.accept(static_cast<uint8_t>(c))) return false;
  }
  return matcher.complete();
}

TEST(ToolCallsConstraint, TextAndCallsWithAnAutomaticChoice) {
  const TestTokenizer tokenizer = call_tokenizer();
  const ToolFormat format = text::written_tool_format("<tool_call>");
  ToolCallsSpec spec;
  spec.tools = kCallTools;
  const auto lenient = tool_calls_constraint(format, spec, tokenizer);
  ASSERT_TRUE(lenient.ok());
  const auto allows = [&](std::string_view text) {
    return call_allowed(*lenient, tokenizer, text);
  };
  const std::string call =
      "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"any\": 1}}\n</tool_call>";
  EXPECT_TRUE(allows("Just text with <tool and {\"name\": 1}."));
  EXPECT_TRUE(allows(call));
  EXPECT_TRUE(allows("Text first.\n" + call));
  EXPECT_TRUE(allows(call + "\n" + call));
  EXPECT_FALSE(allows(call + "text"));
  EXPECT_FALSE(allows("<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(allows("<tool_call>"));
  // Tags of the model's reasoning.
  EXPECT_TRUE(allows("a</think>"));
  spec.excluded = {"<think>", "</think>"};
  const auto without_tags = tool_calls_constraint(format, spec, tokenizer);
  ASSERT_TRUE(without_tags.ok());
  EXPECT_FALSE(call_allowed(*without_tags, tokenizer, "a</think>"));
  EXPECT_FALSE(call_allowed(*without_tags, tokenizer, "<think>a"));
  EXPECT_TRUE(call_allowed(*without_tags, tokenizer, "a</thin"));
  EXPECT_TRUE(call_allowed(*without_tags, tokenizer, "a" + call));
  spec.excluded.clear();
  spec.parallel = false;
  const auto single = tool_calls_constraint(format, spec, tokenizer);
  ASSERT_TRUE(single.ok());
  EXPECT_TRUE(call_allowed(*single, tokenizer, call));
  EXPECT_FALSE(call_allowed(*single, tokenizer, call + "\n" + call));
  // A strict tool's arguments are valid with any choice.
  spec.tools[1].strict = true;
  const auto strict = tool_calls_constraint(format, spec, tokenizer);
  ASSERT_TRUE(strict.ok());
  EXPECT_FALSE(call_allowed(*strict, tokenizer, call));
  EXPECT_TRUE(call_allowed(*strict, tokenizer,
                           "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>"));
  // Content that is a document.
  spec.content_schema = R"({"type": "object"})";
  const auto document = tool_calls_constraint(format, spec, tokenizer);
  ASSERT_TRUE(document.ok());
  EXPECT_TRUE(call_allowed(*document, tokenizer, "{\"a\": 1}"));
  EXPECT_FALSE(call_allowed(*document, tokenizer, "a"));
}

TEST(ToolCallsConstraint, TextInChannelsHasNoTagsOfChannels) {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  const TestTokenizer tokenizer(std::move(bytes));
  const ToolFormat format = text::written_tool_format("<|channel|>");
  ToolCallsSpec spec;
  spec.tools = kCallTools;
  const auto constraint = tool_calls_constraint(format, spec, tokenizer);
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  const std::string answer = "<|channel|>final<|message|>";
  const auto allows = [&](const std::string& text) {
    return call_allowed(*constraint, tokenizer, text);
  };
  EXPECT_TRUE(allows(answer + "f <| x <|> y <|mess"));
  EXPECT_FALSE(allows(answer + "a<|message|>b"));
  EXPECT_FALSE(allows(answer + "a<|end|>"));
}

TEST(ToolCallsConstraint, JsonInTheFinalChannel) {
  const TestTokenizer tokenizer = call_tokenizer();
  ToolCallsSpec spec;
  spec.content_schema = R"({"type": "object"})";
  const auto made =
      tool_calls_constraint(text::written_tool_format("<|channel|>"), spec, tokenizer);
  ASSERT_TRUE(made.ok());
  const auto constraint = Constraint::compile(*made, TokenTrie::create(tokenizer));
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  Matcher matcher = (*constraint)->matcher();
  EXPECT_FALSE(matcher.allows('{'));
  EXPECT_TRUE(matcher.accept(tokenizer.find("<|channel|>")));
  for (const char c : std::string_view("final")) EXPECT_TRUE(matcher.accept(c));
  EXPECT_TRUE(matcher.accept(tokenizer.find("<|message|>")));
  EXPECT_FALSE(matcher.allows('x'));
  for (const char c : std::string_view("{\"a\": 1}")) EXPECT_TRUE(matcher.accept(c));
  EXPECT_TRUE(matcher.complete());
  EXPECT_FALSE(matcher.allows('x'));
}

/// A generation that continues a message of the final channel.
TEST(ToolCallsConstraint, BeginsInsideAnOpenedMessage) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  // The first <|end|> ends a message, the tokenizer's own one the generation.
  for (const char* marker :
       {"<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>"}) {
    tokens.emplace_back(marker);
  }
  const TestTokenizer tokenizer(std::move(tokens));
  enum class Fate { kRefused, kIncomplete, kComplete };
  const auto fate = [&](const ToolCallsSpec& spec, std::string_view text) {
    const auto made =
        tool_calls_constraint(text::written_tool_format("<|channel|>"), spec, tokenizer);
    EXPECT_TRUE(made.ok()) << made.error().message;
    const auto constraint = Constraint::compile(*made, TokenTrie::create(tokenizer));
    EXPECT_TRUE(constraint.ok()) << constraint.error().message;
    Matcher matcher = (*constraint)->matcher();
    for (const int32_t token : tokens_of(tokenizer, text)) {
      if (!matcher.accept(token)) return Fate::kRefused;
    }
    return matcher.complete() ? Fate::kComplete : Fate::kIncomplete;
  };
  const std::string next = "<|end|><|start|>assistant";
  const auto call_of = [&](const std::string& tool) {
    return "<|channel|>commentary to=functions." + tool + " <|constrain|>json<|message|>{}";
  };
  const std::string call = next + call_of("stop");
  const std::string reasoning = next + "<|channel|>analysis<|message|>hm";

  ToolCallsSpec spec;
  spec.opened = true;
  spec.tools = kCallTools;
  spec.choice = Choice::kRequired;
  EXPECT_EQ(fate(spec, ""), Fate::kIncomplete);
  EXPECT_EQ(fate(spec, call), Fate::kComplete);
  EXPECT_EQ(fate(spec, reasoning + call), Fate::kComplete);
  EXPECT_EQ(fate(spec, next + call_of("other")), Fate::kRefused);
  EXPECT_EQ(fate(spec, "text"), Fate::kRefused);
  EXPECT_EQ(fate(spec, call_of("stop")), Fate::kRefused);
  EXPECT_EQ(fate(spec, next + "<|channel|>final"), Fate::kRefused);

  spec.choice = Choice::kAuto;
  EXPECT_EQ(fate(spec, "the rest."), Fate::kComplete);
  EXPECT_EQ(fate(spec, "the rest." + call), Fate::kComplete);
  EXPECT_EQ(fate(spec, "the rest." + reasoning + call), Fate::kComplete);
  EXPECT_EQ(fate(spec, "the rest." + next), Fate::kIncomplete);
  EXPECT_EQ(fate(spec, "the rest." + next + call_of("other")), Fate::kRefused);
  EXPECT_EQ(fate(spec, call_of("stop")), Fate::kRefused);
}

TEST(ToolCallsConstraint, TaggedParametersOfAStrictTool) {
  const TestTokenizer tokenizer = call_tokenizer();
  const ToolFormat format = text::written_tool_format("<function=");
  ToolCallsSpec spec;
  spec.tools = kCallTools;
  spec.choice = Choice::kRequired;
  const auto made = tool_calls_constraint(format, spec, tokenizer);
  ASSERT_TRUE(made.ok());
  const auto allows = [&](const std::string& parameters) {
    return call_allowed(
        *made, tokenizer,
        "<tool_call>\n<function=look_up>" + parameters + "\n</function>\n</tool_call>");
  };
  const auto tag = [](const std::string& key, const std::string& value) {
    return "\n<parameter=" + key + ">\n" + value + "\n</parameter>";
  };
  const std::string both = tag("kind", "a <b>") + tag("count", "12");
  EXPECT_TRUE(allows(both));
  EXPECT_TRUE(allows(tag("word", "</p>x") + both));
  EXPECT_FALSE(allows(tag("word", "longer") + both));
  EXPECT_FALSE(allows(tag("kind", "noun")));
  EXPECT_FALSE(allows(tag("kind", "verb") + tag("count", "1")));
  EXPECT_FALSE(allows(tag("kind", "noun") + tag("count", "100")));
  EXPECT_TRUE(allows(both + tag("code", "abc")));
  EXPECT_FALSE(allows(both + tag("code", "abd")));
  EXPECT_TRUE(allows(both + tag("tags", "[1, \"x\"]")));
  EXPECT_FALSE(allows(both + tag("other", "1")));
}

TEST(ToolCallsConstraint, SchemasThatItRefuses) {
  const TestTokenizer tokenizer = call_tokenizer();
  const auto refused = [&](const char* word, const std::string& parameters) {
    ToolCallsSpec spec;
    spec.tools = {{"f", "", parameters, true}};
    const auto made = tool_calls_constraint(text::written_tool_format(word), spec, tokenizer);
    if (made.ok()) return std::string("accepted");
    EXPECT_NE(made.error().message.find("'f'"), std::string::npos) << made.error().message;
    return std::string(made.error().code == Error::Code::kUnsupported ? "unsupported" : "invalid");
  };
  for (const char* word : {"<tool_call>", "<function="}) {
    EXPECT_EQ(refused(word, R"({"type": "array"})"), "invalid");
    EXPECT_EQ(refused(word, "[]"), "invalid");
    EXPECT_EQ(refused(word, "{"), "invalid");
    EXPECT_EQ(refused(word, std::string(1000, '[')), "invalid");
    EXPECT_EQ(refused(word, "{}"), "accepted");
  }
  EXPECT_EQ(refused("<function=", R"({"anyOf": []})"), "unsupported");
  EXPECT_EQ(refused("<function=", R"({"required": ["a"]})"), "unsupported");
}

/// Every refusal names the tool and the place in its schema, in each style of formats.
TEST(ToolCallsConstraint, RefusalsHaveAPointer) {
  const TestTokenizer tokenizer = call_tokenizer();
  const auto trie = TokenTrie::create(tokenizer);
  const auto refusal = [&](const char* word, const std::string& parameters) {
    ToolCallsSpec spec;
    spec.tools = {{"f", "", parameters, true}};
    const auto made = tool_calls_constraint(text::written_tool_format(word), spec, tokenizer);
    if (!made.ok()) return made.error().message;
    const auto compiled = Constraint::compile(*made, trie);
    return compiled.ok() ? std::string("accepted") : compiled.error().message;
  };
  const auto at = [](const std::string& pointer) {
    return "JSON schema of the tool 'f', at \"" + pointer + "\": ";
  };
  for (const char* word : {"<tool_call>", "<function=", "<|tool_list_start|>"}) {
    const auto starts = [&](const std::string& parameters, const std::string& pointer) {
      const std::string message = refusal(word, parameters);
      EXPECT_TRUE(message.starts_with(at(pointer))) << word << ": " << message;
    };
    starts(R"({"type": "array"})", "/type");
    starts(R"({"properties": {"a": {"type": "string", "pattern": "("}}})", "/properties/a/pattern");
    starts(R"({"properties": {"a": {"type": "string", "format": "idn-email"}}})",
           "/properties/a/format");
    starts(R"({"properties": {"a": {"type": "integer", "minimum": "x"}}})",
           "/properties/a/minimum");
    starts(R"({"properties": {"a": {"type": "string", "allOf": [{"$ref": "http://x/y"}]}}})",
           "/properties/a/allOf/0/$ref");
  }
  EXPECT_TRUE(refusal("<function=", R"({"anyOf": [{}]})").starts_with(at("/anyOf")));
  EXPECT_TRUE(refusal("<function=", R"({"required": ["a"]})").starts_with(at("/required")));
}

/// All keywords of a string hold for what stands between tags.
TEST(ToolCallsConstraint, TaggedTextIsValidUnderItsSchema) {
  const TestTokenizer tokenizer = call_tokenizer();
  ToolCallsSpec spec;
  spec.tools = {{"f", "", R"({"type": "object", "properties": {
      "date": {"type": "string", "format": "date"},
      "word": {"anyOf": [{"enum": ["ab", "c"]}, {"type": "string", "minLength": 4}]},
      "code": {"$ref": "#/$defs/code"},
      "unit": {"type": "string", "not": {"enum": ["m"]}, "maxLength": 2},
      "note": {"type": ["string", "null"], "maxLength": 5},
      "name": {"type": ["string", "null"], "enum": ["x", "y"]}},
      "$defs": {"code": {"type": "string", "pattern": "^[0-9]+$", "maxLength": 3}}})",
                 true}};
  spec.choice = Choice::kRequired;
  const auto made = tool_calls_constraint(text::written_tool_format("<function="), spec, tokenizer);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto allows = [&](const std::string& key, const std::string& value) {
    return call_allowed(*made, tokenizer,
                        "<tool_call>\n<function=f>\n<parameter=" + key + ">\n" + value +
                            "\n</parameter>\n</function>\n</tool_call>");
  };
  EXPECT_TRUE(allows("date", "2024-02-29"));
  EXPECT_FALSE(allows("date", "2023-02-29"));
  EXPECT_FALSE(allows("date", "today"));
  EXPECT_TRUE(allows("word", "ab"));
  EXPECT_TRUE(allows("word", "abcd"));
  EXPECT_FALSE(allows("word", "abc"));
  EXPECT_TRUE(allows("code", "123"));
  EXPECT_FALSE(allows("code", "1234"));
  EXPECT_FALSE(allows("code", "12a"));
  EXPECT_TRUE(allows("unit", "km"));
  EXPECT_FALSE(allows("unit", "m"));
  EXPECT_TRUE(allows("note", "null"));
  EXPECT_TRUE(allows("note", "short"));
  EXPECT_FALSE(allows("note", "longer"));
  EXPECT_TRUE(allows("name", "x"));
  EXPECT_FALSE(allows("name", "null"));
}

}  // namespace
}  // namespace chimere::constraints
