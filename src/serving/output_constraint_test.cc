#include "serving/output_constraint.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "constraints/testing.h"
#include "constraints/token_trie.h"
#include "support/fake_model.h"

namespace chimere::serving {
namespace {

/// A model that writes gpt-oss's channels, with a token for each byte.
struct ChannelModel {
  ChannelModel() {
    served.prompt_template = text::PromptTemplate::create(
        tokenizer,
        "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>"
        "{% endfor %}<|start|>assistant{# <|channel|> #}");
  }
  static std::vector<std::string> tokens() {
    std::vector<std::string> out;
    for (int byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
    // The first <|end|> ends a message, the tokenizer's own one the generation.
    for (const char* marker :
         {"<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>"}) {
      out.emplace_back(marker);
    }
    return out;
  }

  /// Whether the generation that continues `said` may have this text.
  bool allows(const protocol::ChatRequest& request, const std::string& said,
              std::string_view text) const {
    ChatInput input{.messages = {{"user", "q", "", ""}, {"assistant", said, "", ""}}};
    EXPECT_EQ(take_continued(served, input), !said.empty());
    const auto prompt = chat_prompt(served, input);
    EXPECT_TRUE(prompt.ok()) << prompt.error().message;
    EXPECT_TRUE(prompt->text.ends_with(prompt->opened + said));
    EXPECT_EQ(prompt->opened.empty(), said.empty());
    const auto spec = output_constraint(served, request, *prompt);
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    if (!*spec) return true;
    const auto constraint =
        constraints::Constraint::compile(**spec, constraints::TokenTrie::create(tokenizer));
    EXPECT_TRUE(constraint.ok()) << constraint.error().message;
    constraints::Matcher matcher = (*constraint)->matcher();
    for (const int32_t token : constraints::tokens_of(tokenizer, text)) {
      if (!matcher.accept(token)) return false;
    }
    return matcher.complete();
  }

  test::FakeModel fake{8};
  test::FakeTokenizer letters;
  std::unique_ptr<engine::EngineService> service =
      engine::EngineService::create(fake, letters, {}).value();
  constraints::TestTokenizer tokenizer{tokens()};
  ServedModel served{.tokenizer = tokenizer, .service = *service};
};

TEST(OutputConstraint, OfAContinuedMessageInAChannel) {
  const ChannelModel model;
  const std::string next = "<|end|><|start|>assistant";
  const std::string call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}";
  const std::string final = "<|channel|>final<|message|>";
  protocol::ChatRequest request;
  request.tools.emplace_back().name = "f";
  request.tool_choice.kind = protocol::ToolChoice::Kind::kRequired;
  EXPECT_TRUE(model.allows(request, "", call));
  EXPECT_FALSE(model.allows(request, "", final + "a"));
  EXPECT_TRUE(model.allows(request, "So", next + call));
  EXPECT_FALSE(model.allows(request, "So", " then"));
  EXPECT_FALSE(model.allows(request, "So", call));

  request.tool_choice.kind = protocol::ToolChoice::Kind::kAuto;
  EXPECT_TRUE(model.allows(request, "So", " then"));
  EXPECT_TRUE(model.allows(request, "So", " then" + next + call));
}

TEST(OutputConstraint, BesideASchemaNothingButTheFinalChannelIsContent) {
  const ChannelModel model;
  const std::string next = "<|end|><|start|>assistant";
  const std::string comment = "<|channel|>commentary<|message|>I look." + next;
  const std::string object = "<|channel|>final<|message|>{}";
  protocol::ChatRequest request;
  request.tools.emplace_back().name = "f";
  EXPECT_TRUE(model.allows(request, "", comment + object));
  request.format.kind = protocol::OutputFormat::Kind::kJsonObject;
  for (const bool tools : {true, false}) {
    if (!tools) request.tools.clear();
    EXPECT_TRUE(model.allows(request, "", "<|channel|>analysis<|message|>Hm." + next + object));
    EXPECT_FALSE(model.allows(request, "", comment + object));
  }
}

}  // namespace
}  // namespace chimere::serving
