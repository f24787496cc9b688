// Requests of OpenAI's Responses API.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "protocol/carried_reasoning.h"
#include "protocol/generation_fields.h"
#include "protocol/output_format.h"
#include "protocol/request_types.h"
#include "protocol/tool_fields.h"

namespace chimere::protocol {
namespace {

/// A member of `input`, of any type.
struct Item {
  std::string type = "message";
  std::string role;
  std::string text;       ///< of a message
  std::string reasoning;  ///< of a reasoning item
  std::string call_id;
  std::string name;
  std::string arguments;
  std::string output;  ///< of a call
};

struct Part {
  std::string type;
  std::string text;
};

using PartRow = FieldsOf<Part>;
using ItemRow = FieldsOf<Item>;
using Row = FieldsOf<ResponsesRequest>;

constexpr std::string_view kPartTypes[] = {"input_text", "output_text", "text", "reasoning_text",
                                           "summary_text"};

void read_part_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    Part& out) {
  if (!fields.text(info.name, out.type)) return fields.missing(info.name);
  if (std::ranges::find(kPartTypes, out.type) != std::end(kPartTypes)) return;
  fields.fail("'" + fields.path_of(info.name) +
                  "' must be input_text or output_text; the models accept no other parts.",
              info.name, "unsupported_content");
}

constexpr auto kPartRows = std::to_array<PartRow::Row>({
    PartRow::other({.name = "type",
                    .help = "The models accept text only",
                    .required = true,
                    .type_text = "`\"input_text\"` or `\"output_text\"`",
                    .valid = R"(["input_text", "output_text"])",
                    .invalid = R"(["input_image", "input_file", 1])"},
                   &read_part_type),
    PartRow::text<&Part::text>({.name = "text", .help = "The text", .required = true}),
    PartRow::no_effect("annotations"),
    PartRow::no_effect("logprobs"),
});
constexpr ObjectType<Part> kPartType{kPartRows};

/// A text, or parts, which are joined.
void read_parts(Fields& fields, std::string_view name, const Json& value,
                const RequestLimits& limits, std::string& out) {
  if (value.is_string()) {
    out += value.get<std::string>();
    return;
  }
  const std::string path = fields.path_of(name);
  if (!value.is_array()) {
    return fields.fail("'" + path + "' must be a text or a list of parts.", name, "invalid_type");
  }
  for (size_t i = 0; i < value.size(); ++i) {
    Part part;
    const std::string at = path + "[" + std::to_string(i) + "]";
    if (!read_object(kPartType, fields, value[i], at, limits, part)) return;
    out += part.text;
  }
}

void read_item_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    Item& out) {
  fields.text(info.name, out.type);
  constexpr std::string_view kTypes[] = {"message", "function_call", "function_call_output",
                                         "reasoning"};
  if (std::ranges::find(kTypes, out.type) != std::end(kTypes)) return;
  fields.fail("'" + fields.path_of(info.name) +
                  "' must be message, function_call, function_call_output or reasoning; this "
                  "server has no other items.",
              info.name, "unsupported_value");
}

void read_item_role(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    Item& out) {
  if (!fields.text(info.name, out.role)) {
    if (out.type == "message") fields.missing(info.name);
    return;
  }
  if (out.role == "developer") out.role = "system";  // templates use the older name
  if (out.role == "system" || out.role == "user" || out.role == "assistant") return;
  fields.fail("'" + fields.path_of(info.name) + "' must be system, developer, user or assistant.",
              info.name);
}

void read_item_content(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                       Item& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) {
    if (out.type == "message") fields.missing(info.name);
    return;
  }
  const bool message = out.type == "message";
  std::string& text = message ? out.text : out.reasoning;
  read_parts(fields, info.name, *value, limits, text);
  if (fields.failed() || out.role != "user" || !message) return;
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    fields.fail("'" + fields.path_of(info.name) + "' is empty; give the message a text.", info.name,
                "empty_content");
  }
}

