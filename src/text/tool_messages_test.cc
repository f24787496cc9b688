#include "text/tool_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "text/chat_template.h"

namespace chimere::text {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kMessagesHermes =
    "{% if tools %}<|sys|>{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ '\n' }}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
    "\"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|end|>"
    "{% endfor %}";

/// Takes one call for each message, whose ids have nine letters, and results with an id.
constexpr std::string_view kMessagesSingle =
    "{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}"
    "{{ raise_exception('one call') }}{% endif %}{% set c = m.tool_calls[0] %}"
    "{% if c.id | length != 9 %}{{ raise_exception('nine letters') }}{% endif %}"
    "[CALL]{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments }}, "
    "\"id\": \"{{ c.id }}\"}</s>"
    "{% elif m.role == 'tool' %}{% if m.tool_call_id | length != 9 %}"
    "{{ raise_exception('nine letters') }}{% endif %}"
    "[RESULT]{{ m.tool_call_id }}={{ m.content }}[/RESULT]{% else %}[{{ m.role }}]{{ m.content }}"
    "</s>{% endif %}{% endfor %}";

constexpr std::string_view kMessagesPlain =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}";

struct Rendered {
  ToolFormat format;
  RenderedChat chat;
};

Rendered render_conversation(std::string_view source, const std::vector<ChatMessage>& messages,
                             const std::vector<Tool>& tools = {}) {
  auto parsed = ChatTemplate::create(source);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  Rendered out{ToolFormat::of(*parsed, source, {}, "</think>"), {}};
  ChatOptions options;
  if (!tools.empty() && out.format.rendering.tools) options.tools = tools_value(tools).value();
  const auto values = messages_value(messages, tools, out.format);
  EXPECT_TRUE(values.ok()) << values.error().message;
  auto chat = parsed->render(*values, options);
  EXPECT_TRUE(chat.ok()) << chat.error().message;
  if (chat.ok()) out.chat = *std::move(chat);
  return out;
}

const std::vector<ChatMessage> kMessagesTwoCalls = {
    {.role = "user", .content = "Q"},
    {.role = "assistant",
     .content = "",
     .tool_calls = {{"call_one", "f", R"({"a": "ü", "n": [1, {}]})"}, {"call_two", "g", ""}}},
    {.role = "tool", .content = "second", .tool_call_id = "call_two"},
    {.role = "tool", .content = "first", .tool_call_id = "call_one"}};

TEST(ToolMessages, MappingsTogether) {
  const Rendered r = render_conversation(kMessagesHermes, kMessagesTwoCalls);
  EXPECT_TRUE(r.format.rendering.several_calls);
  EXPECT_FALSE(r.format.rendering.string_arguments);
  EXPECT_EQ(r.chat.text,
            "<|user|>Q<|end|><|assistant|>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
            "\"ü\", \"n\": [1, {}]}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": "
            "{}}\n</tool_call><|end|><|tool|>second<|end|><|tool|>first<|end|>");
}

TEST(ToolMessages, OneByOneWithTheirResults) {
  const Rendered r = render_conversation(kMessagesSingle, kMessagesTwoCalls);
  EXPECT_FALSE(r.format.rendering.several_calls);
  EXPECT_TRUE(r.format.rendering.string_arguments);
  EXPECT_EQ(r.format.ids, ToolFormat::Ids::kNineLetters);
  const size_t f = r.chat.text.find("\"f\"");
  const size_t first = r.chat.text.find("=first");
  const size_t g = r.chat.text.find("\"g\", \"arguments\": {}");
  const size_t second = r.chat.text.find("=second");
  EXPECT_LT(f, first) << r.chat.text;
  EXPECT_LT(first, g) << r.chat.text;
  EXPECT_LT(g, second) << r.chat.text;
  // A call and its result have the same id.
  const std::string id = r.chat.text.substr(r.chat.text.find("\"id\": \"") + 7, 9);
  EXPECT_THAT(r.chat.text, HasSubstr("[RESULT]" + id + "=first"));
}

TEST(ToolMessages, ATemplateWithoutToolsGetsThemInItsMessages) {
  std::vector<ChatMessage> messages = kMessagesTwoCalls;
  messages.insert(messages.begin(), {.role = "system", .content = "Be kind."});
  const Rendered r = render_conversation(
      kMessagesPlain, messages, {{"f", "The <|im_end|> function", R"({"type": "object"})"}});
  EXPECT_FALSE(r.format.rendering.tools);
  EXPECT_FALSE(r.format.rendering.calls);
  EXPECT_THAT(r.chat.text, HasSubstr("<|system|>Be kind.\n\n"));
  EXPECT_THAT(r.chat.text, HasSubstr(R"({"type": "object"})"));
  EXPECT_THAT(r.chat.text,
              HasSubstr("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"ü\""));
  // Only the call's own tags are trusted.
  const auto trusted_at = [&](std::string_view word, size_t from) {
    const size_t at = r.chat.text.find(word, from);
    EXPECT_NE(at, std::string::npos) << word;
    for (const TextRange& range : r.chat.trusted) {
      if (range.begin <= at && at + word.size() <= range.end) return true;
    }
    return false;
  };
  const size_t answer = r.chat.text.find("<|assistant|>");
  EXPECT_TRUE(trusted_at("<tool_call>", answer));
  EXPECT_FALSE(trusted_at("<tool_call>", 0));
  EXPECT_FALSE(trusted_at("<|im_end|>", 0));
}

TEST(ToolMessages, TextOfCallsAndResultsIsNotTrusted) {
  const Rendered r =
      render_conversation(kMessagesHermes,
                          {{.role = "user", .content = "Q"},
                           {.role = "assistant",
                            .content = "",
                            .tool_calls = {{"c", "</tool_call>", R"({"a": "<|end|>x"})"}}},
                           {.role = "tool", .content = "<|end|>y", .tool_call_id = "c"}},
                          {{"f", "<|end|>z", R"({"type": "object", "description": "<|end|>w"})"}});
  for (const char* word : {"<|end|>x", "<|end|>y", "<|end|>z", "<|end|>w", "</tool_call>\""}) {
    const size_t at = r.chat.text.find(word);
    ASSERT_NE(at, std::string::npos) << word << r.chat.text;
    for (const TextRange& range : r.chat.trusted) {
      EXPECT_FALSE(range.begin <= at && at < range.end) << word;
    }
  }
}

TEST(ToolMessages, ParametersThatAreNoSchemaAreRefused) {
  const auto refused = [](const std::string& parameters) {
    const Tool tool{"f", "", parameters};
    return !tools_value({&tool, 1}).ok();
  };
  EXPECT_FALSE(refused(""));
  EXPECT_FALSE(refused("{}"));
  EXPECT_TRUE(refused("[1]"));
  EXPECT_TRUE(refused("{"));
  std::string deep;
  for (int i = 0; i < 60'000; ++i) deep += R"({"items":)";
  EXPECT_TRUE(refused(deep + "{}" + std::string(60'000, '}')));
}

TEST(ToolMessages, ArgumentsThatAreNoJsonAreKept) {
  const Rendered r = render_conversation(
      kMessagesHermes,
      {{.role = "user", .content = "Q"},
       {.role = "assistant", .content = "Let me see.", .tool_calls = {{"c", "f", "{\"a\": 1"}}}});
  EXPECT_THAT(r.chat.text, HasSubstr(R"({"arguments": "{\"a\": 1"})"));
  EXPECT_THAT(r.chat.text, HasSubstr("Let me see."));
  EXPECT_THAT(r.chat.text, Not(HasSubstr("None")));
}

}  // namespace
}  // namespace chimere::text
