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
#include "base/settings.h"
#include "runtime/loaded_model.h"
#include "text/prompt_template.h"
#include "text/reasoning_splitter.h"
#include "text/tokenizer.h"

namespace chimere::app {

using Message = text::ChatMessage;

class Conversation {
 public:
  /// An empty conversation with the chat template and the reasoning of the settings, with warnings
  /// about the template on standard error. The model must outlive it. Errors: those of
  /// runtime::load_prompt_template().
  static Result<Conversation> start(const runtime::LoadedModel& loaded, const Settings& settings);
  /// `reasoning`: a value of --reasoning.
  void set_reasoning(std::string reasoning) { reasoning_ = std::move(reasoning); }

  /// The whole conversation, ready for the next generation.
  struct Prompt {
    std::vector<int32_t> tokens;
    text::ReasoningSplitter::Start start;  ///< of the generation
  };
  /// Adds a user message, whose text never becomes control tokens. Errors: those of the template;
  /// the message is not added then.
  Result<Prompt> ask(std::string_view text);
  /// The prompt for an answer to the conversation as it is. Errors: those of the template.
  Result<Prompt> render() const;
  /// Adds the assistant's message.
  void add_answer(std::string_view text);
  /// Removes the last message.
  void remove_last() { messages_.pop_back(); }
  /// Removes everything but the system message.
  void clear();
  /// Removes the assistant's message at the end; false: there is none.
  bool remove_last_answer();
  /// Removes the last question with what follows it; false: there is none.
  bool remove_last_turn();

  /// Empty: there is none.
  std::string system() const;
  void set_system(std::string text);
  std::optional<std::string> last_question() const;
  int64_t questions() const;

  const text::ChatFormat& format() const { return template_.format(); }
  const std::vector<Message>& messages() const { return messages_; }
  /// Continues from the messages of another conversation.
  void resume(std::vector<Message> messages) { messages_ = std::move(messages); }

 private:
  Conversation(const text::Tokenizer& tokenizer, text::PromptTemplate prompt_template,
               std::string reasoning)
      : tokenizer_(&tokenizer),
        template_(std::move(prompt_template)),
        reasoning_(std::move(reasoning)) {}

  const text::Tokenizer* tokenizer_;
  text::PromptTemplate template_;
  std::string reasoning_;
  std::vector<Message> messages_;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_CONVERSATION_H_