/// Only where the item has no whole reasoning.
void read_summary(Fields& fields, const FieldInfo& info, const RequestLimits& limits, Item& out) {
  const Json* value = fields.any(info.name);
  std::string summary;
  if (value != nullptr) read_parts(fields, info.name, *value, limits, summary);
  if (out.reasoning.empty()) out.reasoning = std::move(summary);
}

/// Of a reasoning that the client sends back without its text.
void read_encrypted_content(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                            Item& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr || !value->is_string() || !out.reasoning.empty()) return;
  if (auto reasoning = carried_reasoning(value->get_ref<const std::string&>())) {
    out.reasoning = *std::move(reasoning);
  }
}

void read_call_output(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                      Item& out) {
  const Json* value = fields.any(info.name);
  if (value != nullptr) return read_parts(fields, info.name, *value, limits, out.output);
  if (out.type == "function_call_output") fields.missing(info.name);
}

template <std::string Item::*kMember>
void read_of_call(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                  Item& out) {
  const bool needed =
      out.type == "function_call" || (out.type == "function_call_output" && info.name == "call_id");
  if (!fields.text(info.name, out.*kMember) && needed) fields.missing(info.name);
}

constexpr auto kItemRows = std::to_array<ItemRow::Row>({
    ItemRow::other({.name = "type"}, &read_item_type),
    ItemRow::other({.name = "role"}, &read_item_role),
    ItemRow::other({.name = "content"}, &read_item_content),
    ItemRow::other({.name = "encrypted_content"}, &read_encrypted_content),
    ItemRow::other({.name = "summary"}, &read_summary),
    ItemRow::other({.name = "call_id"}, &read_of_call<&Item::call_id>),
    ItemRow::other({.name = "name"}, &read_of_call<&Item::name>),
    ItemRow::other({.name = "arguments"}, &read_of_call<&Item::arguments>),
    ItemRow::other({.name = "output"}, &read_call_output),
    ItemRow::no_effect("id"),
    ItemRow::no_effect("status"),
    ItemRow::no_effect("phase"),
    ItemRow::no_effect("parsed_arguments"),
});
constexpr ObjectType<Item> kItemType{kItemRows};

/// Of messages, for the reference.
constexpr auto kMessageItemRows = std::to_array<ItemRow::Row>({
    ItemRow::other({.name = "role",
                    .help = "`developer` is the same as `system`",
                    .required = true,
                    .type_text = "`system`, `developer`, `user` or `assistant`",
                    .valid = R"(["user", "system", "assistant"])",
                    .invalid = R"(["king", "tool", 1])"},
                   &read_item_role),
    ItemRow::other({.name = "content",
                    .help = "The text",
                    .required = true,
                    .type_text = "text or list of parts",
                    .valid = R"(["hi", [{"type": "input_text", "text": "a"}]])",
                    .invalid = R"([1, ["a"], " ", [{"type": "input_image"}]])",
                    .members = &describe<kPartType>},
                   &read_item_content),
});
constexpr ObjectType<Item> kMessageItemType{kMessageItemRows};

/// Items that the assistant made one after the other are one message of it.
void add_item(const Item& item, std::vector<ChatMessage>& out) {
  const bool by_assistant =
      item.type == "function_call" || item.type == "reasoning" || item.role == "assistant";
  if (item.type == "function_call_output") {
    ChatMessage& message = out.emplace_back();
    message.role = "tool";
    message.content = item.output;
    message.tool_call_id = item.call_id;
    return;
  }
  const bool goes_on =
      by_assistant && !out.empty() && out.back().role == "assistant" &&
      (item.type != "reasoning" || (out.back().content.empty() && out.back().tool_calls.empty()));
  ChatMessage& message = goes_on ? out.back() : out.emplace_back();
  message.role = by_assistant ? "assistant" : item.role;
  message.content += item.text;
  message.reasoning_content += item.reasoning;
  if (item.type == "function_call") {
    message.tool_calls.push_back({item.call_id, item.name, item.arguments});
  }
}

