// What the next prompt of a conversation begins with, for prefix-cache warm-up.
#ifndef CHIMERE_SERVING_NEXT_TURN_H_
#define CHIMERE_SERVING_NEXT_TURN_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/requests.h"
#include "protocol/responses.h"
#include "serving/served_model.h"
#include "text/chat_template.h"

namespace chimere::serving {

/// The next turn of one conversation. The template renders it once, with placeholders for the
/// answer and the next message, however many answers (choices) there are. Any thread.
class NextTurn {
 public:
  /// The arguments are those of chat_prompt(). `model` must outlive it.
  NextTurn(const ServedModel& model, ChatInput input);

  /// Prompt prefixes that the next turn can start with: the messages, the assistant's answer as the
  /// template renders it in the history, and the header of the next user message, without its last
  /// token, which may change with the text that follows. The first list is for clients that send
  /// the answer back without its reasoning; a second one, if the template renders the reasoning,
  /// for clients that send it too. Empty if the template rejects or rewrites such a conversation.
  std::vector<std::vector<int32_t>> prefixes(const std::string& content,
                                             const std::string& answer_reasoning);
  /// The same after an answer that calls tools: up to the first result.
  std::vector<std::vector<int32_t>> prefixes_after_calls(const protocol::Choice& answer) const;

 private:
  /// A placeholder in a rendering, and the characters that the template strips from the text.
  struct Slot {
    size_t begin = 0;
    size_t end = 0;
    std::string_view strips_left;
    std::string_view strips_right;
  };
  /// A rendering up to the content of the next message.
  struct Pattern {
    text::RenderedChat chat;
    std::optional<Slot> reasoning;
    Slot content;
  };
  static std::optional<Slot> find_slot(std::string_view text, std::string_view word, size_t before);
  std::optional<Pattern> render(bool with_reasoning) const;
  std::vector<int32_t> tokens_of(text::RenderedChat chat) const;
  std::vector<int32_t> fill(const Pattern& pattern, const std::string& content,
                            const std::string& answer_reasoning) const;

  const ServedModel& model_;
  const ChatInput input_;
  std::once_flag rendered_plain_;
  std::once_flag rendered_with_reasoning_;
  std::optional<Pattern> plain_;
  std::optional<Pattern> with_reasoning_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_NEXT_TURN_H_
