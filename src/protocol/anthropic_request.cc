// Requests of Anthropic's Messages API.
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

/// A block of a message's content, of any type.
struct Block {
  std::string type;
  std::string text;
  std::string thinking;
  std::string id;
  std::string name;
  std::string input;        ///< JSON text of an object
  std::string tool_use_id;  ///< of a result
  std::string result;       ///< the text of a result
};

/// A message: a text, or blocks.
struct Turn {
  std::string role;
  std::vector<Block> blocks;
};

using BlockRow = FieldsOf<Block>;
using TurnRow = FieldsOf<Turn>;
using Row = FieldsOf<MessagesRequest>;

std::string field_name(const Fields& fields, std::string_view name) {
  return "'" + fields.path_of(name) + "'";
}

// Blocks

template <bool kText>
void read_block_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     Block& out) {
  if (!fields.text(info.name, out.type)) return fields.missing(info.name);
  constexpr std::string_view kTypes[] = {"text",     "tool_use",          "tool_result",
                                         "thinking", "redacted_thinking", "tool_reference"};
  const bool known =
      kText ? out.type == "text" : std::ranges::find(kTypes, out.type) != std::end(kTypes);
  if (known) return;
  fields.fail(field_name(fields, info.name) +
                  (kText ? " must be \"text\"; the models accept no other parts here."
                         : " must be text, thinking, tool_use or tool_result; the models accept no "
                           "images or documents."),
              info.name, "unsupported_content");
}

void read_block_text(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     Block& out) {
  if (!fields.text(info.name, out.text) && out.type == "text") fields.missing(info.name);
}

constexpr auto kTextBlockRows = std::to_array<BlockRow::Row>({
    BlockRow::other({.name = "type",
                     .help = "The type of the block; messages have "
                             "[further ones](anthropic.md#blocks)",
                     .required = true,
                     .type_text = "`\"text\"`",
                     .valid = R"(["text"])",
                     .invalid = R"(["image", 1])"},
                    &read_block_type<true>),
    BlockRow::other({.name = "text",
                     .help = "The text",
                     .required = true,
                     .type_text = "text",
                     .valid = R"(["a", ""])",
                     .invalid = "[1, []]"},
                    &read_block_text),
    BlockRow::no_effect("cache_control"),
    BlockRow::no_effect("citations"),
});
constexpr ObjectType<Block> kTextBlockType{kTextBlockRows};

/// A text, or text blocks, which are joined.
bool read_texts(Fields& fields, std::string_view name, const Json& value,
                const RequestLimits& limits, std::string_view separator, std::string& out) {
  if (value.is_string()) {
    out = value.get<std::string>();
    return true;
  }
  const std::string path = fields.path_of(name);
  if (!value.is_array()) {
    fields.fail("'" + path + "' must be a text or a list of text blocks.", name, "invalid_type");
    return false;
  }
  for (size_t i = 0; i < value.size(); ++i) {
    Block block;
    const std::string at = path + "[" + std::to_string(i) + "]";
    if (!read_object(kTextBlockType, fields, value[i], at, limits, block)) return false;
    if (i > 0) out += separator;
    out += block.text;
  }
  return true;
}

void read_block_thinking(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                         Block& out) {
  if (!fields.text(info.name, out.thinking) && out.type == "thinking") fields.missing(info.name);
}

/// Of a reasoning whose text the response left out.
void read_signature(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    Block& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr || !value->is_string() || !out.thinking.empty()) return;
  if (auto reasoning = carried_reasoning(value->get_ref<const std::string&>())) {
    out.thinking = *std::move(reasoning);
  }
}

template <std::string Block::*kMember, char kFirst>
void read_of_tool(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                  Block& out) {
  const std::string_view type = kFirst == 'u' ? "tool_use" : "tool_result";
  if (!fields.text(info.name, out.*kMember) && out.type == type) fields.missing(info.name);
}

void read_input(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                Block& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) {
    if (out.type == "tool_use") fields.missing(info.name);
    return;
  }
  if (!value->is_object()) {
    return fields.fail(field_name(fields, info.name) + " must be an object.", info.name,
                       "invalid_type");
  }
  out.input = to_text(*value);
}

void read_result(Fields& fields, const FieldInfo& info, const RequestLimits& limits, Block& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  if (!value->is_array()) {
    read_texts(fields, info.name, *value, limits, "\n", out.result);
    return;
  }
  // Newer clients name tools in results; the names are the text then.
  Json texts = Json::array();
  for (const Json& item : *value) {
    const bool reference = item.is_object() && item.value("type", Json()) == "tool_reference" &&
                           item.contains("tool_name") && item["tool_name"].is_string();
    texts.push_back(reference ? Json{{"type", "text"}, {"text", item["tool_name"]}} : item);
  }
  read_texts(fields, info.name, texts, limits, "\n", out.result);
}