void read_input(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                ResponsesRequest& out) {
  const Json* input = fields.any(info.name);
  if (input == nullptr) return fields.missing(info.name);
  out.input = to_text(*input);
  if (input->is_string()) {
    ChatMessage& message = out.messages.emplace_back();
    message.role = "user";
    message.content = input->get<std::string>();
    if (message.content.find_first_not_of(" \t\r\n") == std::string::npos) {
      fields.fail("'input' is empty; give it a text.", info.name, "empty_content");
    }
    return;
  }
  const Json* list = fields.list(info.name, 1, limits.messages);
  if (list == nullptr) return;
  for (size_t i = 0; i < list->size(); ++i) {
    Item item;
    const std::string path = fields.path_of(info.name) + "[" + std::to_string(i) + "]";
    if (!read_object(kItemType, fields, (*list)[i], path, limits, item)) return;
    add_item(item, out.messages);
  }
  if (out.messages.back().role == "assistant") {
    fields.fail(
        "'input' must not end with an item of the assistant; end with a message of the "
        "user or the output of a call.",
        info.name, "unsupported_value");
  }
}

// Tools

using ToolRow = FieldsOf<Tool>;

void read_tool_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    Tool& /*out*/) {
  std::string type;
  if (!fields.text(info.name, type)) return fields.missing(info.name);
  if (type == "function") return;
  fields.fail("'" + fields.path_of(info.name) +
                  "' must be \"function\": this server runs no tools of its own.",
              info.name, "unsupported_value");
}

constexpr auto kToolRows = std::to_array<ToolRow::Row>({
    ToolRow::other({.name = "type",
                    .help = "Only the client's own functions",
                    .required = true,
                    .type_text = "`\"function\"`",
                    .valid = R"(["function"])",
                    .invalid = R"(["web_search", "mcp", 1])"},
                   &read_tool_type),
    tool_name_field(),
    ToolRow::text<&Tool::description>(
        {.name = "description", .help = "Passed to the template, for the model"}),
    tool_schema_field("parameters", false),
    ToolRow::boolean<&Tool::strict>(
        {.name = "strict",
         .help = "The arguments of a call are always valid under the schema",
         .default_value = "false"}),
});
constexpr ObjectType<Tool> kFlatToolType{kToolRows};

void read_response_tools(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                         ResponsesRequest& out) {
  read_tools<kFlatToolType>(fields, info, limits, {"function", "name"}, out.tools);
}

void read_choice(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                 ResponsesRequest& out) {
  using Kind = ToolChoice::Kind;
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  const bool function = value->is_object() && value->value("type", Json()) == "function" &&
                        value->contains("name") && (*value)["name"].is_string();
  if (function) {
    out.tool_choice = {Kind::kNamed, (*value)["name"].get<std::string>()};
  } else if (*value == "none") {
    out.tool_choice.kind = Kind::kNone;
  } else if (*value == "required") {
    out.tool_choice.kind = Kind::kRequired;
  } else if (*value != "auto") {
    fields.fail(
        "'tool_choice' must be auto, none, required or an object with the type function and a "
        "name.",
        info.name,
        value->is_string() || value->is_object() ? ErrorCode("invalid_value") : "invalid_type");
  }
}

void check_responses(Fields& fields, const RequestLimits& /*limits*/, const ResponsesRequest& out) {
  const ToolChoice& choice = out.tool_choice;
  if (choice.kind == ToolChoice::Kind::kRequired && out.tools.empty()) {
    return fields.fail("'tool_choice' is required, but the request has no 'tools'.", "tool_choice");
  }
  if (choice.kind == ToolChoice::Kind::kNamed &&
      std::ranges::find(out.tools, choice.name, &Tool::name) == out.tools.end()) {
    fields.fail("'tool_choice' names a function that is not in 'tools'.", "tool_choice");
  }
}

// Reasoning, text and what has one value only

