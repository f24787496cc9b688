#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "protocol/foreign_values.h"
#include "protocol/generation_fields.h"
#include "protocol/history.h"
#include "protocol/messages.h"
#include "protocol/request_types.h"
#include "protocol/tool_fields.h"

namespace chimere::protocol {
namespace {

using Chat = FieldsOf<ChatRequest>;

/// Checks that the conversation is one that a generation can follow.
void check_conversation(Fields& fields, const RequestLimits& /*limits*/, const ChatRequest& out) {
  check_continued(fields, out);
  check_tools(fields, out);
  if (out.conversation.id.empty()) return;
  if (!out.stream) fields.fail("'conversation' needs \"stream\": true.", "conversation");
  if (out.n != 1) {
    fields.fail("A message of a conversation has one text; set 'n' to 1.", "n",
                "unsupported_value");
  }
}

void read_chat_limit(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     ChatRequest& out) {
  read_max_tokens(fields, info.name, out);
}

void read_effort(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                 ChatRequest& out) {
  std::string effort;
  if (!fields.text(info.name, effort) || effort.empty()) return;  // an empty field of a form
  if (effort_of(effort).empty()) {
    return fields.fail(
        "'reasoning_effort' must be none, minimal, low, medium, high, xhigh or max; "
        "'thinking_budget' takes a number of tokens.",
        info.name);
  }
  if (fields.any("thinking_budget") != nullptr) {
    return fields.fail(
        "'reasoning_effort' and 'thinking_budget' both limit the reasoning; give one of them.",
        "thinking_budget", "conflicting_fields");
  }
  set_reasoning(fields, info.name, effort_of(effort), out);
}

bool has_own_limit(Fields& fields) {
  const auto given = [&](const char* name) {
    const Json* const value = fields.any(name);
    return value != nullptr && *value != "";
  };
  return given("reasoning_effort") || given("thinking_budget") || given("think");
}

/// OpenRouter's `reasoning` and Anthropic's `thinking`.
struct ReasoningWish {
  std::string_view word;  ///< of effort_of(); empty: not given
  bool enabled = false;
  int64_t tokens = -1;
};
using Wish = FieldsOf<ReasoningWish>;

void read_wish_word(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    ReasoningWish& out) {
  std::string word;
  if (!fields.text(info.name, word) || word.empty()) return;
  if (effort_of(word).empty()) {
    return fields.fail("'" + fields.path_of(info.name) +
                           "' must be none, minimal, low, medium, high, xhigh, max, enabled, "
                           "adaptive or disabled.",
                       info.name);
  }
  out.word = effort_of(word);
}

constexpr auto kWishRows = std::to_array<Wish::Row>({
    Wish::other({.name = "type",
                 .help = "`enabled` and `adaptive`: without a limit; `disabled`: none",
                 .type_text = "text",
                 .valid = R"(["enabled", "disabled", "adaptive"])",
                 .invalid = R"(["x", 1])"},
                &read_wish_word),
    Wish::other({.name = "effort",
                 .help = "As `reasoning_effort`; goes before `type`",
                 .type_text = "text",
                 .valid = R"(["low", "none", "xhigh"])",
                 .invalid = R"(["x", 1])"},
                &read_wish_word),
    Wish::boolean<&ReasoningWish::enabled>(
        {.name = "enabled", .help = "true: without a limit; false: none"}),
    Wish::integer<&ReasoningWish::tokens>(
        {.name = "max_tokens", .help = "As `thinking_budget`", .max = 1 << 24}),
    Wish::integer<&ReasoningWish::tokens>(
        {.name = "budget_tokens", .help = "As `thinking_budget`", .max = 1 << 24}),
});
constexpr ObjectType<ReasoningWish> kWishType{kWishRows};

void read_wish(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
               ChatRequest& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr || has_own_limit(fields)) return;
  if (!value->is_object()) return read_think(fields, info.name, out);
  ReasoningWish wish;
  if (!read_object(kWishType, fields, *value, fields.path_of(info.name), limits, wish)) return;
  const auto enabled = value->find("enabled");
  if (wish.word.empty() && enabled != value->end() && !enabled->is_null()) {
    wish.word = wish.enabled ? "auto" : "none";
  }
  if (wish.tokens >= 0 && wish.word != "none") {
    set_reasoning(fields, info.name, std::to_string(wish.tokens), out);
  } else if (wish.word == "auto") {
    turn_reasoning_on(out);
  } else if (!wish.word.empty()) {
    set_reasoning(fields, info.name, wish.word, out);
  }
}

void read_enable_thinking(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                          ChatRequest& out) {
  bool on = false;
  if (!fields.boolean(info.name, on) || has_own_limit(fields)) return;
  if (on) {
    turn_reasoning_on(out);
  } else {
    set_reasoning(fields, info.name, "none", out);
  }
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
  set_reasoning(fields, info.name, std::to_string(budget), out);
}

void read_top_logprobs(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                       ChatRequest& out) {
  int64_t top = 0;
  const bool given =
      fields.integer(info.name, static_cast<int64_t>(info.min), info.most(limits), top);
  if (given && top > 0 && out.logprobs < 0) {
    fields.fail("'top_logprobs' needs \"logprobs\": true.", info.name);
  }
  if (given && out.logprobs >= 0) out.logprobs = top;
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
    } else if (key == "only_passages") {
      if (!member.is_boolean()) return wrong("must have true or false as 'only_passages'");
      out.orchestration.only_passages = member.get<bool>();
    } else {
      return wrong("has the members 'mode', 'collections' and 'only_passages' only, not '" + key +
                   "'");
    }
  }
}

using Conversation = FieldsOf<ConversationFields>;