constexpr auto kBlockRows = std::to_array<BlockRow::Row>({
    BlockRow::other({.name = "type"}, &read_block_type<false>),
    BlockRow::other({.name = "text"}, &read_block_text),
    BlockRow::other({.name = "thinking"}, &read_block_thinking),
    BlockRow::other({.name = "id"}, &read_of_tool<&Block::id, 'u'>),
    BlockRow::other({.name = "name"}, &read_of_tool<&Block::name, 'u'>),
    BlockRow::other({.name = "input"}, &read_input),
    BlockRow::other({.name = "tool_use_id"}, &read_of_tool<&Block::tool_use_id, 'r'>),
    BlockRow::other({.name = "content"}, &read_result),
    BlockRow::no_effect("is_error"),
    BlockRow::other({.name = "signature"}, &read_signature),
    BlockRow::no_effect("data"),
    BlockRow::no_effect("caller"),
    BlockRow::no_effect("cache_control"),
    BlockRow::no_effect("citations"),
});
constexpr ObjectType<Block> kBlockType{kBlockRows};

// Messages

void read_role(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/, Turn& out) {
  if (!fields.text(info.name, out.role)) return fields.missing(info.name);
  if (out.role == "user" || out.role == "assistant" || out.role == "system") return;
  fields.fail(field_name(fields, info.name) + " must be user, assistant or system.", info.name);
}

void read_turn_content(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                       Turn& out) {
  const Json* content = fields.any(info.name);
  if (content == nullptr) return fields.missing(info.name);
  const std::string path = fields.path_of(info.name);
  if (content->is_string()) {
    Block& block = out.blocks.emplace_back();
    block.type = "text";
    block.text = content->get<std::string>();
  } else if (content->is_array() && !content->empty()) {
    for (size_t i = 0; i < content->size(); ++i) {
      Block& block = out.blocks.emplace_back();
      const std::string at = path + "[" + std::to_string(i) + "]";
      if (!read_object(kBlockType, fields, (*content)[i], at, limits, block)) return;
      const bool of_assistant = block.type == "tool_use" || block.type.ends_with("thinking");
      const bool wrong = (of_assistant && out.role != "assistant") ||
                         (block.type == "tool_result" && out.role != "user");
      if (!wrong) continue;
      return fields.fail("'" + at + ".type' is " + block.type + ", which a message of the " +
                             (of_assistant ? "user" : out.role) + " cannot have.",
                         std::string(info.name) + "[" + std::to_string(i) + "].type");
    }
  } else {
    fields.fail("'" + path + "' must be a text or a list of blocks.", info.name, "invalid_type");
  }
}

constexpr auto kTurnRows = std::to_array<TurnRow::Row>({
    TurnRow::other({.name = "role",
                    .help = "Whose message it is",
                    .required = true,
                    .type_text = "`user`, `assistant` or `system`",
                    .valid = R"(["user", "assistant"])",
                    .invalid = R"(["king", "tool", 1])"},
                   &read_role),
    TurnRow::other({.name = "content",
                    .help = "The text, or [blocks](anthropic.md#blocks): `text`, `thinking` and "
                            "`tool_use` of the assistant, `text` and `tool_result` of the user",
                    .required = true,
                    .type_text = "text or list of blocks",
                    .valid = R"(["hi", [{"type": "text", "text": "a"}]])",
                    .invalid = R"([[], 1, ["a"], [{"type": "image", "source": {}}]])",
                    .members = &describe<kTextBlockType>},
                   &read_turn_content),
});
constexpr ObjectType<Turn> kTurnType{kTurnRows};

/// Adds a turn to the conversation: results become messages of the role tool.
void add_turn(const Turn& turn, std::vector<ChatMessage>& out) {
  if (turn.role == "assistant") {
    ChatMessage& message = out.emplace_back();
    message.role = turn.role;
    for (const Block& block : turn.blocks) {
      if (block.type == "text") message.content += block.text;
      if (block.type == "thinking") message.reasoning_content += block.thinking;
      if (block.type == "tool_use") {
        message.tool_calls.push_back({block.id, block.name, block.input});
      }
    }
    return;
  }
  for (const Block& block : turn.blocks) {
    if (block.type == "tool_result") {
      ChatMessage& message = out.emplace_back();
      message.role = "tool";
      message.content = block.result;
      message.tool_call_id = block.tool_use_id;
    } else if (!out.empty() && out.back().role == turn.role && &block != &turn.blocks.front()) {
      // Blocks of one message are paragraphs of its text.
      out.back().content += "\n" + block.text;
    } else {
      ChatMessage& message = out.emplace_back();
      message.role = turn.role;
      message.content = block.text;
    }
  }
}

