#include "text/prompt_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace chimere::text {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Of bytes and these tokens.
PromptTemplate prompt_template(std::string_view source,
                               const std::vector<std::string>& tokens = {}) {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "qwen2";
  for (int b = 0; b < 256; ++b) {
    v.tokens.push_back(ByteAlphabet::get().encode(std::string(1, static_cast<char>(b))));
  }
  for (const std::string& token : tokens) v.tokens.push_back(token);
  v.types.assign(256, static_cast<int32_t>(TokenType::kNormal));
  v.types.resize(v.tokens.size(), static_cast<int32_t>(TokenType::kControl));
  const auto tokenizer = Tokenizer::create(std::move(v)).value();
  auto out = PromptTemplate::create(*tokenizer, std::string(source));
  EXPECT_TRUE(out.ok()) << out.error().message;
  return *std::move(out);
}

std::string prompt_of(const PromptTemplate& chat_template, const std::vector<ChatMessage>& messages,
                      const std::vector<Tool>& tools = {}) {
  const auto out = chat_template.render(messages, tools, {});
  EXPECT_TRUE(out.ok()) << out.error().message;
  return out.ok() ? out->text : "";
}

const std::vector<ChatMessage> kPromptQuestion = {{.role = "user", .content = "Why?"}};
const std::vector<Tool> kPromptTools = {{"look", "Looks.", R"({"type": "object"})"}};

TEST(PromptTemplate, LoopsOverToolsThatAreNotThere) {
  const PromptTemplate loops = prompt_template(
      "\n{% for t in tools %}({{ t.function.name }}){% endfor %}{% if tools | length > 9 %}{% "
      "endif "
      "%}{% for m in messages %}<{{ m.content }}>{% endfor %}");
  EXPECT_EQ(prompt_of(loops, kPromptQuestion), "\n<Why?>");
  EXPECT_TRUE(loops.tool_format().rendering.tools);
  EXPECT_EQ(prompt_of(loops, kPromptQuestion, kPromptTools), "\n(look)<Why?>");
}

TEST(PromptTemplate, ToolsAsTextAndTheDay) {
  const PromptTemplate text = prompt_template(
      "{% set head = 'Tools: ' + functions + ' Today: ' + datetime %}{{ head }}"
      "{% for m in messages %}<{{ m.content }}>{% endfor %}");
  EXPECT_THAT(prompt_of(text, kPromptQuestion), HasSubstr("Tools: [] Today: "));
  EXPECT_TRUE(text.tool_format().rendering.tools);
  EXPECT_THAT(prompt_of(text, kPromptQuestion, kPromptTools),
              HasSubstr(R"("function": {"name": "look", "description": "Looks.")"));
  // A template that only asks whether there are such variables gets none.
  EXPECT_EQ(prompt_of(prompt_template("{{ functions is defined }}{{ messages[0].content }}"),
                      kPromptQuestion),
            "FalseWhy?");
}

TEST(PromptTemplate, DescriptionsThatATemplateReadsWithoutAsking) {
  const PromptTemplate reads = prompt_template(
      "{% for t in tools or [] %}{{ t.function.name }}:{% for k, v in "
      "t.function.parameters.properties "
      "| items %} {{ k + ', ' + v.description }}{% endfor %}. {% endfor %}{{ messages[0].content "
      "}}");
  const std::vector<Tool> tools = {
      {"look", "", R"({"type": "object", "properties": {"at": {"type": "string"}, "by": true}})"},
      {"go", "", R"({"type": "object"})"}};
  EXPECT_FALSE(reads.render(kPromptQuestion, tools, {}).ok());  // `by` cannot have one
  const std::vector<Tool> described = {
      {"look", "",
       R"({"properties": {"at": {"type": "string"}, "to": {"description": "Whom."}}})"}};
  EXPECT_EQ(prompt_of(reads, kPromptQuestion, described), "look: at,  to, Whom.. Why?");
}

TEST(PromptTemplate, ReasoningWhereTheTemplateLooksForIt) {
  const std::vector<ChatMessage> thought = {
      kPromptQuestion[0],
      {.role = "assistant", .content = "So.", .reasoning_content = "Hm."},
      kPromptQuestion[0]};
  for (const std::string key : {"reasoning_content", "reasoning", "thinking"}) {
    const PromptTemplate shows =
        prompt_template("{% for m in messages %}{% if m." + key + " is defined %}<think>{{ m." +
                        key + " }}</think>{% endif %}{{ m.content }}{% endfor %}");
    EXPECT_EQ(shows.tool_format().rendering.reasoning_key, key);
    EXPECT_EQ(prompt_of(shows, thought), "Why?<think>Hm.</think>So.Why?");
  }
}

TEST(PromptTemplate, CallsThatOnlyTheVocabularyKnows) {
  constexpr std::string_view kPlain =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
  const std::vector<ChatMessage> called = {
      kPromptQuestion[0],
      {.role = "assistant", .tool_calls = {{"1", "look", R"({"at": "x"})"}}},
      {.role = "tool", .content = "Seen.", .tool_call_id = "1"}};
  const PromptTemplate known =
      prompt_template(kPlain, {"<|tool_call_start|>", "<|tool_call_end|>"});
  EXPECT_EQ(known.tool_format().style, ToolFormat::Style::kPython);
  EXPECT_THAT(prompt_of(known, called),
              HasSubstr("<|tool_call_start|>[look(at=\"x\")]<|tool_call_end|>"));
  EXPECT_THAT(prompt_of(prompt_template(kPlain), called), Not(HasSubstr("<|tool_call_start|>")));
}

}  // namespace
}  // namespace chimere::text
