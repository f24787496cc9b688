#include "serving/served_model.h"

#include <string>
#include <string_view>
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

/// The beginning of a message, after the header of the assistant's turn. A template that has opened
/// the reasoning gets it closed.
void append_continued(const protocol::ChatMessage& message, text::ReasoningSplitter::Start start,
                      text::RenderedChat& out) {
  using Start = text::ReasoningSplitter::Start;
  const auto trusted = [&](std::string_view text) {
    out.trusted.push_back({out.text.size(), out.text.size() + text.size()});
    out.text += text;
  };
  const std::string& reasoning = message.reasoning_content;
  if (start == Start::kMayThink && !reasoning.empty()) trusted("<think>\n");
  if (start == Start::kThinking || (start == Start::kMayThink && !reasoning.empty())) {
    out.text += reasoning;
    trusted("\n</think>\n\n");
  }
  out.text += message.content;
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
  CHIMERE_TRY(text::RenderedChat rendered, render_chat(model, input));
  using Start = text::ReasoningSplitter::Start;
  Start start = text::reasoning_start(model.prompt_template->source(), rendered.text);
  if (input.continued) {
    if (model.prompt_template->tool_format().style == text::ToolFormat::Style::kHarmony) {
      return unsupported(
          "This model writes in channels, so a message of the assistant cannot be continued; end "
          "with a message of the user.");
    }
    append_continued(*input.continued, start, rendered);
    start = Start::kContent;
  }
  std::vector<int32_t> tokens = text::encode_chat(model.tokenizer, rendered);
  return ChatPrompt{std::move(rendered.text), std::move(tokens), start};
}

}  // namespace chimere::serving
