#include "protocol/messages.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "protocol/tool_fields.h"

namespace chimere::protocol {
namespace {

struct ContentPart {
  std::string type;
  std::string text;
  std::string refusal;
};

using Part = FieldsOf<ContentPart>;
using Message = FieldsOf<ChatMessage>;

void read_part_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    ContentPart& out) {
  if (!fields.text(info.name, out.type)) fields.missing(info.name);
  constexpr std::string_view kTypes[] = {"text", "input_text", "output_text", "refusal"};
  if (!fields.failed() && std::ranges::find(kTypes, out.type) == std::end(kTypes)) {
    fields.fail(
        "'" + fields.path_of(info.name) + "' must be \"text\"; this model accepts no other parts.",
        info.name, "unsupported_content");
  }
}

constexpr auto kPartRows = std::to_array<Part::Row>({
    Part::other({.name = "type",
                 .help = "The only type of part that the models accept",
                 .required = true,
                 .type_text = "`\"text\"`; also `input_text`, `output_text` and `refusal`",
                 .valid = R"(["text", "input_text", "output_text"])",
                 .invalid = R"(["image_url", 1])"},
                &read_part_type),
    Part::text<&ContentPart::text>({.name = "text", .help = "The text"}),
    Part::text<&ContentPart::refusal>({.name = "refusal", .help = "The text of a refusal"}),
});
constexpr ObjectType<ContentPart> kPartType{kPartRows};

void read_role(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
               ChatMessage& out) {
  const std::string path = fields.path_of(info.name);
  if (!fields.text(info.name, out.role)) fields.missing(info.name);
  if (out.role == "developer") out.role = "system";  // templates use the older name
  if (out.role == "function") out.role = "tool";
  constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool"};
  if (std::ranges::find(kRoles, out.role) == std::end(kRoles)) {
    fields.fail("'" + path + "' must be system, developer, user, assistant or tool.", info.name);
  }
}

void read_tool_call_id(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                       ChatMessage& out) {
  if (out.role == "tool") fields.text(info.name, out.tool_call_id);
}

void read_reasoning_content(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                            ChatMessage& out) {
  std::string text;
  const bool given = fields.any(info.name) != nullptr && out.role == "assistant";
  if (given && fields.text(info.name, text) && out.reasoning_content.empty()) {
    out.reasoning_content = std::move(text);
  }
}

/// What OpenAI's client sends back in place of the content.
void read_refusal(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                  ChatMessage& out) {
  std::string text;
  if (fields.text(info.name, text) && out.content.empty()) out.content = std::move(text);
}

/// A text, or a list of parts, all of type "text".
void read_content(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                  ChatMessage& out) {
  const Json* content = fields.any(info.name);
  const std::string path = fields.path_of(info.name);
  if (content == nullptr) return;
  if (content->is_string()) {
    out.content = content->get<std::string>();
    return;
  }
  if (!content->is_array()) {
    return fields.fail("'" + path + "' must be a text or a list of parts.", info.name,
                       "invalid_type");
  }
  for (size_t i = 0; i < content->size(); ++i) {
    ContentPart part;
    const std::string part_path = path + "[" + std::to_string(i) + "]";
    if (!read_object(kPartType, fields, (*content)[i], part_path, limits, part)) return;
    out.content += part.text + part.refusal;
  }
}

constexpr auto kMessageRows = std::to_array<Message::Row>({
    Message::other({.name = "role",
                    .help = "`developer` is the same as `system`, `function` as `tool`",
                    .required = true,
                    .type_text = "`system`, `developer`, `user`, `assistant` or `tool`",
                    .valid = R"(["system", "developer", "user", "tool", "function"])",
                    .invalid = R"(["king", 1])"},
                   &read_role),
    Message::text<&ChatMessage::name>({.name = "name", .help = "Passed to the template"}),
    Message::other({.name = "reasoning_content",
                    .help = "Of an assistant's message; passed to the template",
                    .type_text = "text",
                    .valid = R"(["hm"])",
                    .invalid = "[1]",
                    .with = R"("role": "assistant")"},
                   &read_reasoning_content),
    Message::other({.name = "reasoning",
                    .help = "The same as `reasoning_content`",
                    .type_text = "text",
                    .valid = R"(["hm"])",
                    .invalid = "[1]",
                    .with = R"("role": "assistant")"},
                   &read_reasoning_content),
    Message::other({.name = "thinking",
                    .help = "The same as `reasoning_content`",
                    .type_text = "text",
                    .valid = R"(["hm"])",
                    .invalid = "[1]",
                    .with = R"("role": "assistant")"},
                   &read_reasoning_content),
    tool_calls_field(),
    Message::other({.name = "tool_call_id",
                    .help = "Of a tool's message: the call that it is the result of",
                    .type_text = "text",
                    .valid = R"(["call_1"])",
                    .invalid = "[1]",
                    .with = R"("role": "tool")"},
                   &read_tool_call_id),
    Message::other({.name = "content",
                    .help = "May be null, absent or empty",
                    .type_text = "text or list of parts",
                    .valid = R"(["hi", "", [], [{"type": "text", "text": "a"}]])",
                    .invalid = R"([1, ["a"], [{"type": "image_url", "image_url": {}}]])",
                    .members = &describe<kPartType>},
                   &read_content),
    Message::other({.name = "refusal",
                    .help = "Taken for the content where that is empty",
                    .type_text = "text",
                    .valid = R"(["no"])",
                    .invalid = "[1]"},
                   &read_refusal),
    Message::refused("function_call", "it is deprecated; use `tool_calls`"),
    Message::refused("audio", "this model accepts text only"),
});

}  // namespace

constexpr ObjectType<ChatMessage> kMessageType{kMessageRows};

void read_template_kwargs(Fields& fields, std::string_view name, std::string& out) {
  const Json* value = fields.any(name);
  if (value == nullptr) return;
  if (!value->is_object()) {
    return fields.fail("'" + fields.path_of(name) + "' must be an object.", name, "invalid_type");
  }
  for (const char* set :
       {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}) {
    if (value->contains(set)) {
      return fields.fail(
          "'" + fields.path_of(name) + "' must not set '" + set + "': the server sets it.", name);
    }
  }
  const std::string text = to_text(*value);
  // What `think` and the like have set stays where the object says nothing of it.
  const bool set = !out.empty() && !value->contains("enable_thinking");
  out = !set || value->empty() ? text : out.substr(0, out.size() - 1) + "," + text.substr(1);
  if (set && value->empty()) out = R"({"enable_thinking":true})";
}

}  // namespace chimere::protocol
