#include "serving/served_model.h"

#include <string>
#include <utility>
#include <vector>

#include "text/jinja/json.h"
#include "text/tool_messages.h"

namespace chimere::serving {
namespace {

using text::jinja::Value;

text::ConversationMessage conversation_message(const protocol::ChatMessage& m) {
  text::ConversationMessage out{.role = m.role,
                                .content = m.content,
                                .name = m.name,
                                .reasoning_content = m.reasoning_content,
                                .tool_calls = {},
                                .tool_call_id = m.tool_call_id};
  for (const protocol::ToolCall& call : m.tool_calls) {
    out.tool_calls.push_back({call.id, call.name, call.arguments});
  }
  return out;
}

}  // namespace

Result<text::RenderedChat> render_chat(const ServedModel& model, const ChatInput& input) {
  if (!model.chat_template) {
    return unsupported(
        "This model's file has no chat template; use /v1/completions with plain text.");
  }
  text::ChatOptions options;
  options.bos_token = model.tokenizer.token_bytes(model.tokenizer.bos(), true);
  options.eos_token = model.tokenizer.token_bytes(model.tokenizer.eos(), true);
  if (!input.template_kwargs.empty()) {
    CHIMERE_TRY(const Value values, text::jinja::parse_json(input.template_kwargs));
    options.extra = values.as_dict();
  }
  const std::string& reasoning = input.reasoning;
  if (reasoning != "auto" && options.extra.find("enable_thinking") == nullptr) {
    options.enable_thinking = reasoning != "none";
    // Some templates take the effort as a named level.
    const bool named = reasoning == "low" || reasoning == "medium" || reasoning == "high";
    if (named) options.extra.set("reasoning_effort", Value::string(reasoning, true));
  }
  std::vector<text::ConversationMessage> messages;
  messages.reserve(input.messages.size());
  for (const auto& m : input.messages) messages.push_back(conversation_message(m));
  std::vector<text::ToolDefinition> tools;
  tools.reserve(input.tools.size());
  for (const auto& t : input.tools) tools.push_back({t.name, t.description, t.parameters});
  if (!tools.empty() && model.tool_format.rendering.tools) {
    CHIMERE_TRY(options.tools, text::tools_value(tools));
  }
  CHIMERE_TRY(const Value values, text::messages_value(messages, tools, model.tool_format));
  return model.chat_template->render(values, options);
}

Result<ChatPrompt> chat_prompt(const ServedModel& model, const ChatInput& input) {
  CHIMERE_TRY(const text::RenderedChat rendered, render_chat(model, input));
  return ChatPrompt{text::encode_chat(model.tokenizer, rendered),
                    protocol::reasoning_start(model.template_source, rendered.text)};
}

}  // namespace chimere::serving
