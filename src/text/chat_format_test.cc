#include "text/chat_format.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace chimere::text {
namespace {

using Start = ReasoningSplitter::Start;

/// Of bytes and these tokens, which have the type.
std::unique_ptr<Tokenizer> tagged_tokenizer(const std::vector<std::string>& tokens,
                                            TokenType type = TokenType::kUserDefined) {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "qwen2";
  for (int b = 0; b < 256; ++b) {
    v.tokens.push_back(ByteAlphabet::get().encode(std::string(1, static_cast<char>(b))));
    v.types.push_back(static_cast<int32_t>(TokenType::kNormal));
  }
  for (const std::string& token : tokens) {
    v.tokens.push_back(token);
    v.types.push_back(static_cast<int32_t>(type));
  }
  return Tokenizer::create(std::move(v)).value();
}

ChatFormat chat_format_of(const std::string& source, const std::vector<std::string>& tokens = {},
                          TokenType type = TokenType::kUserDefined) {
  const auto parsed = ChatTemplate::create(source);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  return ChatFormat::of(*parsed, source, options, *tagged_tokenizer(tokens, type));
}

/// A template that writes the reasoning of a message so, in Jinja, before its text.
std::string with_reasoning(const std::string& reasoning) {
  return "{% for m in messages %}<|{{ m.role }}|>" + reasoning +
         "{{ m.content }}<|end|>{% endfor %}"
         "{% if add_generation_prompt %}<|assistant|>{% endif %}";
}

TEST(ChatFormat, TheTemplatesOfModels) {
  const std::set<std::string> reasoning = {"qwen3.jinja", "qwen35.jinja", "deepseek.jinja",
                                           "smollm.jinja"};
  size_t seen = 0;
  for (const auto& file : std::filesystem::directory_iterator(
           std::filesystem::path(CHIMERE_TEXT_TESTDATA) / "templates")) {
    const std::string name = file.path().filename().string();
    SCOPED_TRACE(name);
    std::ifstream stream(file.path(), std::ios::binary);
    const std::string source{std::istreambuf_iterator<char>(stream), {}};
    const ChatFormat bare = chat_format_of(source);
    EXPECT_EQ(bare.reasons, reasoning.contains(name));
    EXPECT_EQ(bare.reasoning.open.text, bare.reasons ? "<think>" : "");
    EXPECT_EQ(bare.reasoning.close.text, bare.reasons ? "</think>" : "");
    EXPECT_FALSE(bare.reasoning.are_tokens());
    EXPECT_EQ(bare.reasoning.answer_open, "");
    // The vocabulary's own tags are those of a template that knows none.
    const ChatFormat tagged = chat_format_of(source, {"<think>", "</think>"});
    EXPECT_EQ(tagged.reasons, bare.reasons);
    EXPECT_EQ(tagged.reasoning.open.token, 256);
    EXPECT_EQ(tagged.reasoning.close.token, 257);
    EXPECT_EQ(tagged.calls, bare.calls);
    seen += reasoning.contains(name) ? 1 : 0;
  }
  EXPECT_EQ(seen, reasoning.size());
}

TEST(ChatFormat, TagsFollowFromWordsOfTheTemplate) {
  struct Case {
    const char* source;
    const char* open;
    const char* close;
    const char* answer_open;
  };
  const Case cases[] = {
      {"{{ '<think>' }}", "<think>", "</think>", ""},
      {"{{ '</think>' }}", "<think>", "</think>", ""},
      {"{{ 'in [THINK] and [/THINK]' }}", "[THINK]", "[/THINK]", ""},
      {"{{ '<seed:think>' }}", "<seed:think>", "</seed:think>", ""},
      {"{{ '<think></think>, then <response></response>' }}", "<think>", "</think>", "<response>"},
      {"{{ '<response>' }}", "", "", ""},
      {"{{ '<|START_THINKING|>' }}", "<|START_THINKING|>", "<|END_THINKING|>", ""},
      {"{{ '<|END_THINKING|><|START_RESPONSE|>' }}", "<|START_THINKING|>", "<|END_THINKING|>",
       "<|START_RESPONSE|>"},
      {"{{ 'I [think] so' }}", "", "", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.source);
    const ChatFormat format = chat_format_of(c.source);
    EXPECT_EQ(format.reasons, *c.open != 0);
    EXPECT_EQ(format.reasoning.open.text, c.open);
    EXPECT_EQ(format.reasoning.close.text, c.close);
    EXPECT_EQ(format.reasoning.answer_open, c.answer_open);
    EXPECT_EQ(format.reasoning.answer_close.empty(), format.reasoning.answer_open.empty());
  }
}

TEST(ChatFormat, TheVocabularyDecidesAmongTheWordsOfATemplate) {
  const std::string both = "{{ '<think> or [THINK]' }}";
  EXPECT_EQ(chat_format_of(both).reasoning.open.text, "<think>");
  const ChatFormat other = chat_format_of(both, {"[THINK]", "[/THINK]"}, TokenType::kControl);
  EXPECT_EQ(other.reasoning.open, (ReasoningTags::Tag{"[THINK]", 256, true}));
  EXPECT_EQ(other.reasoning.close, (ReasoningTags::Tag{"[/THINK]", 257, true}));
  EXPECT_TRUE(other.reasoning.is_token(257));
  EXPECT_FALSE(other.reasoning.is_token(-1));
  const ChatFormat half = chat_format_of(both, {"[THINK]", "</think>"});
  EXPECT_EQ(half.reasoning.open, (ReasoningTags::Tag{"<think>", -1, false}));
  EXPECT_EQ(half.reasoning.close, (ReasoningTags::Tag{"</think>", 257, false}));
  EXPECT_FALSE(half.reasoning.are_tokens());
}

TEST(ChatFormat, TagsFollowFromARendering) {
  for (const std::string key : {"reasoning_content", "reasoning", "thinking"}) {
    SCOPED_TRACE(key);
    const ChatFormat format =
        chat_format_of(with_reasoning("{% if m." + key + " %}{{ '<rationale>\\n' + m." + key +
                                      " + '\\n</rationale>\\n\\n' }}{% endif %}"),
                       {"</rationale>"});
    EXPECT_TRUE(format.reasons);
    EXPECT_EQ(format.reasoning.open, (ReasoningTags::Tag{"<rationale>", -1, false}));
    EXPECT_EQ(format.reasoning.close, (ReasoningTags::Tag{"</rationale>", 256, false}));
    EXPECT_EQ(format.start("<|assistant|><rationale>\n"), Start::kThinking);
    EXPECT_EQ(format.start("<|assistant|>"), Start::kMayThink);
  }
  // Parts that are joined to tags which the table has.
  const ChatFormat joined = chat_format_of(
      with_reasoning("{% if m.thinking %}{{ '<' ~ 'think' ~ '>' ~ m.thinking ~ '</' ~ 'think' ~ "
                     "'>' }}{% endif %}"));
  EXPECT_EQ(joined.reasoning.open.text, "<think>");
  EXPECT_EQ(joined.reasoning.close.text, "</think>");
}

TEST(ChatFormat, OtherRenderingsOfReasoningHaveNoTags) {
  for (const std::string reasoning : {
           "{{ m.thinking or '' }}",                                           // as it is
           "{% if m.thinking %}{{ 'So: ' + m.thinking + '\\n' }}{% endif %}",  // in words
           "{% if m.thinking %}<r>{{ m.thinking + '. ' }}{% endif %}",         // without an end
           "{% if m.thinking %}{{ m.thinking }}</r>{% endif %}",               // without a begin
           "{% if m.thinking %}{{ '<r>' + m.thinking + '<r>' }}{% endif %}",   // the same
           "{% if m.thinking %}<|end|><|user|>{{ m.thinking }}<|end|>{% endif %}",  // a message
       }) {
    const ChatFormat format = chat_format_of(with_reasoning(reasoning));
    EXPECT_FALSE(format.reasons) << reasoning;
    EXPECT_EQ(format.reasoning, ReasoningTags{}) << reasoning;
    EXPECT_EQ(format.start("<r>"), Start::kContent);
  }
}

TEST(ChatFormat, TheTagsBetweenTurns) {
  using Tags = std::vector<std::string>;
  EXPECT_EQ(chat_format_of(with_reasoning("")).turn_tags, (Tags{"<|end|>", "<|user|>"}));
  // Texts that HTML or code may have, and what only other places show.
  EXPECT_EQ(chat_format_of("{{ '<|first|>' }}{% for m in messages %}{{ m.content + '</s><||>' }}"
                           "{% endfor %}")
                .turn_tags,
            Tags());
  EXPECT_EQ(chat_format_of("{{ 'no messages' }}").turn_tags, Tags());
}

TEST(ChatFormat, HowAGenerationStarts) {
  EXPECT_EQ(chat_format_of("{{ messages }}").start("<think>\n"), Start::kContent);
  const ChatFormat format = chat_format_of("a <think> b </think>");
  EXPECT_EQ(format.start("assistant\n<think>\n"), Start::kThinking);
  EXPECT_EQ(format.start("<think>\n\n</think>\n\n"), Start::kMayThink);
  EXPECT_EQ(format.start(""), Start::kMayThink);
  EXPECT_EQ(chat_format_of("{{ '[THINK]' }}").start("[INST]Hi[/INST][THINK]"), Start::kThinking);
}

TEST(ChatFormat, WithoutATemplateTheVocabularyHasTheTags) {
  EXPECT_EQ(vocabulary_reasoning(*tagged_tokenizer({})), ReasoningTags{});
  EXPECT_EQ(vocabulary_reasoning(*tagged_tokenizer({"<think>"})), ReasoningTags{});
  const ReasoningTags tags = vocabulary_reasoning(
      *tagged_tokenizer({"<seed:think>", "</seed:think>"}, TokenType::kControl));
  EXPECT_EQ(tags.open, (ReasoningTags::Tag{"<seed:think>", 256, true}));
  EXPECT_EQ(tags.close, (ReasoningTags::Tag{"</seed:think>", 257, true}));
}

}  // namespace
}  // namespace chimere::text