void read_turns(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                MessagesRequest& out) {
  const Json* list = fields.list(info.name, 1, limits.messages);
  if (list == nullptr) return fields.missing(info.name);
  for (size_t i = 0; i < list->size(); ++i) {
    Turn turn;
    const std::string path = fields.path_of(info.name) + "[" + std::to_string(i) + "]";
    if (!read_object(kTurnType, fields, (*list)[i], path, limits, turn)) return;
    const auto blank = [](const Block& b) {
      return b.type == "text" && b.text.find_first_not_of(" \t\r\n") == std::string::npos;
    };
    if (turn.role == "user" && std::ranges::all_of(turn.blocks, blank)) {
      return fields.fail("'" + path + ".content' is empty; give the message a text.",
                         path + ".content", "empty_content");
    }
    add_turn(turn, out.messages);
  }
}

void read_system(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 MessagesRequest& out) {
  const Json* value = fields.any(info.name);
  std::string text;
  if (value == nullptr || !read_texts(fields, info.name, *value, limits, "\n", text)) return;
  if (text.empty()) return;
  ChatMessage system;
  system.role = "system";
  system.content = std::move(text);
  out.messages.insert(out.messages.begin(), std::move(system));
}

// Tools

void read_tool_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    Tool& /*out*/) {
  std::string type;
  if (!fields.text(info.name, type) || type == "custom") return;
  fields.fail(
      field_name(fields, info.name) + " must be \"custom\": this server runs no tools of its own.",
      info.name, "unsupported_value");
}

using ToolRow = FieldsOf<Tool>;
constexpr auto kToolRows = std::to_array<ToolRow::Row>({
    tool_name_field(),
    ToolRow::text<&Tool::description>(
        {.name = "description", .help = "Passed to the template, for the model"}),
    tool_schema_field("input_schema", true),
    ToolRow::boolean<&Tool::strict>({.name = "strict",
                                     .help = "The input of a call is always valid under the schema",
                                     .default_value = "false"}),
    ToolRow::other({.name = "type",
                    .help = "Only the client's own tools",
                    .type_text = "`\"custom\"`",
                    .valid = R"(["custom"])",
                    .invalid = R"(["web_search_20250305", 1])"},
                   &read_tool_type),
    ToolRow::no_effect("cache_control"),
    ToolRow::no_effect("eager_input_streaming"),
    ToolRow::no_effect("defer_loading"),
    ToolRow::no_effect("allowed_callers"),
    ToolRow::no_effect("input_examples"),
});
constexpr ObjectType<Tool> kAnthropicToolType{kToolRows};

void read_anthropic_tools(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                          MessagesRequest& out) {
  read_tools<kAnthropicToolType>(fields, info, limits, {"custom", "name"}, out.tools);
}

using ChoiceRow = FieldsOf<MessagesRequest>;

void read_choice_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                      MessagesRequest& out) {
  using Kind = ToolChoice::Kind;
  std::string type;
  if (!fields.text(info.name, type)) return fields.missing(info.name);
  if (type == "none") {
    out.tool_choice.kind = Kind::kNone;
  } else if (type == "any") {
    out.tool_choice.kind = Kind::kRequired;
  } else if (type == "tool") {
    out.tool_choice.kind = Kind::kNamed;
  } else if (type != "auto") {
    fields.fail(field_name(fields, info.name) + " must be auto, any, tool or none.", info.name);
  }
}

void read_choice_name(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                      MessagesRequest& out) {
  const bool named = out.tool_choice.kind == ToolChoice::Kind::kNamed;
  if (!fields.text(info.name, out.tool_choice.name) && named) fields.missing(info.name);
}

void read_disable_parallel(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                           MessagesRequest& out) {
  bool disable = false;
  if (fields.boolean(info.name, disable)) out.parallel_tool_calls = !disable;
}

