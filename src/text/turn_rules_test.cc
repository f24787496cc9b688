#include "text/turn_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "text/builtin_templates.h"
#include "text/prompt_template.h"
#include "text/tool_messages.h"
#include "text/utf8.h"

namespace chimere::text {
namespace {

using ::testing::HasSubstr;

using Messages = std::vector<ChatMessage>;

/// In the manner of Qwen 3.5: a system message comes first, and there is a question.
constexpr std::string_view kStrictTurns =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('a system message may only come first') }}{% endif %}{% endfor %}"
    "{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
    "{{ raise_exception('no question') }}{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson "
    "}}}"
    "</call>{% endfor %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

/// In the manner of Mistral 7B and Gemma 2: no system message, strictly by turns.
constexpr std::string_view kTakingTurns =
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) or m.role not in "
    "['user', 'assistant'] %}{{ raise_exception('user and assistant must alternate') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

/// In the manner of gpt-oss and SmolLM 3: later system messages are left out.
constexpr std::string_view kForgetful =
    "{% if messages[0].role == 'system' %}[system]{{ messages[0].content }}{% endif %}"
    "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

/// Takes what it gets.
constexpr std::string_view kOpenTurns =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

const Tokenizer& turn_tokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = [] {
    Vocabulary v;
    v.model = "gpt2";
    v.pre = "qwen2";
    for (int b = 0; b < 256; ++b) {
      v.tokens.push_back(ByteAlphabet::get().encode(std::string(1, static_cast<char>(b))));
    }
    for (const char* token : {"<s>", "</s>"}) v.tokens.emplace_back(token);
    v.types.assign(256, 1);
    v.types.resize(258, 3);
    v.bos = 256;
    v.eos = 257;
    return Tokenizer::create(std::move(v)).value();
  }();
  return *tokenizer;
}

PromptTemplate turn_template(std::string_view source) {
  auto out = PromptTemplate::create(turn_tokenizer(), std::string(source));
  EXPECT_TRUE(out.ok()) << out.error().message;
  return *std::move(out);
}

std::string render_turns(const PromptTemplate& chat_template, const Messages& messages,
                         const std::vector<Tool>& tools = {}) {
  const auto out = chat_template.render(messages, tools, {});
  EXPECT_TRUE(out.ok()) << out.error().message;
  return out.ok() ? out->text : "";
}

std::string render_turns(std::string_view source, const Messages& messages) {
  return render_turns(turn_template(source), messages);
}

ChatMessage said(const char* role, const char* text) { return {.role = role, .content = text}; }

const ChatMessage kTurnCall = {.role = "assistant",
                               .tool_calls = {{"call00001", "look", R"({"at":"x"})"}}};
const ChatMessage kTurnOutcome = {.role = "tool", .content = "Seen.", .tool_call_id = "call00001"};

TEST(TurnRules, WhatATemplateShowsStaysAsItIs) {
  const PromptTemplate open = turn_template(kOpenTurns);
  EXPECT_TRUE(open.turn_rules().late_systems);
  EXPECT_EQ(render_turns(open, {said("system", "A"), said("developer", "B"), said("user", "C"),
                                said("user", "D"), said("assistant", "E"), said("assistant", "F"),
                                said("system", "G")}),
            "[system]A[developer]B[user]C[user]D[assistant]E[assistant]F[system]G[assistant]");
  EXPECT_EQ(render_turns(open, {said("system", "A")}), "[system]A[assistant]");
}

TEST(TurnRules, LeadingSystemMessagesAreJoined) {
  for (const std::string_view source : {kStrictTurns, kForgetful}) {
    EXPECT_EQ(
        render_turns(source, {said("system", "A"), said("developer", "B"), said("user", "C")}),
        "[system]A\n\nB[user]C[assistant]");
  }
}

TEST(TurnRules, LateSystemMessagesBecomeTextOfTheUser) {
  for (const std::string_view source : {kStrictTurns, kForgetful}) {
    EXPECT_EQ(render_turns(source, {said("system", "A"), said("user", "B"), said("assistant", "C"),
                                    said("system", "D"), said("system", "E"), said("user", "F")}),
              "[system]A[user]B[assistant]C[user]D\n\nE\n\nF[assistant]");
    EXPECT_EQ(render_turns(source, {said("user", "A"), said("system", "B")}),
              "[user]A\n\nB[assistant]");
    EXPECT_EQ(render_turns(source, {said("user", "A"), said("assistant", "B"), said("system", "C"),
                                    said("assistant", "D"), said("user", "E")}),
              "[user]A[assistant]B[user]C[assistant]D[user]E[assistant]");
  }
}

