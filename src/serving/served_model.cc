#include "serving/served_model.h"

#include <string>
#include <utility>
#include <vector>

#include "text/tool_format.h"
#include "text/tool_messages.h"

namespace chimere::serving {
namespace {

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
  if (!model.prompt_template.ok()) return model.prompt_template.error();
  std::vector<text::ConversationMessage> messages;
  messages.reserve(input.messages.size());
  for (const auto& m : input.messages) messages.push_back(conversation_message(m));
  std::vector<text::ToolDefinition> tools;
  tools.reserve(input.tools.size());
  for (const auto& t : input.tools) tools.push_back({t.name, t.description, t.parameters});
  return model.prompt_template->render(
      messages, tools, {.reasoning = input.reasoning, .kwargs = input.template_kwargs});
}

Result<ChatPrompt> chat_prompt(const ServedModel& model, const ChatInput& input) {
  CHIMERE_TRY(const text::RenderedChat rendered, render_chat(model, input));
  return ChatPrompt{text::encode_chat(model.tokenizer, rendered),
                    protocol::reasoning_start(model.prompt_template->source(), rendered.text)};
}

}  // namespace chimere::serving