void read_reasoning_effort(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                           ResponsesRequest& out) {
  std::string effort;
  if (!fields.text(info.name, effort)) return;
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
  if (std::ranges::find(kEfforts, effort) == std::end(kEfforts)) {
    return fields.fail(
        "'" + fields.path_of(info.name) + "' must be none, minimal, low, medium, high or xhigh.",
        info.name);
  }
  if (effort == "minimal") effort = "low";
  if (effort == "xhigh") return turn_reasoning_on(out);
  out.given.push_back(settings::kReasoning.name);
  const Status status = out.settings.set(settings::kReasoning, effort, fields.path_of(info.name));
  if (!status.ok()) fields.fail(status.error().message, info.name);
}

constexpr auto kReasoningRows = std::to_array<Row::Row>({
    Row::other({.name = "effort",
                .help = "[Reasoning](thinking.md); `minimal` is `low`, `xhigh` has no limit",
                .default_value = "`--reasoning`",
                .type_text = "`none`, `minimal`, `low`, `medium`, `high` or `xhigh`",
                .valid = R"(["none", "minimal", "high", "xhigh"])",
                .invalid = R"(["extreme", 1])"},
               &read_reasoning_effort),
    Row::no_effect("summary"),
    Row::no_effect("generate_summary"),
});
constexpr ObjectType<ResponsesRequest> kReasoningType{kReasoningRows};

void read_format(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 ResponsesRequest& out) {
  read_flat_format(fields, info.name, limits, out.format);
}

constexpr auto kTextRows = std::to_array<Row::Row>({
    Row::other({.name = "format",
                .help = "[Form of the output](serving.md#structured-output)",
                .default_value = "`{\"type\": \"text\"}`",
                .type_text = "object",
                .valid = R"([{"type": "text"}, {"type": "json_object"},
                    {"type": "json_schema", "name": "n", "schema": {}, "strict": true}])",
                .invalid = R"([1, [], {}, {"type": "xml"}, {"type": "json_schema"}])"},
               &read_format),
    Row::no_effect("verbosity"),
});
constexpr ObjectType<ResponsesRequest> kTextType{kTextRows};

template <const auto& kType>
void read_member(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 ResponsesRequest& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  read_object(kType, fields, *value, fields.path_of(info.name), limits, out);
}

void read_output_limit(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                       ResponsesRequest& out) {
  read_max_tokens(fields, info.name, out);
}

void read_background(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     ResponsesRequest& /*out*/) {
  bool background = false;
  if (!fields.boolean(info.name, background) || !background) return;
  fields.fail("'background' can only be false: a response ends with its connection here.",
              info.name, "unsupported_value");
}

void read_truncation(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     ResponsesRequest& /*out*/) {
  std::string truncation;
  if (!fields.text(info.name, truncation) || truncation == "disabled") return;
  fields.fail(
      "'truncation' can only be \"disabled\": this server leaves no items out; a prompt "
      "that does not fit is an error.",
      info.name, "unsupported_value");
}

void read_response_top_logprobs(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                                ResponsesRequest& out) {
  int64_t top = 0;
  if (fields.integer(info.name, 0, info.most(limits), top) && top > 0) out.logprobs = top;
}

void read_include(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                  ResponsesRequest& out) {
  const Json* list = fields.list(info.name, 0, 16);
  if (list == nullptr) return;
  for (const Json& name : *list) {
    if (name == "reasoning.encrypted_content") {
      out.carry_reasoning = true;
      continue;
    }
    if (name == "message.output_text.logprobs") {
      out.logprobs = std::max<int64_t>(out.logprobs, 0);
      continue;
    }
    return fields.fail(
        "'include' can only have \"message.output_text.logprobs\" and "
        "\"reasoning.encrypted_content\".",
        info.name, "unsupported_value");
  }
}