TEST(TurnRules, NothingComesBetweenACallAndItsResult) {
  EXPECT_EQ(render_turns(kStrictTurns, {said("user", "A"), kTurnCall, said("system", "B"),
                                        kTurnOutcome, said("user", "C")}),
            "[user]A[assistant]<call>{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}</call>"
            "[tool]Seen.[user]B\n\nC[assistant]");
}

TEST(TurnRules, WithoutASystemRoleTheTextIsInTheQuestion) {
  EXPECT_FALSE(turn_template(kTakingTurns).turn_rules().system);
  EXPECT_EQ(
      render_turns(kTakingTurns, {said("system", "A"), said("system", "B"), said("user", "C")}),
      "[user]A\n\nB\n\nC[assistant]");
  EXPECT_EQ(render_turns(kTakingTurns, {said("system", "A")}), "[user]A[assistant]");
  EXPECT_EQ(
      render_turns(kTakingTurns, {said("system", "A"), said("assistant", "B"), said("user", "C")}),
      "[user]A[assistant]B[user]C[assistant]");
}

TEST(TurnRules, ToolsOfATemplateWithoutSystemRoleAreInTheQuestion) {
  const std::string text =
      render_turns(turn_template(kTakingTurns), {said("system", "Be kind."), said("user", "Why?")},
                   {{"f", "The function", ""}});
  EXPECT_TRUE(text.starts_with("[user]Be kind.\n\n")) << text;
  EXPECT_THAT(text, HasSubstr("The function"));
  EXPECT_TRUE(text.ends_with("\n\nWhy?[assistant]")) << text;
}

TEST(TurnRules, AMissingQuestionIsEmpty) {
  EXPECT_EQ(render_turns(kStrictTurns, {said("system", "A")}), "[system]A[user][assistant]");
  EXPECT_EQ(render_turns(kStrictTurns, {said("system", "A"), kTurnCall, kTurnOutcome}),
            "[system]A[user][assistant]<call>{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}"
            "</call>[tool]Seen.[assistant]");
  EXPECT_EQ(render_turns(kTakingTurns, {said("assistant", "A"), said("user", "B")}),
            "[user][assistant]A[user]B[assistant]");
  EXPECT_EQ(render_turns(kOpenTurns, {}), "[user][assistant]");
}

TEST(TurnRules, MessagesOfOneRoleAreJoinedForATemplateThatTakesTurns) {
  EXPECT_EQ(
      render_turns(kTakingTurns, {said("user", "A"), said("user", "B"), said("assistant", "C"),
                                  said("assistant", "D"), said("system", "E"), said("user", "F")}),
      "[user]A\n\nB[assistant]C\n\nD[user]E\n\nF[assistant]");
  const std::string called =
      render_turns(kTakingTurns, {said("user", "A"), kTurnCall, kTurnOutcome, said("user", "B")});
  EXPECT_THAT(called, HasSubstr("[user]<tool_response>\nSeen.\n</tool_response>\n\nB[assistant]"));
}

TEST(TurnRules, AResultWithoutItsCallIsTextOfTheUser) {
  const std::string source =
      std::string(
          "{% set last = namespace(call=false) %}{% for m in messages %}{% if m.tool_calls "
          "%}{% set last.call = true %}{% endif %}{% if m.role == 'tool' and not last.call "
          "%}{{ raise_exception('no call') }}{% endif %}{% endfor %}") +
      std::string(kStrictTurns);
  EXPECT_EQ(render_turns(source, {said("user", "A"), kTurnOutcome}),
            "[user]A[user]<tool_response>\nSeen.\n</tool_response>[assistant]");
  EXPECT_EQ(render_turns(source, {said("user", "A"), kTurnCall, kTurnOutcome}),
            render_turns(kStrictTurns, {said("user", "A"), kTurnCall, kTurnOutcome}));
}

TEST(TurnRules, ATemplateThatTakesListsOfPartsGetsThem) {
  const PromptTemplate parts = turn_template(
      "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{{ p.text }}{% endfor %}"
      "{% endfor %}");
  EXPECT_TRUE(parts.turn_rules().content_parts);
  EXPECT_EQ(render_turns(parts, {said("system", "A"), said("user", "B")}), "[system]A[user]B");
}

TEST(TurnRules, ATemplateWithoutMessagesIsRecognized) {
  const PromptTemplate fixed = turn_template("Once upon a time");
  EXPECT_FALSE(fixed.turn_rules().messages);
  EXPECT_EQ(render_turns(fixed, {said("user", "A")}), "Once upon a time");
}

TEST(TurnRules, MarksOfTheTextAreKept) {
  const auto out =
      turn_template(kTakingTurns)
          .render(Messages{said("system", "<think>"), said("user", "</think>")}, {}, {});
  ASSERT_TRUE(out.ok());
  for (const char* word : {"<think>", "</think>"}) {
    const size_t at = out->text.find(word);
    ASSERT_NE(at, std::string::npos);
    for (const TextRange& range : out->trusted) EXPECT_FALSE(range.begin <= at && at < range.end);
  }
}