constexpr auto kChoiceRows = std::to_array<ChoiceRow::Row>({
    ChoiceRow::other({.name = "type",
                      .help = "`any`: at least one call, `tool`: a call of the tool `name`",
                      .required = true,
                      .type_text = "`auto`, `any`, `tool` or `none`",
                      .valid = R"(["auto", "none", "any"])",
                      .invalid = R"(["required", 1])"},
                     &read_choice_type),
    ChoiceRow::other({.name = "name",
                      .help = "Of the type `tool`",
                      .type_text = "text",
                      .valid = R"(["f"])",
                      .invalid = R"([1, "no such tool"])",
                      .with = R"("type": "tool")"},
                     &read_choice_name),
    ChoiceRow::other({.name = "disable_parallel_tool_use",
                      .help = "At most one call",
                      .default_value = "false",
                      .type_text = "true or false",
                      .valid = "[true, false]",
                      .invalid = R"([1, "x"])"},
                     &read_disable_parallel),
});
constexpr ObjectType<MessagesRequest> kChoiceType{kChoiceRows};

void read_choice(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 MessagesRequest& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  if (!read_object(kChoiceType, fields, *value, fields.path_of(info.name), limits, out)) return;
  const auto& choice = out.tool_choice;
  const bool named = choice.kind == ToolChoice::Kind::kNamed;
  if ((named || choice.kind == ToolChoice::Kind::kRequired) && out.tools.empty()) {
    return fields.fail("'tool_choice' wants a call, but the request has no 'tools'.", info.name);
  }
  if (named && std::ranges::find(out.tools, choice.name, &Tool::name) == out.tools.end()) {
    fields.fail("'tool_choice.name' names a tool that is not in 'tools'.", "tool_choice.name");
  }
}

// The limit, reasoning and the form of the output

template <bool kRequired>
void read_limit(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                MessagesRequest& out) {
  if (kRequired && fields.any(info.name) == nullptr) return fields.missing(info.name);
  read_max_tokens(fields, info.name, out);
}

void read_stop_sequences(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                         MessagesRequest& out) {
  const Json* value = fields.any(info.name);
  if (value != nullptr && !value->is_array()) {
    return fields.fail("'stop_sequences' must be a list of texts.", info.name, "invalid_type");
  }
  read_stops(fields, info, limits, out);
}

struct Thinking {
  std::string type;
  int64_t budget = -1;
  std::string display;
};
using ThinkingRow = FieldsOf<Thinking>;

void read_thinking_budget(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                          Thinking& out) {
  fields.integer(info.name, static_cast<int64_t>(info.min), info.most(limits), out.budget);
}

constexpr auto kThinkingRows = std::to_array<ThinkingRow::Row>({
    ThinkingRow::text<&Thinking::type>(
        {.name = "type",
         .help = "`adaptive`: without a limit but `output_config.effort`",
         .required = true,
         .choices = {"enabled", "disabled", "adaptive"}}),
    ThinkingRow::other({.name = "budget_tokens",
                        .help = "Limit of the reasoning in tokens, with the type `enabled`",
                        .max = 1 << 24,
                        .type_text = "whole number from 0 to 16777216",
                        .valid = "[0, 1024]",
                        .invalid = R"([-1, 1.5, "x"])"},
                       &read_thinking_budget),
    ThinkingRow::text<&Thinking::display>(
        {.name = "display",
         .help = "`omitted`: the response has no text of the reasoning",
         .choices = {"summarized", "omitted"},
         .default_value = "`summarized`: all of it"}),
});
constexpr ObjectType<Thinking> kThinkingType{kThinkingRows};

void set_reasoning(Fields& fields, std::string_view field, const std::string& value,
                   MessagesRequest& out) {
  out.given.push_back(settings::kReasoning.name);
  const Status status = out.settings.set(settings::kReasoning, value, std::string(field));
  if (!status.ok()) fields.fail(status.error().message, field);
}

void read_thinking(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                   MessagesRequest& out) {
  const Json* value = fields.any(info.name);
  // As in Anthropic's API, there is no reasoning where none was asked for.
  if (value == nullptr) return set_reasoning(fields, info.name, "none", out);
  Thinking thinking;
  const std::string path = fields.path_of(info.name);
  if (!read_object(kThinkingType, fields, *value, path, limits, thinking)) return;
  if (thinking.type == "disabled") {
    set_reasoning(fields, info.name, "none", out);
  } else if (thinking.type == "enabled" && thinking.budget >= 0) {
    set_reasoning(fields, info.name, std::to_string(thinking.budget), out);
  } else {
    turn_reasoning_on(out);
  }
  out.show_thinking = thinking.display != "omitted";
}

