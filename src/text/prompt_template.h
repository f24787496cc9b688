// Conversations to prompts: a model's chat template and what follows from it.
#ifndef CHIMERE_TEXT_PROMPT_TEMPLATE_H_
#define CHIMERE_TEXT_PROMPT_TEMPLATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_format.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tool_messages.h"
#include "text/turn_rules.h"

namespace chimere::text {

/// The chat template of a model with the format of its generations, the conversations that it
/// takes, and the model's BOS and EOS texts. Immutable.
class PromptTemplate {
 public:
  /// `source`: tokenizer.chat_template of a GGUF. Renders a few conversations to find the format of
  /// generations and what the template shows. Errors: kInvalidData (the template is invalid), with
  /// the line.
  static Result<PromptTemplate> create(const Tokenizer& tokenizer, std::string source);

  struct Options {
    /// A value of --reasoning: unless it is "auto", it becomes the template's `enable_thinking`
    /// (false for "none"), and a named effort its `reasoning_effort`.
    std::string_view reasoning = "auto";
    /// More variables of the template: a JSON object, or empty. They take precedence.
    std::string_view kwargs = {};
  };

  /// The conversation, as adapt_turns() makes it fit the template, and the header of the
  /// assistant's turn. The texts of messages and tools never become control tokens. Errors:
  /// kInvalidArgument (arguments or parameters that are not JSON objects or are nested too deeply,
  /// invalid `kwargs`), those of the template.
  Result<RenderedChat> render(std::span<const ChatMessage> messages, std::span<const Tool> tools,
                              const Options& options) const;

  const ChatFormat& format() const { return format_; }
  const ToolFormat& tool_format() const { return format_.calls; }
  const TurnRules& turn_rules() const { return turn_rules_; }
  const std::string& source() const { return source_; }

 private:
  PromptTemplate(std::string source, ChatTemplate parsed, ChatOptions defaults,
                 const Tokenizer& tokenizer);

  std::string source_;
  ChatTemplate template_;
  ChatOptions defaults_;
  ChatFormat format_;
  TurnRules turn_rules_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_PROMPT_TEMPLATE_H_
