#include "conversation.h"

#include <utility>

#include "loading.h"

namespace chimere::app {
namespace {

constexpr const char* kSystem = "system";
constexpr const char* kUser = "user";
constexpr const char* kAssistant = "assistant";

}  // namespace

Result<Conversation> Conversation::start(const runtime::LoadedModel& loaded,
                                         const Settings& settings) {
  const LoadMessages messages(settings);
  CHIMERE_TRY(auto prompt_template,
              runtime::load_prompt_template(
                  *loaded.file, *loaded.tokenizer, settings,
                  [&](const std::string& text) { messages.observer().warn(text); }));
  return Conversation(*loaded.tokenizer, std::move(prompt_template),
                      settings.get(settings::kReasoning));
}

Result<Conversation::Prompt> Conversation::ask(std::string_view text) {
  messages_.push_back({.role = kUser, .content = std::string(text)});
  auto prompt = render();
  if (!prompt.ok()) remove_last();
  return prompt;
}

Result<Conversation::Prompt> Conversation::render() const {
  CHIMERE_TRY(const text::RenderedChat rendered,
              template_.render(messages_, {}, {.reasoning = reasoning_}));
  return Prompt{text::encode_chat(*tokenizer_, rendered), template_.format().start(rendered.text)};
}

void Conversation::add_answer(std::string_view text) {
  messages_.push_back({.role = kAssistant, .content = std::string(text)});
}

std::string Conversation::system() const {
  return !messages_.empty() && messages_[0].role == kSystem ? messages_[0].content : "";
}

void Conversation::set_system(std::string text) {
  if (!system().empty()) messages_.erase(messages_.begin());
  if (!text.empty()) {
    messages_.insert(messages_.begin(), {.role = kSystem, .content = std::move(text)});
  }
}

void Conversation::clear() { messages_.resize(system().empty() ? 0 : 1); }

std::optional<std::string> Conversation::last_question() const {
  for (auto at = messages_.rbegin(); at != messages_.rend(); ++at) {
    if (at->role == kUser) return at->content;
  }
  return std::nullopt;
}

bool Conversation::remove_last_answer() {
  if (messages_.empty() || messages_.back().role != kAssistant) return false;
  messages_.pop_back();
  return true;
}

bool Conversation::remove_last_turn() {
  if (!last_question()) return false;
  while (messages_.back().role != kUser) messages_.pop_back();
  messages_.pop_back();
  return true;
}

int64_t Conversation::questions() const {
  int64_t count = 0;
  for (const Message& message : messages_) count += message.role == kUser ? 1 : 0;
  return count;
}

}  // namespace chimere::app
