#include "conversation.h"

namespace chimere::app {

Result<Conversation> Conversation::start(const runtime::LoadedModel& loaded) {
  const auto source = loaded.file->get_string("tokenizer.chat_template");
  if (!source.ok()) {
    return unsupported(
        "The model file has no chat template; `chimere run --raw` continues plain text.");
  }
  CHIMERE_TRY(text::ChatTemplate parsed, text::ChatTemplate::create(*source));
  return Conversation(*loaded.tokenizer, *source, std::move(parsed));
}

Result<Conversation::Prompt> Conversation::ask(std::string_view text) {
  messages_.push_back({"user", std::string(text)});
  text::ChatOptions options;
  options.enable_thinking = thinking_;
  options.bos_token = tokenizer_->token_bytes(tokenizer_->bos(), true);
  options.eos_token = tokenizer_->token_bytes(tokenizer_->eos(), true);
  std::vector<text::jinja::Value> values;
  for (const Message& m : messages_) values.push_back(text::chat_message(m.role, m.content));
  const auto rendered = template_.render(text::jinja::Value::list(std::move(values)), options);
  if (!rendered.ok()) {
    remove_last();
    return rendered.error();
  }
  return Prompt{text::encode_chat(*tokenizer_, *rendered),
                protocol::reasoning_start(source_, rendered->text)};
}

void Conversation::add_answer(std::string_view text) {
  messages_.push_back({"assistant", std::string(text)});
}

}  // namespace chimere::app