template <auto kMember>
constexpr Conversation::Row place_row(FieldInfo info) {
  info.required = true;
  info.type_text = "id";
  info.valid = R"(["c-1"])";
  info.invalid = R"(["a/b", 1])";
  return Conversation::other(info, [](Fields& f, const FieldInfo& i, const RequestLimits&,
                                      ConversationFields& out) {
    if (!f.text(i.name, out.*kMember)) {
      f.missing(i.name);
    } else if (!is_history_id(out.*kMember)) {
      f.fail("'" + f.path_of(i.name) + "' must have 1 to 64 letters, digits, '-' and '_'.", i.name);
    }
  });
}

constexpr auto kConversationRows = std::to_array<Conversation::Row>({
    place_row<&ConversationFields::id>({.name = "id", .help = "The conversation"}),
    place_row<&ConversationFields::message>(
        {.name = "message", .help = "Its message, stored before, which the generation extends"}),
});
constexpr ObjectType<ConversationFields> kConversationFieldsType{kConversationRows};

constexpr auto kChatRows = std::to_array<Chat::Row>({
    messages_field<ChatRequest>({.help = "The conversation; a last message of the assistant is "
                                         "[continued](serving.md#continued-messages)",
                                 .required = true}),
    Chat::include<kGenerationType>(),
    Chat::other(
        {.name = "max_tokens",
         .help = "Maximum number of tokens to generate; -1: no limit; what exceeds the context is "
                 "reduced, with a [warning](serving.md#warnings)",
         .default_value = "`--max-tokens`",
         .type_text = "whole number from 1, or -1",
         .valid = "[1, -1, 2147483647, 42.0]",
         .invalid = R"([0, -5, 1.5, "x"])"},
        &read_chat_limit),
    Chat::other({.name = "max_completion_tokens",
                 .help = "The newer name of `max_tokens`; an error if the two differ",
                 .default_value = "`--max-tokens`",
                 .type_text = "whole number from 1, or -1",
                 .valid = "[1, -1, 2147483647]",
                 .invalid = R"([0, -5, 1.5, "x"])"},
                &read_chat_limit),
    Chat::other({.name = "n_predict",
                 .help = "llama.cpp's name of `max_tokens`",
                 .default_value = "`--max-tokens`",
                 .type_text = "whole number from 1, or -1",
                 .valid = "[1, -1]",
                 .invalid = R"([0, -5, 1.5, "x"])"},
                &read_chat_limit),
    Chat::other({.name = "reasoning_effort",
                 .help = "[Reasoning](thinking.md); `minimal` is the same as `low`",
                 .default_value = "`--reasoning`",
                 .type_text = "`none`, `minimal`, `low`, `medium`, `high`, `xhigh` (as `high`) or "
                              "`max` (no limit)",
                 .valid = R"(["none", "minimal", "low", "medium", "high", "xhigh", "max"])",
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
    Chat::other(
        {.name = "reasoning",
         .help = "OpenRouter's form of the limit, without effect beside `reasoning_effort`, "
                 "`thinking_budget` or `think`",
         .type_text = "object, or as `think`",
         .valid = R"([{"effort": "low"}, {"max_tokens": 64}, {"enabled": false}, {}, true])",
         .invalid = R"([1, [], "x", {"effort": "x"}])",
         .members = &describe<kWishType>},
        &read_wish),
    Chat::other({.name = "thinking",
                 .help = "Anthropic's form of the limit, in the same way",
                 .type_text = "object, or as `think`",
                 .valid = R"([{"type": "disabled"}, {"type": "enabled", "budget_tokens": 64}, {}])",
                 .invalid = R"([1, [], "x", {"type": "x"}])",
                 .members = &describe<kWishType>},
                &read_wish),
    Chat::other({.name = "enable_thinking",
                 .help = "true: reasoning without a limit, false: none; in the same way",
                 .type_text = "true or false",
                 .valid = "[true, false]",
                 .invalid = R"([1, "x", []])"},
                &read_enable_thinking),
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
                         "`mode` (`auto`, `fast`, `quality` or `ultra`), `collections` (names) and "
                         "`only_passages` (answer from their passages, or say that they do not "
                         "contain it)",
                 .type_text = "object",
                 .valid = R"([{}, {"mode": "fast"}, {"mode": "auto", "collections": ["man"]},
                              {"collections": ["man"], "only_passages": true}])",
                 .invalid = R"([1, [], {"mode": "slow"}, {"mode": 1}, {"collections": "man"},
                                {"collections": [1]}, {"only_passages": 1}, {"other": 1}])"},
                &read_orchestration),
    Chat::object<&ChatRequest::conversation, kConversationFieldsType>(
        {.name = "conversation",
         .help = "The generation continues without its client and is [stored in a "
                 "message](studio.md#answers-on-the-server) of the history; with `stream`",
         .valid = R"([{"id": "c", "message": "m"}])",
         .invalid = R"([1, [], {"id": "c"}, {"id": "a/b", "message": "m"}])",
         .with = R"("stream": true)"}),
    Chat::refused("functions", "it is deprecated; use `tools`"),
    Chat::refused("function_call", "it is deprecated; use `tool_choice`"),
    Chat::refused("audio", "this model generates text only"),
});

}  // namespace

constexpr ObjectType<ChatRequest> kChatType{kChatRows, &check_conversation};

std::optional<ApiError> parse_chat(std::string_view body, const Settings& defaults,
                                   const RequestLimits& limits, ChatRequest& out) {
  out = {};
  out.settings = defaults;
  return parse_body(kChatType, body, with_notes(limits, out), out, kDeepJson);
}

}  // namespace chimere::protocol