constexpr auto kResponsesRows = std::to_array<Row::Row>({
    Row::other({.name = "input",
                .help = "A message of the user, or [items](responses.md#items)",
                .required = true,
                .limit = &RequestLimits::messages,
                .type_text = "text or list of items",
                .valid = R"(["hi", [{"role": "user", "content": "hi"}]])",
                .invalid = R"([[], {}, 1, " ", [{"type": "computer_call"}]])",
                .members = &describe<kMessageItemType>},
               &read_input),
    Row::text<&ResponsesRequest::model>(
        {.name = "model",
         .help = "The name of the served model; another name is the error `model_not_found`",
         .default_value = "the served model"}),
    Row::text<&ResponsesRequest::instructions>(
        {.name = "instructions", .help = "A first message of the system, of this response only"}),
    Row::text<&ResponsesRequest::previous>(
        {.name = "previous_response_id",
         .help = "A [stored response](responses.md#stored-responses) whose conversation this one "
                 "continues"}),
    Row::boolean<&ResponsesRequest::store>(
        {.name = "store",
         .help = "Whether the response is stored, if the server has a store",
         .default_value = "true"}),
    Row::other({.name = "tools",
                .help = "[Functions](serving.md#tools) that the model may call; tools of other "
                        "types are left out, with a warning",
                .limit = &RequestLimits::tools,
                .type_text = "list of objects",
                .valid = R"([[], [{"type": "function", "name": "g"}]])",
                .invalid = R"([1, {}, [1], [{}], [{"type": "web_search"}]])",
                .members = &describe<kFlatToolType>},
               &read_response_tools),
    Row::other({.name = "tool_choice",
                .help = "Whether there are calls",
                .default_value = "`auto`",
                .type_text = "`\"auto\"`, `\"none\"`, `\"required\"` or object",
                .valid = R"(["auto", "none", "required", {"type": "function", "name": "f"}])",
                .invalid = R"(["any", 1, [], {}, {"type": "function", "name": "g"}])",
                .with = R"("tools": [{"type": "function", "name": "f"}])"},
               &read_choice),
    Row::boolean<&ResponsesRequest::parallel_tool_calls>(
        {.name = "parallel_tool_calls",
         .help = "Whether one response may have several calls",
         .default_value = "true"}),
    Row::other({.name = "max_output_tokens",
                .help = "Maximum number of tokens to generate, reasoning included; what exceeds "
                        "the context is reduced, with a [warning](serving.md#warnings)",
                .default_value = "`--max-tokens`",
                .type_text = "whole number from 1",
                .valid = "[1, 2147483647]",
                .invalid = R"([0, -5, 1.5, "x"])"},
               &read_output_limit),
    Row::other({.name = "reasoning",
                .help = "Limit of the reasoning",
                .type_text = "object",
                .valid = R"([{}, {"effort": "low"}])",
                .invalid = R"([1, []])",
                .members = &describe<kReasoningType>},
               &read_member<kReasoningType>),
    Row::other({.name = "text",
                .help = "The form of the text",
                .type_text = "object",
                .valid = R"([{}, {"format": {"type": "text"}}])",
                .invalid = R"([1, []])",
                .members = &describe<kTextType>},
               &read_member<kTextType>),
    Row::boolean<&ResponsesRequest::stream>(
        {.name = "stream",
         .help = "The response is sent as [events](responses.md#streams)",
         .default_value = "false"}),
    Row::include<kSamplingType>(),
    Row::include<kCacheScopeType>(),
    Row::other({.name = "background",
                .help = "A response ends with its connection",
                .type_text = "false",
                .valid = "[false]",
                .invalid = R"([true, 1])"},
               &read_background),
    Row::other({.name = "truncation",
                .help = "The server leaves nothing out of a prompt",
                .type_text = "`\"disabled\"`",
                .valid = R"(["disabled"])",
                .invalid = R"(["auto", 1])"},
               &read_truncation),
    Row::other({.name = "include",
                .help = "Log-probabilities of the tokens of messages; the reasoning in a form "
                        "that [clients send back](responses.md#items)",
                .type_text = "list of `\"message.output_text.logprobs\"` and "
                             "`\"reasoning.encrypted_content\"`",
                .valid = R"([[], ["reasoning.encrypted_content"],
                    ["message.output_text.logprobs"]])",
                .invalid = R"([["file_search_call.results"], 1])"},
               &read_include),
    Row::other({.name = "top_logprobs",
                .help = "Log-probabilities of the tokens of messages, and of so many most likely "
                        "others",
                .limit = &RequestLimits::top_logprobs,
                .default_value = "0",
                .type_text = "whole number",
                .valid = "[0, 20]",
                .invalid = R"([-1, 21, 1.5, "x"])"},
               &read_response_top_logprobs),
    Row::no_effect("metadata"),
    Row::no_effect("service_tier"),
    Row::no_effect("safety_identifier"),
    Row::no_effect("prompt_cache_retention"),
    Row::no_effect("stream_options"),
    Row::no_effect("max_tool_calls"),
    Row::refused("conversation", "this server keeps no conversations; use `previous_response_id`"),
    Row::refused("prompt", "this server has no prompts of its own"),
    Row::refused("context_management", "this server leaves nothing out of a prompt"),
});

