#include "runtime/chat_prompt.h"

namespace chimere::runtime {

Result<ChatPrompt> ChatPrompt::create(const gguf::Reader& file, const text::Tokenizer& tokenizer) {
  const auto source = file.get_string("tokenizer.chat_template");
  if (!source.ok()) {
    return unsupported(
        "The model file has no chat template; give it plain text instead (`chimere run --raw`).");
  }
  CHIMERE_TRY(text::ChatTemplate parsed, text::ChatTemplate::create(*source));
  return ChatPrompt(tokenizer, *source, std::move(parsed));
}

Result<ChatPrompt::Rendered> ChatPrompt::render(std::span<const ChatMessage> messages,
                                                std::optional<bool> thinking) const {
  text::ChatOptions options;
  options.enable_thinking = thinking;
  options.bos_token = tokenizer_->token_bytes(tokenizer_->bos(), true);
  options.eos_token = tokenizer_->token_bytes(tokenizer_->eos(), true);
  std::vector<text::jinja::Value> values;
  for (const ChatMessage& m : messages) values.push_back(text::chat_message(m.role, m.content));
  CHIMERE_TRY(const text::RenderedChat chat,
              template_.render(text::jinja::Value::list(std::move(values)), options));
  return Rendered{chat.text, text::encode_chat(*tokenizer_, chat)};
}

}  // namespace chimere::runtime
