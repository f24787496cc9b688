#include "text/chat_format.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

namespace chimere::text {
namespace {

using jinja::Dict;
using jinja::Value;

/// Tags as models write them.
struct WrittenTags {
  std::string_view open;
  std::string_view close;
  /// Around the answer, in the templates that have them.
  std::string_view answer_open = {};
  std::string_view answer_close = {};
};

constexpr auto kWrittenTags = std::to_array<WrittenTags>({
    // Qwen 3, DeepSeek R1, Nemotron 3 and most others; Granite has the texts around the answer.
    {"<think>", "</think>", "<response>", "</response>"},
    {"[THINK]", "[/THINK]"},            // Magistral
    {"<seed:think>", "</seed:think>"},  // Seed-OSS
    {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>",
     "<|END_RESPONSE|>"},  // Command
});

constexpr std::string_view kTagSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(kTagSpace) + 1);
  return text.substr(std::min(text.find_first_not_of(kTagSpace), text.size()));
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

ReasoningTags::Tag tag_of(std::string_view text, const Tokenizer& tokenizer) {
  const int32_t token = tokenizer.find(text);
  return {std::string(text), token, token >= 0 && tokenizer.is_control(token)};
}

ReasoningTags tags_of(std::string_view open, std::string_view close, const Tokenizer& tokenizer) {
  return {.open = tag_of(open, tokenizer), .close = tag_of(close, tokenizer)};
}

bool in_vocabulary(const WrittenTags& tags, const Tokenizer& tokenizer) {
  return tokenizer.find(tags.open) >= 0 && tokenizer.find(tags.close) >= 0;
}

/// The tags that the template's text has. Of several, those whose tokens the vocabulary has.
std::optional<ReasoningTags> written_tags(std::string_view source, const Tokenizer& tokenizer) {
  const WrittenTags* found = nullptr;
  for (const WrittenTags& tags : kWrittenTags) {
    if (!has(source, tags.open) && !has(source, tags.close)) continue;
    const bool tokens = in_vocabulary(tags, tokenizer);
    if (found == nullptr || tokens) found = &tags;
    if (tokens) break;
  }
  if (found == nullptr) return std::nullopt;
  ReasoningTags out = tags_of(found->open, found->close, tokenizer);
  if (!found->answer_open.empty() && has(source, found->answer_open)) {
    out.answer_open = found->answer_open;
    out.answer_close = found->answer_close;
  }
  return out;
}

constexpr std::string_view kProbeReasoning = "probe_reasoning";
constexpr std::string_view kProbeAnswer = "probe_answer";

std::optional<std::string> render(const ChatTemplate& chat_template, const ChatOptions& options,
                                  std::vector<Value> messages) {
  constexpr int64_t kMostSteps = 1'000'000;
  ChatOptions probe = options;
  probe.add_generation_prompt = false;
  probe.limits.steps = std::min(probe.limits.steps, kMostSteps);
  auto out = chat_template.render(Value::list(std::move(messages)), probe);
  if (!out.ok()) return std::nullopt;
  return std::move(out->text);
}

std::optional<std::string> render_answer(const ChatTemplate& chat_template,
                                         const ChatOptions& options, bool with_reasoning) {
  Dict answer;
  answer.set("role", Value::string("assistant", true));
  answer.set("content", Value::string(kProbeAnswer, false));
  if (with_reasoning) {
    for (const std::string_view key : kReasoningKeys) {
      answer.set(key, Value::string(kProbeReasoning, false));
    }
  }
  return render(chat_template, options,
                {chat_message("user", "Why?"), Value::dict(std::move(answer))});
}

/// The tag at the end of a text; empty: it ends otherwise.
std::string_view last_tag(std::string_view text) {
  text = trimmed(text);
  if (!text.ends_with('>') && !text.ends_with(']')) return {};
  const size_t begin = text.rfind(text.ends_with('>') ? '<' : '[');
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

/// The tag at the beginning of a text; empty: it begins otherwise.
std::string_view first_tag(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with('<') && !text.starts_with('[')) return {};
  const size_t end = text.find(text.starts_with('<') ? '>' : ']');
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

/// The tags that the template writes around the reasoning of a message, before its text.
std::optional<ReasoningTags> probed_tags(const ChatTemplate& chat_template,
                                         const ChatOptions& options, const Tokenizer& tokenizer) {
  const auto with = render_answer(chat_template, options, true);
  if (!with) return std::nullopt;
  const std::string_view text = *with;
  const size_t begin = text.find(kProbeReasoning);
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t end = begin + kProbeReasoning.size();
  const size_t answer = text.find(kProbeAnswer, end);
  if (answer == std::string_view::npos) return std::nullopt;
  const auto without = render_answer(chat_template, options, false);
  if (!without) return std::nullopt;
  const std::string_view header = std::string_view(*without).substr(0, without->find(kProbeAnswer));
  if (header.size() > begin || !text.starts_with(header)) return std::nullopt;
  const std::string_view open = last_tag(text.substr(header.size(), begin - header.size()));
  const std::string_view close = first_tag(text.substr(end, answer - end));
  // A tag that other messages have begins a message: the reasoning is one of its own.
  if (open.empty() || close.empty() || open == close || has(header, open)) return std::nullopt;
  return tags_of(open, close, tokenizer);
}

/// The tags between the turns of a conversation.
std::vector<std::string> probed_turn_tags(const ChatTemplate& chat_template,
                                          const ChatOptions& options) {
  constexpr std::string_view kNext = "probe_next";
  const auto text = render(chat_template, options,
                           {chat_message("user", "Why?"), chat_message("assistant", kProbeAnswer),
                            chat_message("user", kNext)});
  if (!text) return {};
  const size_t begin = text->find(kProbeAnswer);
  if (begin == std::string::npos) return {};
  const std::string_view rest = std::string_view(*text).substr(begin + kProbeAnswer.size());
  const size_t end = rest.find(kNext);
  if (end == std::string_view::npos) return {};
  std::set<std::string> out;
  for (size_t at = 0; (at = rest.find('<', at)) < end; ++at) {
    const size_t close = rest.find('>', at);
    const std::string_view tag = rest.substr(at, close + 1 - at);
    // `</s>` and others of one bar or none are HTML.
    const bool bars = tag.starts_with("<|") && tag.ends_with("|>") && tag.size() > 4;
    const bool wide = tag.starts_with("<｜") && tag.ends_with("｜>");
    if (close < end && (bars || wide)) out.emplace(tag);
  }
  return {out.begin(), out.end()};
}

}  // namespace

ChatFormat ChatFormat::of(const ChatTemplate& chat_template, std::string_view source,
                          const ChatOptions& options, const Tokenizer& tokenizer) {
  ChatFormat out;
  std::optional<ReasoningTags> tags = written_tags(source, tokenizer);
  if (!tags) tags = probed_tags(chat_template, options, tokenizer);
  out.reasons = tags.has_value();
  out.reasoning = tags ? *std::move(tags) : vocabulary_reasoning(tokenizer);
  out.calls = ToolFormat::of(chat_template, source, options, out.reasoning.close.text, &tokenizer);
  out.turn_tags = probed_turn_tags(chat_template, options);
  return out;
}

ReasoningSplitter::Start ChatFormat::start(std::string_view prompt) const {
  using Start = ReasoningSplitter::Start;
  if (!reasons) return Start::kContent;
  return trimmed(prompt).ends_with(reasoning.open.text) ? Start::kThinking : Start::kMayThink;
}

ReasoningTags vocabulary_reasoning(const Tokenizer& tokenizer) {
  for (const WrittenTags& tags : kWrittenTags) {
    if (in_vocabulary(tags, tokenizer)) return tags_of(tags.open, tags.close, tokenizer);
  }
  return {};
}

std::string empty_reasoning() {
  const WrittenTags& tags = kWrittenTags.front();
  return std::string(tags.open) + "\n\n" + std::string(tags.close) + "\n\n";
}

}  // namespace chimere::text