/// The tools of the request that the model sees, with all members of the API.
Json echoed_tools(const Json& tools) {
  Json out = Json::array();
  for (const Json& tool : tools) {
    if (!tool.is_object() || tool.value("type", Json()) != "function") continue;
    Json& echoed = out.emplace_back(Json{{"type", "function"},
                                         {"name", nullptr},
                                         {"description", nullptr},
                                         {"parameters", nullptr},
                                         {"strict", nullptr}});
    echoed.update(tool);
  }
  return out;
}

/// What a response repeats of its request, with the defaults of the API.
std::string echo_of(const Json& body, const ResponsesRequest& request) {
  Json out = {{"presence_penalty", request.settings.get(settings::kPresencePenalty)},
              {"frequency_penalty", request.settings.get(settings::kFrequencyPenalty)},
              {"max_tool_calls", nullptr},
              {"instructions", nullptr},
              {"max_output_tokens", nullptr},
              {"metadata", Json::object()},
              {"parallel_tool_calls", request.parallel_tool_calls},
              {"previous_response_id", nullptr},
              {"prompt_cache_key", nullptr},
              {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
              {"safety_identifier", nullptr},
              {"service_tier", "default"},
              {"temperature", request.settings.get(settings::kTemperature)},
              {"text", {{"format", {{"type", "text"}}}}},
              {"tool_choice", "auto"},
              {"tools", Json::array()},
              {"top_logprobs", std::max<int64_t>(request.logprobs, 0)},
              {"top_p", request.settings.get(settings::kTopP)},
              {"truncation", "disabled"},
              {"user", nullptr}};
  for (const auto& [name, value] : out.items()) {
    constexpr std::string_view kOwn[] = {"service_tier",      "temperature",      "top_p",
                                         "frequency_penalty", "presence_penalty", "top_logprobs"};
    if (std::ranges::find(kOwn, name) != std::end(kOwn)) continue;
    if (!body.contains(name) || body[name].is_null()) continue;
    if (name == "reasoning" || name == "text") {
      out[name].update(body[name]);
    } else {
      out[name] = body[name];
    }
  }
  out["tools"] = echoed_tools(out["tools"]);
  return to_text(out);
}

}  // namespace

constexpr ObjectType<ResponsesRequest> kResponsesType{kResponsesRows, &check_responses};

std::optional<ApiError> parse_responses(std::string_view body, const Settings& defaults,
                                        const RequestLimits& limits, ResponsesRequest& out) {
  out = {};
  out.settings = defaults;
  const RequestLimits own = with_notes(limits, out);
  Json object;
  if (auto error = parse_object(body, kDeepJson, object)) return error;
  Fields fields(object, "");
  kResponsesType.read(fields, own, out);
  if (auto error = fields.finish(own)) return error;
  out.echo = echo_of(object, out);
  return std::nullopt;
}

}  // namespace chimere::protocol
