// Renders conversations to token ids with a model's chat template.
#ifndef CHIMERE_TEXT_CHAT_TEMPLATE_H_
#define CHIMERE_TEXT_CHAT_TEMPLATE_H_

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/template.h"
#include "text/tokenizer.h"

namespace chimere::text {

/// A rendered conversation. `trusted`: the ranges that the template's author wrote. There the text
/// of control tokens stands for those tokens; elsewhere it is plain text.
struct RenderedChat {
  std::string text;
  std::vector<TextRange> trusted;  ///< sorted, disjoint
};

struct ChatOptions {
  bool add_generation_prompt = true;          ///< end with the header of the assistant's turn
  std::optional<bool> enable_thinking;        ///< absent: the template's default
  jinja::Value tools = jinja::Value::none();  ///< a list (jinja::parse_json reads one)
  jinja::Dict extra;                          ///< more variables for the template; not trusted
  std::string bos_token;                      ///< text of the token; empty: the model has none
  std::string eos_token;
  std::optional<std::tm> now;  ///< for strftime_now; absent: now, in UTC
  jinja::Limits limits;
};

/// A message with a role and a text.
jinja::Value chat_message(std::string_view role, std::string_view content);

class ChatTemplate {
 public:
  /// `source`: tokenizer.chat_template of a GGUF. Errors: kInvalidData with the line.
  static Result<ChatTemplate> create(std::string_view source);

  /// `messages`: a list of dictionaries with role, content and other keys of the template
  /// (tool_calls, reasoning_content, ...), as chat_message() or jinja::parse_json() make them.
  /// Errors: kInvalidArgument, with the template's own message if it refuses the conversation.
  Result<RenderedChat> render(const jinja::Value& messages, const ChatOptions& options) const;

 private:
  explicit ChatTemplate(jinja::Template parsed) : template_(std::move(parsed)) {}
  jinja::Template template_;
};

/// The ids of a rendered conversation. It has a BOS token only if the template writes one.
std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const RenderedChat& chat);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_CHAT_TEMPLATE_H_
