#include <algorithm>
#include <initializer_list>
#include <string>

#include "protocol/requests.h"
#include "protocol/sampling_fields.h"

namespace chimere::protocol {
namespace {

/// Checks that the conversation is one that a generation can follow.
void check_conversation(Fields& fields, const std::vector<ChatMessage>& messages) {
  constexpr std::string_view kBlank = " \t\r\n";
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& m = messages[i];
    if (m.role != "user" || m.content.find_first_not_of(kBlank) != std::string::npos) continue;
    const std::string path = "messages[" + std::to_string(i) + "].content";
    fields.fail("'" + path + "' is empty; give the message a text, or leave it out.", path,
                "empty_content");
  }
  if (messages.back().role == "assistant") {
    fields.fail(
        "The last of 'messages' is the assistant's, and this server does not continue a message "
        "yet; end with a message of the user.",
        "messages", "unsupported_value");
  }
}

/// Reads `reasoning_effort`, or a token count as `thinking_budget`, which takes precedence.
void read_reasoning(Fields& fields, Settings& settings) {
  std::string reasoning;
  bool given = fields.text("reasoning_effort", reasoning);
  if (given && reasoning == "minimal") reasoning = "low";
  const std::initializer_list<std::string_view> efforts = {"none", "low", "medium", "high"};
  if (given && std::ranges::find(efforts, reasoning) == efforts.end()) {
    return fields.fail(
        "'reasoning_effort' must be none, minimal, low, medium or high; 'thinking_budget' takes a "
        "number of tokens.",
        "reasoning_effort");
  }
  int64_t budget = 0;
  if (fields.integer("thinking_budget", 0, 1 << 24, budget)) {
    reasoning = std::to_string(budget);
    given = true;
  }
  if (!given) return;
  const Status status = settings.set(settings::kReasoning, reasoning, "'reasoning_effort'");
  if (!status.ok()) fields.fail(status.error().message, "reasoning_effort");
}

void read_logprobs(Fields& fields, const RequestLimits& limits, int64_t& out) {
  bool wanted = false;
  int64_t top = 0;
  fields.boolean("logprobs", wanted);
  const bool given = fields.integer("top_logprobs", 0, limits.top_logprobs, top);
  if (given && !wanted) fields.fail("'top_logprobs' needs \"logprobs\": true.", "top_logprobs");
  if (wanted) out = top;
}

bool is_text(const Json* value, std::string_view text) {
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == text;
}

/// Fields for which only the value without effect is accepted.
void read_fixed(Fields& fields) {
  if (const Json* format = fields.any("response_format")) {
    const auto type = format->is_object() ? format->find("type") : format->end();
    if (type == format->end() || !is_text(&*type, "text") || format->size() != 1) {
      fields.fail("'response_format' can only be {\"type\": \"text\"} for now.", "response_format",
                  "unsupported_value");
    }
  }
  if (const Json* modalities = fields.any("modalities")) {
    const bool one = modalities->is_array() && modalities->size() == 1;
    if (!one || !is_text(&modalities->front(), "text")) {
      fields.fail("'modalities' can only be [\"text\"].", "modalities", "unsupported_value");
    }
  }
  if (const Json* choice = fields.any("tool_choice")) {
    if (!is_text(choice, "none")) {
      fields.fail("'tool_choice' can only be \"none\": this server does not support tools yet.",
                  "tool_choice", "unsupported_value");
    }
  }
}

}  // namespace

std::optional<ApiError> parse_chat(std::string_view body, const Settings& defaults,
                                   const RequestLimits& limits, ChatRequest& out) {
  Json object;
  if (auto error = parse_object(body, {}, object)) return error;
  Fields fields(object, "");
  for (const auto* name : {"tools", "functions", "function_call", "parallel_tool_calls"}) {
    fields.refuse(name, "this server does not support tools yet");
  }
  fields.refuse("audio", "this model generates text only");
  fields.refuse("prediction", "the server chooses the drafts");
  fields.refuse("web_search_options", "this server has no web search");
  fields.refuse("verbosity", "no model here supports it");
  read_generation(fields, defaults, limits, out);
  // The newer name takes precedence if a client sends both.
  read_max_tokens(fields, "max_tokens", out);
  read_max_tokens(fields, "max_completion_tokens", out);
  read_reasoning(fields, out.settings);
  read_logprobs(fields, limits, out.logprobs);
  read_fixed(fields);
  read_messages(fields, limits, out.messages);
  if (!fields.failed()) check_conversation(fields, out.messages);
  read_template_kwargs(fields, out.template_kwargs);
  return fields.finish();
}

}  // namespace chimere::protocol
