#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "protocol/generation_fields.h"
#include "protocol/messages.h"
#include "protocol/request_types.h"
#include "protocol/tool_fields.h"

namespace chimere::protocol {
namespace {

using Chat = FieldsOf<ChatRequest>;

/// Checks that the conversation is one that a generation can follow.
void check_conversation(Fields& fields, const RequestLimits& /*limits*/, const ChatRequest& out) {
  constexpr std::string_view kBlank = " \t\r\n";
  for (size_t i = 0; i < out.messages.size(); ++i) {
    const ChatMessage& m = out.messages[i];
    if (m.role != "user" || m.content.find_first_not_of(kBlank) != std::string::npos) continue;
    const std::string path = "messages[" + std::to_string(i) + "].content";
    fields.fail("'" + path + "' is empty; give the message a text, or leave it out.", path,
                "empty_content");
  }
  check_continued(fields, out);
  check_tools(fields, out);
}

void read_chat_limit(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     ChatRequest& out) {
  read_max_tokens(fields, info.name, out);
}

void set_reasoning(Fields& fields, const FieldInfo& info, const std::string& value,
                   ChatRequest& out) {
  out.given.push_back(settings::kReasoning.name);
  const Status status = out.settings.set(settings::kReasoning, value, fields.path_of(info.name));
  if (!status.ok()) fields.fail(status.error().message, info.name);
}

void read_effort(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                 ChatRequest& out) {
  std::string effort;
  if (!fields.text(info.name, effort)) return;
  const std::initializer_list<std::string_view> efforts = {"none", "minimal", "low", "medium",
                                                           "high"};
  if (std::ranges::find(efforts, effort) == efforts.end()) {
    return fields.fail(
        "'reasoning_effort' must be none, minimal, low, medium or high; 'thinking_budget' takes a "
        "number of tokens.",
        info.name);
  }
  if (fields.any("thinking_budget") != nullptr) {
    return fields.fail(
        "'reasoning_effort' and 'thinking_budget' both limit the reasoning; give one of them.",
        "thinking_budget", "conflicting_fields");
  }
  set_reasoning(fields, info, effort == "minimal" ? "low" : effort, out);
}

void read_chat_think(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     ChatRequest& out) {
  if (fields.any(info.name) == nullptr) return;
  for (const char* other : {"reasoning_effort", "thinking_budget"}) {
    if (fields.any(other) == nullptr) continue;
    return fields.fail("'" + std::string(info.name) + "' and '" + other +
                           "' both limit the reasoning; give one of them.",
                       info.name, "conflicting_fields");
  }
  read_think(fields, info.name, out);
}

void read_budget(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 ChatRequest& out) {
  int64_t budget = 0;
  if (!fields.integer(info.name, static_cast<int64_t>(info.min), info.most(limits), budget)) return;
  set_reasoning(fields, info, std::to_string(budget), out);
}

void read_top_logprobs(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                       ChatRequest& out) {
  int64_t top = 0;
  const bool given =
      fields.integer(info.name, static_cast<int64_t>(info.min), info.most(limits), top);
  if (given && out.logprobs < 0) {
    fields.fail("'top_logprobs' needs \"logprobs\": true.", info.name);
  }
  if (given) out.logprobs = top;
}

void read_chat_logprobs(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                        ChatRequest& out) {
  bool wanted = false;
  fields.boolean(info.name, wanted);
  if (wanted) out.logprobs = 0;
}

/// A field for which only the value without effect is accepted; `info.valid` is a list of it.
void read_fixed(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                ChatRequest& /*out*/) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  const Json accepted = Json::parse(info.valid);
  if (*value == accepted.front()) return;
  const std::string name(info.name);
  fields.fail("'" + name + "' can only be " + to_text(accepted.front()) + ": " +
                  std::string(info.help) + ".",
              info.name, "unsupported_value");
}

void read_orchestration(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                        ChatRequest& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  const auto wrong = [&](const std::string& what) {
    fields.fail("'odo' " + what + ".", info.name, "invalid_value");
  };
  if (!value->is_object())
    return fields.fail("'odo' must be an object.", info.name, "invalid_type");
  for (const auto& [key, member] : value->items()) {
    if (key == "mode") {
      const std::string mode = member.is_string() ? member.get<std::string>() : "";
      if (mode != "auto" && mode != "fast" && mode != "quality" && mode != "ultra") {
        return wrong("has a 'mode' that is none of auto, fast, quality and ultra");
      }
      out.orchestration.mode = mode;
    } else if (key == "collections") {
      const bool texts = member.is_array() &&
                         std::ranges::all_of(member, [](const Json& v) { return v.is_string(); });
      if (!texts || static_cast<int64_t>(member.size()) > limits.collections) {
        return wrong("must have at most " + std::to_string(limits.collections) +
                     " names in 'collections'");
      }
      out.orchestration.collections = member.get<std::vector<std::string>>();
    } else {
      return wrong("has the members 'mode' and 'collections' only, not '" + key + "'");
    }
  }
}

constexpr auto kChatRows = std::to_array<Chat::Row>({
    messages_field<ChatRequest>({.help = "The conversation; a last message of the assistant is "
                                         "[continued](serving.md#continued-messages)",
                                 .required = true}),
    Chat::include<kGenerationType>(),
    Chat::other(
        {.name = "max_tokens",
         .help = "Maximum number of tokens to generate; what exceeds the context is reduced, "
                 "with a [warning](serving.md#warnings)",
         .default_value = "`--max-tokens`",
         .type_text = "whole number from 1",
         .valid = "[1, 2147483647]",
         .invalid = R"([0, -5, 1.5, "x"])"},
        &read_chat_limit),
    Chat::other({.name = "max_completion_tokens",
                 .help = "The newer name of `max_tokens`; an error if the two differ",
                 .default_value = "`--max-tokens`",
                 .type_text = "whole number from 1",
                 .valid = "[1, 2147483647]",
                 .invalid = R"([0, -5, 1.5, "x"])"},
                &read_chat_limit),
    Chat::other({.name = "reasoning_effort",
                 .help = "[Reasoning](thinking.md); `minimal` is the same as `low`",
                 .default_value = "`--reasoning`",
                 .type_text = "`none`, `minimal`, `low`, `medium` or `high`",
                 .valid = R"(["none", "minimal", "low", "medium", "high"])",
                 .invalid = R"(["extreme", 1])"},
                &read_effort),
    Chat::other({.name = "thinking_budget",
                 .help = "Limit of the reasoning in tokens; not together with `reasoning_effort`",
                 .max = 1 << 24,
                 .default_value = "`--reasoning`",
                 .type_text = "whole number from 0 to 16777216",
                 .valid = "[0, 48, 16777216]",
                 .invalid = R"([-1, 16777217, 1.5, "x"])"},
                &read_budget),
    Chat::other(
        {.name = "logprobs",
         .help = "Log-probabilities of the model's distribution (mixed with n-gram tables, if "
                 "there are any) before biases, penalties and temperature; for reasoning "
                 "tokens, too",
         .default_value = "false",
         .type_text = "true or false",
         .valid = "[true, false]",
         .invalid = R"([1, "x"])"},
        &read_chat_logprobs),
    Chat::other({.name = "top_logprobs",
                 .help = "Also those of so many most likely tokens; only with `logprobs`",
                 .limit = &RequestLimits::top_logprobs,
                 .default_value = "0",
                 .type_text = "whole number from 0 to 20",
                 .valid = "[0, 20]",
                 .invalid = R"([-1, 21, 1.5, "x"])",
                 .with = R"("logprobs": true)"},
                &read_top_logprobs),
    Chat::other({.name = "think",
                 .help = "The same as `reasoning_effort`; true: without a limit, false: `none`",
                 .default_value = "`--reasoning`",
                 .type_text = "true, false or an effort",
                 .valid = R"([true, false, "low", "high"])",
                 .invalid = R"([1, "x", []])"},
                &read_chat_think),
    template_kwargs_field<ChatRequest>(),
    Chat::other({.name = "modalities",
                 .help = "the models generate text only",
                 .type_text = "`[\"text\"]`",
                 .valid = R"([["text"]])",
                 .invalid = R"([["audio"], ["text", "text"], [], "text"])"},
                &read_fixed),
    tools_field(),
    tool_choice_field(),
    Chat::boolean<&ChatRequest::parallel_tool_calls>(
        {.name = "parallel_tool_calls",
         .help = "Whether one generation may have several calls",
         .default_value = "true"}),
    Chat::other({.name = "odo",
                 .help = "Of the [orchestrated models](orchestrator.md) `odo` and `odo:PIPELINE`: "
                         "`mode` (`auto`, `fast`, `quality` or `ultra`) and `collections` (names)",
                 .type_text = "object",
                 .valid = R"([{}, {"mode": "fast"}, {"mode": "auto", "collections": ["man"]}])",
                 .invalid = R"([1, [], {"mode": "slow"}, {"mode": 1}, {"collections": "man"},
                                {"collections": [1]}, {"other": 1}])"},
                &read_orchestration),
    Chat::refused("functions", "it is deprecated; use `tools`"),
    Chat::refused("function_call", "it is deprecated; use `tool_choice`"),
    Chat::refused("audio", "this model generates text only"),
    Chat::refused("prediction", "the server chooses the drafts"),
    Chat::refused("web_search_options", "this server has no web search"),
    Chat::refused("verbosity", "no model here supports it"),
});

}  // namespace

constexpr ObjectType<ChatRequest> kChatType{kChatRows, &check_conversation};

std::optional<ApiError> parse_chat(std::string_view body, const Settings& defaults,
                                   const RequestLimits& limits, ChatRequest& out) {
  out = {};
  out.settings = defaults;
  return parse_body(kChatType, body, with_unknown(limits, false, out), out, kDeepJson);
}

}  // namespace chimere::protocol