std::map<std::string, std::string> all_templates() {
  std::map<std::string, std::string> out;
  const std::string folder = std::string(CHIMERE_TEXT_TESTDATA) + "/templates";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path());
    out[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
  }
  for (const std::string_view source : {kStrictTurns, kTakingTurns, kForgetful, kOpenTurns}) {
    out[std::string(source)] = source;
  }
  std::string names = builtin_template_names() + ", ";
  for (size_t at = 0; at < names.size(); at = names.find(", ", at) + 2) {
    const std::string name = names.substr(at, names.find(", ", at) - at);
    out[name] = builtin_template(name).value_or("");
  }
  return out;
}

/// Conversations of agents, whose texts are words of their own.
std::vector<Messages> agents_conversations() {
  const auto s = [](const char* text) { return said("system", text); };
  const auto u = [](const char* text) { return said("user", text); };
  const auto a = [](const char* text) { return said("assistant", text); };
  const ChatMessage& call = kTurnCall;
  const ChatMessage& result = kTurnOutcome;
  return {
      {s("Word1"), s("Word2"), u("Word3")},
      {s("Word1"), said("developer", "Word2"), u("Word3")},
      {said("developer", "Word1"), u("Word2"), a("Word3"), u("Word4")},
      {s("Word1"), u("Word2"), a("Word3"), s("Word4"), u("Word5")},
      {s("Word1"), u("Word2"), a("Word3"), u("Word4"), s("Word5")},
      {s("Word1")},
      {s("Word1"), call, result},
      {call, result},
      {a("Word1"), u("Word2")},
      {s("Word1"), a("Word2"), u("Word3")},
      {s("Word1"), a("Word2")},
      {u("Word1"), s("Word2")},
      {u("Word1"), u("Word2")},
      {u("Word1"), a("Word2"), a("Word3"), u("Word4")},
      {u("Word1"), result},
      {u("Word1"), a("Word2"), result},
      {result},
      {u("Word1"), call, result, u("Word2")},
      {u("Word1"), call, u("Word2")},
      {s("Word1"), u("Word2"), call, result},
      {s("Word1"), u("Word2"), call, result, a("Word3"), u("Word4")},
      {u("Word1"), a("Word2"), call, result, a("Word3"), u("Word4")},
      {u("Word1"), call, s("Word2"), result, a("Word3"), u("Word4")},
      {s("Word1"), u("Word2"), call, result, call, result, s("Word3"), call, result},
  };
}

TEST(TurnRules, EveryTemplateShowsEveryConversation) {
  for (const auto& [name, source] : all_templates()) {
    SCOPED_TRACE(name);
    const PromptTemplate chat_template = turn_template(source);
    for (const Messages& messages : agents_conversations()) {
      std::string roles;
      for (const ChatMessage& m : messages) roles += m.role + " ";
      SCOPED_TRACE(roles);
      const std::string text = render_turns(chat_template, messages);
      size_t at = 0;
      for (const ChatMessage& m : messages) {
        EXPECT_THAT(text, HasSubstr(m.content));
        if (m.role == "system" || m.role == "developer") continue;
        at = text.find(m.content, at);
        EXPECT_NE(at, std::string::npos) << m.content << " is not in its place in " << text;
        at = std::min(at, text.size());
      }
    }
  }
}

TEST(TurnRules, NoTemplateChangesForPlainConversations) {
  const Messages plain[] = {
      {said("user", "Word1")},
      {said("user", "Word1"), said("assistant", "Word2"), said("user", "Word3")},
      {said("system", "Word1"), said("user", "Word2")},
      {said("system", "Word1"), said("user", "Word2"), said("assistant", "Word3"),
       said("user", "Word4")},
      {said("user", "Word1"), kTurnCall, kTurnOutcome},
  };
  ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  for (const auto& [name, source] : all_templates()) {
    SCOPED_TRACE(name);
    const PromptTemplate chat_template = turn_template(source);
    const auto parsed = ChatTemplate::create(source).value();
    for (const Messages& messages : plain) {
      const bool system = messages.front().role == "system";
      if (system && !chat_template.turn_rules().system) continue;
      const auto values = messages_value(messages, {}, chat_template.tool_format());
      const auto alone = parsed.render(*values, options);
      // A template that writes calls in texts needs them joined.
      if (!alone.ok()) continue;
      EXPECT_EQ(render_turns(chat_template, messages), alone->text);
    }
  }
}

}  // namespace
}  // namespace chimere::text
