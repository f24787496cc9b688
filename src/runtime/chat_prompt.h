// Conversations to prompts, by a model's chat template.
#ifndef CHIMERE_RUNTIME_CHAT_PROMPT_H_
#define CHIMERE_RUNTIME_CHAT_PROMPT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace chimere::runtime {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", ...
  std::string content;
};

/// The chat template of a model file. Immutable.
class ChatPrompt {
 public:
  /// The tokenizer must outlive the result. Errors: kUnsupported (the file has no template),
  /// kInvalidData (the template is invalid).
  static Result<ChatPrompt> create(const gguf::Reader& file, const text::Tokenizer& tokenizer);

  struct Rendered {
    std::string text;
    std::vector<int32_t> tokens;
  };
  /// The conversation and the header of the assistant's turn. The messages' texts never become
  /// control tokens. `thinking`: whether the template asks for reasoning; absent: its default.
  /// Errors: those of the template.
  Result<Rendered> render(std::span<const ChatMessage> messages,
                          std::optional<bool> thinking) const;

  /// Source of the template.
  const std::string& source() const { return source_; }

 private:
  ChatPrompt(const text::Tokenizer& tokenizer, std::string source, text::ChatTemplate chat_template)
      : tokenizer_(&tokenizer), source_(std::move(source)), template_(std::move(chat_template)) {}

  const text::Tokenizer* tokenizer_;
  std::string source_;
  text::ChatTemplate template_;
};

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_CHAT_PROMPT_H_
