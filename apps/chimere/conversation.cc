#include "conversation.h"

namespace chimere::app {

Result<Conversation> Conversation::start(const runtime::LoadedModel& loaded) {
  CHIMERE_TRY(auto chat_prompt, runtime::ChatPrompt::create(*loaded.file, *loaded.tokenizer));
  return Conversation(std::move(chat_prompt));
}

Result<Conversation::Prompt> Conversation::ask(std::string_view text) {
  messages_.push_back({"user", std::string(text)});
  auto rendered = chat_prompt_.render(messages_, thinking_);
  if (!rendered.ok()) {
    remove_last();
    return std::move(rendered).error();
  }
  return Prompt{std::move(rendered->tokens),
                protocol::reasoning_start(chat_prompt_.source(), rendered->text)};
}

void Conversation::add_answer(std::string_view text) {
  messages_.push_back({"assistant", std::string(text)});
}

}  // namespace chimere::app
