#include "serving/served_model.h"

#include <utility>

#include "text/jinja/json.h"

namespace chimere::serving {
namespace {

using text::jinja::Dict;
using text::jinja::Value;

Value message_value(const protocol::ChatMessage& m) {
  Dict message;
  message.set("role", Value::string(m.role, false));
  message.set("content", Value::string(m.content, false));
  if (!m.name.empty()) message.set("name", Value::string(m.name, false));
  if (!m.reasoning_content.empty()) {
    message.set("reasoning_content", Value::string(m.reasoning_content, false));
  }
  return Value::dict(std::move(message));
}

}  // namespace

Result<text::RenderedChat> render_chat(const ServedModel& model,
                                       const std::vector<protocol::ChatMessage>& messages,
                                       const std::string& reasoning,
                                       const std::string& template_kwargs) {
  if (!model.chat_template) {
    return unsupported(
        "This model's file has no chat template; use /v1/completions with plain text.");
  }
  text::ChatOptions options;
  options.bos_token = model.tokenizer.token_bytes(model.tokenizer.bos(), true);
  options.eos_token = model.tokenizer.token_bytes(model.tokenizer.eos(), true);
  if (!template_kwargs.empty()) {
    CHIMERE_TRY(const Value values, text::jinja::parse_json(template_kwargs));
    options.extra = values.as_dict();
  }
  if (reasoning != "auto" && options.extra.find("enable_thinking") == nullptr) {
    options.enable_thinking = reasoning != "none";
    // Some templates take the effort as a named level.
    const bool named = reasoning == "low" || reasoning == "medium" || reasoning == "high";
    if (named) options.extra.set("reasoning_effort", Value::string(reasoning, true));
  }
  std::vector<Value> list;
  list.reserve(messages.size());
  for (const protocol::ChatMessage& m : messages) list.push_back(message_value(m));
  return model.chat_template->render(Value::list(std::move(list)), options);
}

Result<ChatPrompt> chat_prompt(const ServedModel& model,
                               const std::vector<protocol::ChatMessage>& messages,
                               const std::string& reasoning, const std::string& template_kwargs) {
  CHIMERE_TRY(const text::RenderedChat rendered,
              render_chat(model, messages, reasoning, template_kwargs));
  return ChatPrompt{text::encode_chat(model.tokenizer, rendered),
                    protocol::reasoning_start(model.template_source, rendered.text)};
}

}  // namespace chimere::serving
