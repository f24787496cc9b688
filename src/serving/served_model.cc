#include "serving/served_model.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_format.h"
#include "text/tool_messages.h"

namespace chimere::serving {
namespace {

void append_trusted(std::string_view text, text::RenderedChat& out) {
  out.trusted.push_back({out.text.size(), out.text.size() + text.size()});
  out.text += text;
}

/// Some templates always write an empty reasoning behind the header.
void remove_empty_reasoning(const text::ReasoningTags& tags, text::RenderedChat& out) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view rest = out.text;
  for (const std::string* tag : {&tags.close.text, &tags.open.text}) {
    rest = rest.substr(0, rest.find_last_not_of(kSpace) + 1);
    if (!rest.ends_with(*tag)) return;
    rest.remove_suffix(tag->size());
  }
  out.text.resize(rest.size());
  std::erase_if(out.trusted, [&](const text::TextRange& r) { return r.begin >= out.text.size(); });
  if (!out.trusted.empty()) {
    out.trusted.back().end = std::min(out.trusted.back().end, out.text.size());
  }
}

/// The same as append_continued() in gpt-oss's format. Returns what the prompt has of the header of
/// the message that it ends in.
std::string append_continued_channel(const text::ChatMessage& message, text::RenderedChat& out) {
  if (!message.reasoning_content.empty()) {
    append_trusted("<|channel|>analysis<|message|>", out);
    out.text += message.reasoning_content;
    append_trusted("<|end|><|start|>assistant", out);
  }
  const std::string opened = "<|channel|>final<|message|>";
  append_trusted(opened, out);
  out.text += message.content;
  return opened;
}

/// The beginning of a message, after the header of the assistant's turn. A template that has opened
/// the reasoning gets it closed unless the message `ends_in_reasoning`.
void append_continued(const text::ChatMessage& message, bool ends_in_reasoning,
                      const text::ReasoningTags& tags, text::ReasoningSplitter::Start start,
                      text::RenderedChat& out) {
  using Start = text::ReasoningSplitter::Start;
  const auto trusted = [&](std::string_view text) { append_trusted(text, out); };
  const std::string& reasoning = message.reasoning_content;
  if (start == Start::kMayThink && (!reasoning.empty() || ends_in_reasoning)) {
    remove_empty_reasoning(tags, out);
    trusted(tags.open.text + "\n");
  }
  if (ends_in_reasoning) {
    out.text += reasoning;
    return;
  }
  if (start == Start::kThinking || (start == Start::kMayThink && !reasoning.empty())) {
    out.text += reasoning;
    trusted("\n" + tags.close.text + "\n\n");
  }
  out.text += message.content;
}

}  // namespace

Result<text::RenderedChat> render_chat(const ServedModel& model, const ChatInput& input) {
  if (!model.prompt_template.ok()) return model.prompt_template.error();
  return model.prompt_template->render(
      input.messages, input.tools, {.reasoning = input.reasoning, .kwargs = input.template_kwargs});
}

bool take_continued(const ServedModel& model, ChatInput& input) {
  std::vector<text::ChatMessage>& messages = input.messages;
  if (messages.empty() || messages.back().role != "assistant") return false;
  if (!messages.back().tool_calls.empty()) return false;  // the next message follows
  text::ChatMessage message = std::move(messages.back());
  messages.pop_back();
  if (message.content.empty() && message.reasoning_content.empty()) return false;
  using Start = text::ReasoningSplitter::Start;
  const bool reasons = model.prompt_template.ok() && model.prompt_template->format().reasons;
  if (reasons && message.reasoning_content.empty()) {
    text::ReasoningSplitter splitter(Start::kMayThink, model.prompt_template->format().reasoning);
    auto piece = splitter.push(message.content);
    input.continues_reasoning = splitter.thinking();
    auto rest = splitter.finish();
    message.reasoning_content = piece.reasoning + rest.reasoning;
    message.content = piece.content + rest.content;
  }
  // The template writes no reasoning of its own.
  const bool own = !message.reasoning_content.empty() || input.continues_reasoning;
  if (!own) input.reasoning = "none";
  if (own && input.reasoning == "none") input.reasoning = "auto";
  input.continued = std::move(message);
  return !input.continues_reasoning;
}

Result<ChatPrompt> chat_prompt(const ServedModel& model, const ChatInput& input) {
  CHIMERE_TRY(text::RenderedChat rendered, render_chat(model, input));
  using Start = text::ReasoningSplitter::Start;
  const text::ChatFormat& format = model.prompt_template->format();
  Start start = format.start(rendered.text);
  if (input.continued) {
    if (format.calls.style == text::ToolFormat::Style::kHarmony) {
      const std::string opened = append_continued_channel(*input.continued, rendered);
      std::vector<int32_t> tokens = text::encode_chat(model.tokenizer, rendered);
      return ChatPrompt{std::move(rendered.text), std::move(tokens), start, opened};
    }
    append_continued(*input.continued, input.continues_reasoning, format.reasoning, start,
                     rendered);
    start = input.continues_reasoning ? Start::kThinking : Start::kContent;
  }
  std::vector<int32_t> tokens = text::encode_chat(model.tokenizer, rendered);
  return ChatPrompt{std::move(rendered.text), std::move(tokens), start, ""};
}

}  // namespace chimere::serving
