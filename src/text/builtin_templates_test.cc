#include "text/builtin_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace chimere::text {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGo =
    "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}<|im_start|>user\n"
    "{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n";

/// Of bytes and, for ChatML, its control tokens.
std::unique_ptr<Tokenizer> selecting_tokenizer(bool chatml) {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "qwen2";
  for (int b = 0; b < 256; ++b) {
    v.tokens.push_back(ByteAlphabet::get().encode(std::string(1, static_cast<char>(b))));
    v.types.push_back(1);
  }
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) {
    if (!chatml) break;
    v.tokens.emplace_back(token);
    v.types.push_back(3);
  }
  return Tokenizer::create(std::move(v)).value();
}

struct Selected {
  Result<PromptTemplate> chat_template;
  std::vector<std::string> warnings;
};

Selected selected(const std::string& chosen, const std::optional<std::string>& own,
                  bool chatml = true) {
  const auto tokenizer = selecting_tokenizer(chatml);
  std::vector<std::string> warnings;
  auto out = select_template(*tokenizer, chosen, own,
                             [&](const std::string& text) { warnings.push_back(text); });
  return {std::move(out), std::move(warnings)};
}

TEST(BuiltinTemplates, TheFilesOwnIsUsedWithoutAWord) {
  const Selected own = selected("", "{% for m in messages %}{{ m.content }}{% endfor %}");
  ASSERT_TRUE(own.chat_template.ok());
  EXPECT_THAT(own.chat_template->source(), HasSubstr("m.content }}{% endfor"));
  EXPECT_TRUE(own.warnings.empty());
}

TEST(BuiltinTemplates, ChatMlIsInPlaceOfNone) {
  for (const std::optional<std::string>& own :
       {std::optional<std::string>(), std::optional<std::string>(" \n"),
        std::optional<std::string>(kGo)}) {
    const Selected chatml = selected("", own);
    ASSERT_TRUE(chatml.chat_template.ok());
    const std::vector<ChatMessage> question = {{.role = "user", .content = "Hi"}};
    EXPECT_EQ(chatml.chat_template->render(question, {}, {}).value().text,
              "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    ASSERT_EQ(chatml.warnings.size(), 1U);
    EXPECT_THAT(chatml.warnings[0], HasSubstr("ChatML"));
    const Selected none = selected("", own, false);
    ASSERT_FALSE(none.chat_template.ok());
    EXPECT_THAT(none.chat_template.error().message, HasSubstr("--chat-template"));
  }
}

TEST(BuiltinTemplates, AChosenOneIsANameATextOrAFile) {
  EXPECT_EQ(selected("gemma", kGo).chat_template->source(), builtin_template("gemma"));
  EXPECT_TRUE(selected("gemma", std::nullopt, false).warnings.empty());
  const std::string text = "{{ messages[-1].content }}";
  EXPECT_EQ(selected(text, std::nullopt).chat_template->source(), text);
  const std::string path = ::testing::TempDir() + "/builtin_templates_test.jinja";
  std::ofstream(path) << text;
  EXPECT_EQ(selected(path, std::nullopt).chat_template->source(), text);
  std::ofstream(path) << "";
  EXPECT_FALSE(selected(path, std::nullopt).chat_template.ok());
  std::filesystem::remove(path);
  const Selected unknown = selected("lama3", std::nullopt);
  ASSERT_FALSE(unknown.chat_template.ok());
  EXPECT_THAT(unknown.chat_template.error().message, HasSubstr("lama3"));
  EXPECT_THAT(unknown.chat_template.error().message, HasSubstr("chatml"));
  EXPECT_FALSE(selected(kGo, std::nullopt).chat_template.ok());
  EXPECT_FALSE(selected("{% if %}", std::nullopt).chat_template.ok());
}

TEST(BuiltinTemplates, ATemplateWithoutMessagesGetsALine) {
  const Selected fixed = selected("", "Once upon a time");
  ASSERT_TRUE(fixed.chat_template.ok());
  ASSERT_EQ(fixed.warnings.size(), 1U);
  EXPECT_THAT(fixed.warnings[0], HasSubstr("does not show"));
}

TEST(BuiltinTemplates, GoIsToldFromJinja) {
  EXPECT_TRUE(is_go_template("{{ .Prompt }}"));
  EXPECT_TRUE(is_go_template("{{- range $i, $_ := .Messages }}"));
  EXPECT_FALSE(
      is_go_template("{{ bos_token }}{% if messages %}{{- messages[0].content }}{% endif %}"));
  EXPECT_FALSE(is_go_template("{{ iffy }}"));
}

TEST(BuiltinTemplates, EachShowsAConversation) {
  const auto tokenizer = selecting_tokenizer(true);
  std::string names = builtin_template_names() + ", ";
  for (size_t at = 0; at < names.size(); at = names.find(", ", at) + 2) {
    const std::string name = names.substr(at, names.find(", ", at) - at);
    SCOPED_TRACE(name);
    const auto out =
        PromptTemplate::create(*tokenizer, std::string(builtin_template(name).value_or("")));
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_TRUE(out->turn_rules().messages);
    const std::vector<ChatMessage> talk = {{.role = "user", .content = "Word1"},
                                           {.role = "assistant", .content = "Word2"},
                                           {.role = "user", .content = "Word3"}};
    const auto text = out->render(talk, {}, {});
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_THAT(text->text, ::testing::ContainsRegex("Word1(.|\n)*Word2(.|\n)*Word3"));
  }
}

}  // namespace
}  // namespace chimere::text
