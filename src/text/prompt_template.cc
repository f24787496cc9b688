#include "text/prompt_template.h"

#include <optional>
#include <utility>

#include "text/jinja/json.h"

namespace chimere::text {
namespace {

/// What templates need that read other variables than most. The text behind keeps a template's
/// first line break.
constexpr std::string_view kPreludes[] = {
    "",
    // They loop over the tools without asking whether there are any: Command R+, Hermes 3.
    "{% set tools = tools or [] %}{{ '' }}",
    // Firefunction.
    "{% set functions = (tools or []) | tojson %}{% set datetime = strftime_now('%d %B %Y') %}"
    "{{ '' }}",
};

bool renders_a_question(const ChatTemplate& chat_template, const ChatOptions& options) {
  return chat_template.render(jinja::Value::list({chat_message("user", "Why?")}), options).ok();
}

/// The template behind the first prelude with which it takes a question; else as it is.
Result<ChatTemplate> with_prelude(const std::string& source, const ChatOptions& options) {
  for (const std::string_view prelude : kPreludes) {
    CHIMERE_TRY(ChatTemplate parsed, ChatTemplate::create(std::string(prelude) + source));
    if (renders_a_question(parsed, options)) return parsed;
  }
  return ChatTemplate::create(source);
}

}  // namespace

PromptTemplate::PromptTemplate(std::string source, ChatTemplate parsed, ChatOptions defaults,
                               const Tokenizer& tokenizer)
    : source_(std::move(source)),
      template_(std::move(parsed)),
      defaults_(std::move(defaults)),
      format_(ChatFormat::of(template_, source_, defaults_, tokenizer)),
      turn_rules_(TurnRules::of(template_, format_.calls, defaults_)) {}

Result<PromptTemplate> PromptTemplate::create(const Tokenizer& tokenizer, std::string source) {
  ChatOptions defaults;
  defaults.bos_token = tokenizer.token_bytes(tokenizer.bos(), true);
  defaults.eos_token = tokenizer.token_bytes(tokenizer.eos(), true);
  CHIMERE_TRY(ChatTemplate parsed, with_prelude(source, defaults));
  return PromptTemplate(std::move(source), std::move(parsed), std::move(defaults), tokenizer);
}

Result<RenderedChat> PromptTemplate::render(std::span<const ChatMessage> messages,
                                            std::span<const Tool> tools,
                                            const Options& options) const {
  ChatOptions chat = defaults_;
  if (!options.kwargs.empty()) {
    CHIMERE_TRY(const jinja::Value values, jinja::parse_json(options.kwargs));
    if (!values.is_dict()) {
      return invalid_argument("The variables of the chat template must be a JSON object.");
    }
    chat.extra = values.as_dict();
  }
  const std::string_view reasoning = options.reasoning;
  if (reasoning != "auto" && chat.extra.find("enable_thinking") == nullptr) {
    chat.enable_thinking = reasoning != "none";
    // Some templates take the effort as a named level.
    const bool named = reasoning == "low" || reasoning == "medium" || reasoning == "high";
    if (named && chat.extra.find("reasoning_effort") == nullptr) {
      chat.extra.set("reasoning_effort", jinja::Value::string(std::string(reasoning), true));
    }
  }
  const bool shows_tools = !tools.empty() && format_.calls.rendering.tools;
  CHIMERE_TRY(const jinja::Value values, messages_value(messages, tools, format_.calls));
  // The probes did not have all that this conversation has: some templates refuse it nevertheless.
  const TurnRules strictest = turn_rules_.strictest();
  std::optional<Error> refusal;
  for (const bool describe : {false, true}) {
    if (describe && !shows_tools) break;
    if (shows_tools) {
      CHIMERE_TRY(chat.tools, tools_value(tools, describe));
    }
    for (const TurnRules* rules : {&turn_rules_, &strictest}) {
      auto out = template_.render(adapt_turns(values, *rules), chat);
      if (out.ok()) return out;
      if (!refusal) refusal = out.error();
    }
  }
  return *refusal;
}

}  // namespace chimere::text
