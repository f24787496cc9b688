#include "serving/next_turn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "support/fake_model.h"

namespace chimere::serving {
namespace {

constexpr const char* kTemplates[] = {
    // Keeps everything.
    "{% for m in messages %}<{{ m.role }}>\n{{ m.content }}</s>\n{% endfor %}",
    // Strips the content, and leaves out the reasoning.
    "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}",
    // Strips line breaks, and keeps the reasoning.
    "{% for m in messages %}<{{ m.role }}>\n{% if m.reasoning_content %}<think>\n"
    "{{ m.reasoning_content.strip('\\n') }}\n</think>\n\n{% endif %}"
    "{{ m.content.lstrip('\\n') }}</s>\n{% endfor %}",
};

std::string random_text(std::mt19937& random) {
  static constexpr std::string_view kLetters = "ab \n\tc";
  std::string text;
  for (size_t n = 1 + random() % 12; n > 0; --n) text += kLetters[random() % kLetters.size()];
  return text + "x";
}

TEST(NextTurn, EqualsARenderingOfEachAnswer) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  test::FakeModel fake(8);
  const test::FakeTokenizer tokenizer;
  const auto service = engine::EngineService::create(fake, tokenizer, {}).value();
  for (const char* source : kTemplates) {
    auto parsed = text::PromptTemplate::create(tokenizer, source);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    ServedModel model{.tokenizer = tokenizer, .service = *service};
    model.prompt_template = *std::move(parsed);
    std::vector<text::ChatMessage> messages = {{"system", random_text(random), "", ""},
                                               {"user", random_text(random), "", ""}};
    NextTurn turn(model, {.messages = messages});
    for (int choice = 0; choice < 8; ++choice) {
      const std::string content = random_text(random);
      const std::string thought = choice % 2 == 0 ? "" : random_text(random);
      const auto prefixes = turn.prefixes(content, thought);
      const bool keeps = source == kTemplates[2] && !thought.empty();
      ASSERT_EQ(prefixes.size(), keeps ? 2U : 1U);
      for (size_t i = 0; i < prefixes.size(); ++i) {
        std::vector<text::ChatMessage> next = messages;
        next.push_back({"assistant", content, "", i == 0 ? "" : thought});
        next.push_back({"user", "Q", "", ""});
        const auto one = chat_prompt(model, {.messages = next});
        next.back().content = "R";
        const auto other = chat_prompt(model, {.messages = next});
        ASSERT_TRUE(one.ok() && other.ok());
        const auto end = std::ranges::mismatch(one->tokens, other->tokens).in1;
        // The last token of the header is left out.
        const std::vector<int32_t> expected(one->tokens.begin(), end - 1);
        EXPECT_EQ(prefixes[i], expected) << source;
      }
    }
  }
}

TEST(NextTurn, AfterCalls) {
  test::FakeModel fake(8);
  const test::FakeTokenizer tokenizer;
  const auto service = engine::EngineService::create(fake, tokenizer, {}).value();
  const std::string source =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
      "<call>{{ c.function | tojson }}</call>{% endfor %}{% endfor %}";
  ServedModel model{.tokenizer = tokenizer, .service = *service};
  model.prompt_template = text::PromptTemplate::create(tokenizer, source);
  ASSERT_TRUE(model.prompt_template.ok());
  ASSERT_TRUE(model.prompt_template->tool_format().rendering.calls);
  const std::vector<text::ChatMessage> messages = {{"user", "a", "", ""}};
  const NextTurn turn(model, {.messages = messages});
  protocol::Choice answer;
  answer.content = "b";
  answer.tool_calls = {{0, "call_1", "f", R"({"x":1})"}};
  const auto prefixes = turn.prefixes_after_calls(answer);
  ASSERT_EQ(prefixes.size(), 1U);
  std::vector<text::ChatMessage> next = messages;
  next.push_back({"assistant", "b", "", "", {{"call_1", "f", R"({"x":1})"}}});
  next.push_back({"tool", "result", "", "", {}, "call_1"});
  const auto prompt = chat_prompt(model, {.messages = next});
  ASSERT_TRUE(prompt.ok());
  ASSERT_LT(prefixes[0].size(), prompt->tokens.size());
  EXPECT_TRUE(std::ranges::equal(prefixes[0], std::span(prompt->tokens).first(prefixes[0].size())));
  // All but the last token of what stands before the result.
  EXPECT_EQ(prefixes[0].size() + 1 + std::string_view("result").size(), prompt->tokens.size());
}

TEST(NextTurn, AnUnusableTemplateHasNone) {
  test::FakeModel fake(8);
  const test::FakeTokenizer tokenizer;
  const auto service = engine::EngineService::create(fake, tokenizer, {}).value();
  ServedModel model{.tokenizer = tokenizer, .service = *service};
  NextTurn none(model, {.messages = {{"user", "a", "", ""}}});
  EXPECT_TRUE(none.prefixes("b", "").empty());
  model.prompt_template = text::PromptTemplate::create(tokenizer, "{{ messages | length }}");
  ASSERT_TRUE(model.prompt_template.ok());
  NextTurn without_content(model, {.messages = {{"user", "a", "", ""}}});
  EXPECT_TRUE(without_content.prefixes("b", "").empty());
}

}  // namespace
}  // namespace chimere::serving
