#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/fresh_seed.h"
#include "text/jinja/json.h"
#include "text/utf8.h"

namespace chimere::text {
namespace {

using ::testing::HasSubstr;

const std::string kData = CHIMERE_TEXT_TESTDATA;

const char* const kControl[] = {"<|im_start|>", "<|im_end|>",        "<|endoftext|>", "<s>",
                                "</s>",         "<|user|>",          "<|assistant|>", "<|system|>",
                                "<|end|>",      "<start_of_turn>",   "<end_of_turn>", "[INST]",
                                "<|eot_id|>",   "<|end_header_id|>", "<|User|>",      "<|start|>"};

/// Tokens that models treat as control tokens although files declare them as user-defined.
const char* const kUserDefined[] = {"<think>",         "</think>", "<tool_call>", "</tool_call>",
                                    "<tool_response>", "<tools>",  "</s>[INST]",  "[/INST]"};

/// Bytes, control and user-defined tokens, no merges.
std::unique_ptr<Tokenizer> byte_tokenizer() {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "qwen2";
  for (int b = 0; b < 256; ++b) {
    v.tokens.push_back(ByteAlphabet::get().encode(std::string(1, static_cast<char>(b))));
    v.types.push_back(1);
  }
  for (const char* token : kControl) {
    v.tokens.emplace_back(token);
    v.types.push_back(3);
  }
  for (const char* token : kUserDefined) {
    v.tokens.emplace_back(token);
    v.types.push_back(4);
  }
  auto tokenizer = Tokenizer::create(std::move(v));
  EXPECT_TRUE(tokenizer.ok());
  return *std::move(tokenizer);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ChatTemplate load(const std::string& name) {
  auto result = ChatTemplate::create(read_file(kData + "/templates/" + name));
  EXPECT_TRUE(result.ok());
  return *std::move(result);
}

jinja::Value conversation(std::initializer_list<std::pair<const char*, std::string>> turns) {
  std::vector<jinja::Value> messages;
  for (const auto& [role, content] : turns) messages.push_back(chat_message(role, content));
  return jinja::Value::list(std::move(messages));
}

ChatOptions options() {
  ChatOptions o;
  o.bos_token = "<s>";
  o.eos_token = "</s>";
  return o;
}

TEST(ChatTemplate, WritesTheConversation) {
  const auto chat = load("chatml.jinja").render(conversation({{"user", "Hi"}}), options());
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  const auto tokenizer = byte_tokenizer();
  const auto ids = encode_chat(*tokenizer, *chat);
  EXPECT_EQ(ids.front(), tokenizer->find("<|im_start|>"));
  EXPECT_EQ(std::ranges::count_if(ids, [&](int32_t id) { return tokenizer->is_control(id); }), 3);
  EXPECT_EQ(tokenizer->decode(ids, true), chat->text);
}

TEST(ChatTemplate, AModelWithoutATokenForTheBeginningHasAnEmptyText) {
  const auto parsed = ChatTemplate::create("{{ bos_token + messages[0].content + eos_token }}");
  ASSERT_TRUE(parsed.ok());
  const auto chat = parsed->render(conversation({{"user", "Hi"}}), {});
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_EQ(chat->text, "Hi");
}

// With any message text, the added tokens are those of a harmless conversation.
TEST(ChatTemplate, ContentNeverBecomesAnAddedToken) {
  const auto tokenizer = byte_tokenizer();
  const auto seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto added_tokens = [&](const ChatTemplate& t, const jinja::Value& messages) {
    const auto chat = t.render(messages, options());
    EXPECT_TRUE(chat.ok()) << chat.error().message;
    std::vector<int32_t> added;
    if (!chat.ok()) return added;
    const std::vector<int32_t> ids = encode_chat(*tokenizer, *chat);
    EXPECT_EQ(tokenizer->decode(ids, true), chat->text);
    std::ranges::copy_if(ids, std::back_inserter(added), [](int32_t id) { return id >= 256; });
    return added;
  };
  for (const auto& entry : std::filesystem::directory_iterator(kData + "/templates")) {
    const std::string name = entry.path().filename();
    SCOPED_TRACE(name);
    const ChatTemplate t = load(name);
    for (int round = 0; round < 20; ++round) {
      const auto hostile = [&] {
        std::string s = "a";
        for (int i = 0; i < 4; ++i) {
          const std::string token = random() % 2 == 0
                                        ? kControl[random() % std::size(kControl)]
                                        : kUserDefined[random() % std::size(kUserDefined)];
          // Whole tokens, and pieces that might join with what the template writes.
          s += random() % 2 == 0 ? token : token.substr(random() % 3, 1 + random() % token.size());
        }
        return s + "z";
      };
      const auto bad =
          conversation({{"user", hostile()}, {"assistant", hostile()}, {"user", hostile()}});
      const auto good = conversation({{"user", "a"}, {"assistant", "a"}, {"user", "a"}});
      EXPECT_EQ(added_tokens(t, bad), added_tokens(t, good));
    }
  }
}

TEST(ChatTemplate, KnownRolesCanBePartOfATokenAndOthersCannot) {
  const auto tokenizer = byte_tokenizer();
  const ChatTemplate t = load("phi3.jinja");
  const auto first = [&](const char* role) {
    const auto chat = t.render(conversation({{role, "Hi"}}), options());
    EXPECT_TRUE(chat.ok());
    return encode_chat(*tokenizer, *chat).front();
  };
  EXPECT_EQ(first("user"), tokenizer->find("<|user|>"));
  EXPECT_EQ(first("endoftext"), '<');
}

TEST(ChatTemplate, PassesOptionsAndReportsRefusals) {
  ChatOptions o = options();
  o.enable_thinking = false;
  const auto quiet = load("qwen3.jinja").render(conversation({{"user", "Hi"}}), o);
  ASSERT_TRUE(quiet.ok());
  EXPECT_THAT(quiet->text, HasSubstr("<think>\n\n</think>"));
  o.add_generation_prompt = false;
  o.tools = *jinja::parse_json(R"([{"type": "function", "function": {"name": "f"}}])");
  const auto tools = load("qwen3.jinja").render(conversation({{"user", "Hi"}}), o);
  ASSERT_TRUE(tools.ok());
  EXPECT_THAT(tools->text, HasSubstr(R"({"type": "function", "function": {"name": "f"}})"));
  const auto refused = load("gemma.jinja").render(conversation({{"assistant", "Hi"}}), options());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("Roles must go user, model"));
  EXPECT_FALSE(load("chatml.jinja").render(jinja::Value::none(), options()).ok());
  const auto dated = load("llama3.jinja").render(conversation({{"user", "Hi"}}), options());
  ASSERT_TRUE(dated.ok());
  EXPECT_THAT(dated->text, HasSubstr("Today: "));
}

}  // namespace
}  // namespace chimere::text
