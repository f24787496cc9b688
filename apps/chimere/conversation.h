// The messages of a chat, rendered to tokens by the model's chat template.
#ifndef CHIMERE_APPS_CHIMERE_CONVERSATION_H_
#define CHIMERE_APPS_CHIMERE_CONVERSATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "protocol/reasoning_splitter.h"
#include "runtime/chat_prompt.h"
#include "runtime/loaded_model.h"

namespace chimere::app {

using Message = runtime::ChatMessage;

class Conversation {
 public:
  /// An empty conversation with the chat template of the model file; the model must outlive it.
  /// Errors: kUnsupported if the file has no template, kInvalidData if the template is invalid.
  static Result<Conversation> start(const runtime::LoadedModel& loaded);

  /// The whole conversation, ready for the next generation.
  struct Prompt {
    std::vector<int32_t> tokens;
    protocol::ReasoningSplitter::Start start;  ///< of the generation
  };
  /// Adds a user message, whose text never becomes control tokens. Errors: those of the template;
  /// the message is not added then.
  Result<Prompt> ask(std::string_view text);
  /// Adds the assistant's message.
  void add_answer(std::string_view text);
  /// Removes the last message.
  void remove_last() { messages_.pop_back(); }
  void clear() { messages_.clear(); }

  /// Whether the template asks the model for reasoning; absent: the template's default.
  void set_thinking(std::optional<bool> thinking) { thinking_ = thinking; }

  const std::vector<Message>& messages() const { return messages_; }
  /// Continues from the messages of another conversation.
  void resume(std::vector<Message> messages) { messages_ = std::move(messages); }

 private:
  explicit Conversation(runtime::ChatPrompt chat_prompt) : chat_prompt_(std::move(chat_prompt)) {}

  runtime::ChatPrompt chat_prompt_;
  std::vector<Message> messages_;
  std::optional<bool> thinking_;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_CONVERSATION_H_