void read_output_format(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                        MessagesRequest& out) {
  read_flat_format(fields, info.name, limits, out.format);
}

void read_effort(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                 MessagesRequest& out) {
  std::string effort;
  if (!fields.text(info.name, effort)) return;
  constexpr std::string_view kEfforts[] = {"low", "medium", "high", "xhigh", "max"};
  if (std::ranges::find(kEfforts, effort) == std::end(kEfforts)) {
    return fields.fail(field_name(fields, info.name) + " must be low, medium, high, xhigh or max.",
                       info.name);
  }
  // Only adaptive reasoning has no limit of its own. The two highest efforts have none, either.
  if (out.settings.get(settings::kReasoning) != "auto" || effort.size() < 3) return;
  if (effort != "max" && effort != "xhigh") set_reasoning(fields, info.name, effort, out);
}

constexpr std::string_view kFormats = R"([{"type": "json_schema", "schema": {"type": "object"}}])";

constexpr auto kOutputConfigRows = std::to_array<Row::Row>({
    Row::other({.name = "effort",
                .help = "Limit of the reasoning of the type `adaptive`",
                .type_text = "`low`, `medium`, `high`, `xhigh` or `max`",
                .valid = R"(["low", "high", "max"])",
                .invalid = R"(["x", 1])"},
               &read_effort),
    Row::other({.name = "format",
                .help = "A JSON Schema that the text is valid under",
                .type_text = "object",
                .valid = kFormats,
                .invalid = R"([1, {}, {"type": "xml"}, {"type": "json_schema"}])"},
               &read_output_format),
    Row::no_effect("task_budget"),
});
constexpr ObjectType<MessagesRequest> kOutputConfigType{kOutputConfigRows};

void read_output_config(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                        MessagesRequest& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  read_object(kOutputConfigType, fields, *value, fields.path_of(info.name), limits, out);
}

/// Edits that a server applies to a conversation. Clearing reasoning is left to the template.
void read_context_management(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                             MessagesRequest& /*out*/) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  const bool object = value->is_object();
  const Json edits = object ? value->value("edits", Json::array()) : Json();
  if (!edits.is_array()) {
    return fields.fail("'context_management' must be an object with a list of 'edits'.", info.name,
                       "invalid_type");
  }
  for (const Json& edit : edits) {
    const Json type = edit.is_object() ? edit.value("type", Json()) : Json();
    if (type.is_string() && type.get<std::string>().starts_with("clear_thinking_")) continue;
    return fields.fail(
        "'context_management.edits' can only have clear_thinking_20251015: the template decides "
        "which reasoning of earlier turns the model sees.",
        "context_management.edits", "unsupported_value");
  }
}

constexpr FieldInfo kLimitInfo{
    .name = "max_tokens",
    .help =
        "Maximum number of tokens to generate, reasoning included; what exceeds the context is "
        "reduced, with a [warning](serving.md#warnings)",
    .type_text = "whole number from 1",
    .valid = "[1, 2147483647]",
    .invalid = R"([0, -5, 1.5, "x"])"};

constexpr FieldInfo required(FieldInfo info) {
  info.required = true;
  return info;
}

