#include "serving/next_turn.h"

#include <algorithm>
#include <utility>

namespace chimere::serving {
namespace {

constexpr std::string_view kContent = "chimere7answer7placeholder";
constexpr std::string_view kReasoning = "chimere7reasoning7placeholder";
constexpr std::string_view kNext = "chimere7message7placeholder";
constexpr std::string_view kNewline = "\n";
constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

/// White space around a placeholder, which shows what the template strips: nothing, line breaks, or
/// all white space. No template writes such white space itself.
constexpr std::string_view kBreaks = "\n\n\n\n";
constexpr std::string_view kBlanks = "\t \t";

std::string padded(std::string_view word) {
  std::string out(kBreaks);
  out += kBlanks;
  out += word;
  out += kBlanks;
  out += kBreaks;
  return out;
}

std::string_view stripped(std::string_view text, std::string_view left, std::string_view right) {
  while (!text.empty() && left.find(text.front()) != left.npos) text.remove_prefix(1);
  while (!text.empty() && right.find(text.back()) != right.npos) text.remove_suffix(1);
  return text;
}

}  // namespace

NextTurn::NextTurn(const ServedModel& model, ChatInput input)
    : model_(model), input_(std::move(input)) {}

/// The last place of the padded `word` in `text` that ends before `before`.
std::optional<NextTurn::Slot> NextTurn::find_slot(std::string_view text, std::string_view word,
                                                  size_t before) {
  const size_t at = text.substr(0, before).rfind(word);
  if (at == text.npos) return std::nullopt;
  Slot slot{at, at + word.size(), kWhiteSpace, kWhiteSpace};
  const auto extend_left = [&](std::string_view pad) {
    const bool there = text.substr(0, slot.begin).ends_with(pad);
    slot.begin -= there ? pad.size() : 0;
    return there;
  };
  if (extend_left(kBlanks)) slot.strips_left = extend_left(kBreaks) ? "" : kNewline;
  const auto extend_right = [&](std::string_view pad) {
    const bool there = text.substr(0, before).substr(slot.end).starts_with(pad);
    slot.end += there ? pad.size() : 0;
    return there;
  };
  if (extend_right(kBlanks)) slot.strips_right = extend_right(kBreaks) ? "" : kNewline;
  return slot;
}

std::optional<NextTurn::Pattern> NextTurn::render(bool with_reasoning) const {
  ChatInput turn = input_;
  turn.messages.push_back(
      {"assistant", padded(kContent), "", with_reasoning ? padded(kReasoning) : ""});
  turn.messages.push_back({"user", std::string(kNext), "", ""});
  auto chat = render_chat(model_, turn);
  if (!chat.ok()) return std::nullopt;
  const size_t end = chat->text.rfind(kNext);
  if (end == std::string::npos) return std::nullopt;
  Pattern out;
  const auto content = find_slot(chat->text, kContent, end);
  if (!content) return std::nullopt;
  out.content = *content;
  if (with_reasoning) {
    out.reasoning = find_slot(chat->text, kReasoning, content->begin);
    if (!out.reasoning) return std::nullopt;  // the template leaves it out
  }
  out.chat = *std::move(chat);
  out.chat.text.resize(end);
  return out;
}

std::vector<int32_t> NextTurn::fill(const Pattern& pattern, const std::string& content,
                                    const std::string& answer_reasoning) const {
  text::RenderedChat chat = pattern.chat;
  const auto replace = [&](const Slot& slot, std::string_view text) {
    text = stripped(text, slot.strips_left, slot.strips_right);
    chat.text.replace(slot.begin, slot.end - slot.begin, text);
    const auto moved = [&](size_t at) { return at - (slot.end - slot.begin) + text.size(); };
    // The placeholder is text of a message, which is never trusted.
    for (text::TextRange& range : chat.trusted) {
      if (range.begin >= slot.end) range.begin = moved(range.begin);
      if (range.end >= slot.end) range.end = moved(range.end);
    }
  };
  // The later one first, so that the place of the other one stays valid.
  replace(pattern.content, content);
  if (pattern.reasoning) replace(*pattern.reasoning, answer_reasoning);
  return tokens_of(std::move(chat));
}

/// The tokens of a text whose end was cut off, without the last one.
std::vector<int32_t> NextTurn::tokens_of(text::RenderedChat chat) const {
  std::erase_if(chat.trusted,
                [&](const text::TextRange& r) { return r.begin >= chat.text.size(); });
  if (!chat.trusted.empty()) {
    chat.trusted.back().end = std::min(chat.trusted.back().end, chat.text.size());
  }
  std::vector<int32_t> tokens = text::encode_chat(model_.tokenizer, chat);
  if (!tokens.empty()) tokens.pop_back();
  return tokens;
}

std::vector<std::vector<int32_t>> NextTurn::prefixes_after_calls(
    const protocol::Choice& answer) const {
  ChatInput turn = input_;
  text::ChatMessage& message = turn.messages.emplace_back();
  message.role = "assistant";
  message.content = answer.content;
  message.reasoning_content = answer.reasoning;
  for (const protocol::ToolCallPiece& call : answer.tool_calls) {
    message.tool_calls.push_back({call.id, call.name, call.arguments});
  }
  text::ChatMessage& result = turn.messages.emplace_back();
  result.role = "tool";
  result.content = kNext;
  if (!answer.tool_calls.empty()) result.tool_call_id = answer.tool_calls.front().id;
  auto chat = render_chat(model_, turn);
  if (!chat.ok()) return {};
  const size_t end = chat->text.rfind(kNext);
  if (end == std::string::npos) return {};
  chat->text.resize(end);
  return {tokens_of(*std::move(chat))};
}

std::vector<std::vector<int32_t>> NextTurn::prefixes(const std::string& content,
                                                     const std::string& answer_reasoning) {
  std::vector<std::vector<int32_t>> out;
  std::call_once(rendered_plain_, [this] { plain_ = render(false); });
  if (!plain_) return out;
  out.push_back(fill(*plain_, content, ""));
  if (answer_reasoning.empty()) return out;
  std::call_once(rendered_with_reasoning_, [this] { with_reasoning_ = render(true); });
  if (with_reasoning_) out.push_back(fill(*with_reasoning_, content, answer_reasoning));
  return out;
}

}  // namespace chimere::serving
