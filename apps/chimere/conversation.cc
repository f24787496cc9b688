#include "conversation.h"

namespace chimere::app {

Result<Conversation> Conversation::start(const runtime::LoadedModel& loaded,
                                         std::string reasoning) {
  CHIMERE_TRY(auto prompt_template, runtime::load_prompt_template(*loaded.file, *loaded.tokenizer));
  return Conversation(*loaded.tokenizer, std::move(prompt_template), std::move(reasoning));
}

Result<Conversation::Prompt> Conversation::ask(std::string_view text) {
  messages_.push_back({.role = "user", .content = std::string(text)});
  auto rendered = template_.render(messages_, {}, {.reasoning = reasoning_});
  if (!rendered.ok()) {
    remove_last();
    return std::move(rendered).error();
  }
  return Prompt{text::encode_chat(*tokenizer_, *rendered),
                protocol::reasoning_start(template_.source(), rendered->text)};
}

void Conversation::add_answer(std::string_view text) {
  messages_.push_back({.role = "assistant", .content = std::string(text)});
}

}  // namespace chimere::app