constexpr auto kSharedRows = std::to_array<Row::Row>({
    Row::text<&MessagesRequest::model>(
        {.name = "model",
         .help = "The name of the served model; another name is a `not_found_error`",
         .default_value = "the served model"}),
    Row::other({.name = "messages",
                .help = "The conversation; a last message of the assistant is "
                        "[continued](serving.md#continued-messages)",
                .required = true,
                .limit = &RequestLimits::messages,
                .type_text = "list of objects",
                .valid = R"([[{"role": "user", "content": "hi"}]])",
                .invalid = R"([[], {}, "hi", 1, [{"role": "user", "content": " "}]])",
                .members = &describe<kTurnType>},
               &read_turns),
    Row::other({.name = "system",
                .help = "Instructions; blocks are paragraphs",
                .type_text = "text or list of text blocks",
                .valid = R"(["Be brief.", [{"type": "text", "text": "a"}]])",
                .invalid = R"([1, {}, [1]])",
                .members = &describe<kTextBlockType>},
               &read_system),
    Row::other({.name = "tools",
                .help = "[Tools](serving.md#tools) that the model may call; those that Anthropic "
                        "defines are left out, with a warning",
                .limit = &RequestLimits::tools,
                .type_text = "list of objects",
                .valid = R"([[], [{"name": "g", "input_schema": {"type": "object"}}]])",
                .invalid = R"([1, {}, [1], [{}]])",
                .members = &describe<kAnthropicToolType>},
               &read_anthropic_tools),
    Row::other({.name = "tool_choice",
                .help = "Whether there are calls",
                .default_value = "`{\"type\": \"auto\"}`",
                .type_text = "object",
                .valid = R"([{"type": "auto"}, {"type": "tool", "name": "f"}])",
                .invalid = R"(["auto", 1, {}, {"type": "tool", "name": "g"}, {"type": "tool"}])",
                .with = R"("tools": [{"name": "f", "input_schema": {}}])",
                .members = &describe<kChoiceType>},
               &read_choice),
    Row::other({.name = "thinking",
                .help = "[Reasoning](thinking.md)",
                .default_value = "`{\"type\": \"disabled\"}`",
                .type_text = "object",
                .valid = R"([{"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}])",
                .invalid = R"([1, {}, {"type": "x"}])",
                .members = &describe<kThinkingType>},
               &read_thinking),
    Row::other({.name = "output_config",
                .help = "Effort of the reasoning and form of the text",
                .type_text = "object",
                .valid = R"([{}, {"effort": "low"}])",
                .invalid = R"([1, []])",
                .members = &describe<kOutputConfigType>},
               &read_output_config),
    Row::other({.name = "output_format",
                .help = "The older name of `output_config.format`",
                .type_text = "object",
                .valid = kFormats,
                .invalid = R"([1, {}, {"type": "xml"}])"},
               &read_output_format),
    Row::other({.name = "context_management",
                .help = "Only `clear_thinking_20251015`, which the template does",
                .type_text = "object",
                .valid = R"([{}, {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}])",
                .invalid = R"([1, [], {"edits": [{"type": "clear_tool_uses_20250919"}]}])"},
               &read_context_management),
    Row::no_effect("cache_control"),
    Row::no_effect("betas"),
    Row::refused("mcp_servers", "this server connects to no tools of its own"),
    Row::refused("container", "this server runs no code"),
});
constexpr ObjectType<MessagesRequest> kSharedType{kSharedRows};

constexpr auto kMessagesRows = std::to_array<Row::Row>({
    Row::other(required(kLimitInfo), &read_limit<true>),
    Row::include<kSharedType>(),
    Row::include<kSamplingType>(),
    Row::other({.name = "stop_sequences",
                .help = "Texts that end the generation, at most 16 of 1 KiB each",
                .type_text = "list of texts",
                .valid = R"([["a", "b"], []])",
                .invalid = R"([[1], "a", 1])"},
               &read_stop_sequences),
    Row::boolean<&MessagesRequest::stream>(
        {.name = "stream",
         .help = "The generation is sent as [events](anthropic.md#streams)",
         .default_value = "false"}),
    Row::no_effect("metadata"),
    Row::no_effect("service_tier"),
    Row::no_effect("inference_geo"),
    Row::no_effect("speed"),
});

constexpr auto kCountRows = std::to_array<Row::Row>({
    Row::include<kSharedType>(),
    Row::other(kLimitInfo, &read_limit<false>),
});

/// Whether a request or a part of it asks for a cached prompt.
bool marks_cache(const Json& part) {
  if (part.is_array()) return std::ranges::any_of(part, &marks_cache);
  if (!part.is_object()) return false;
  if (!part.value("cache_control", Json()).is_null()) return true;
  constexpr const char* kParts[] = {"system", "tools", "messages", "content"};
  return std::ranges::any_of(kParts, [&](const char* name) {
    const auto inner = part.find(name);
    return inner != part.end() && marks_cache(*inner);
  });
}

void check_messages(Fields& fields, const RequestLimits& /*limits*/, const MessagesRequest& out) {
  check_continued(fields, out);
}

}  // namespace

constexpr ObjectType<MessagesRequest> kMessagesType{kMessagesRows, &check_messages};
constexpr ObjectType<MessagesRequest> kCountTokensType{kCountRows, &check_messages};

std::optional<ApiError> parse_messages(std::string_view body, const Settings& defaults,
                                       const RequestLimits& limits, bool counting,
                                       MessagesRequest& out) {
  out = {};
  out.settings = defaults;
  const RequestLimits own = with_notes(limits, out);
  Json object;
  if (auto error = parse_object(body, kDeepJson, object)) return error;
  Fields fields(object, "");
  (counting ? kCountTokensType : kMessagesType).read(fields, own, out);
  out.marks_cache = marks_cache(object);
  return fields.finish(own);
}

}  // namespace chimere::protocol
