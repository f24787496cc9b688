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
};

using Part = FieldsOf<ContentPart>;
using Message = FieldsOf<ChatMessage>;

void read_part_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    ContentPart& out) {
  if (!fields.text(info.name, out.type)) fields.missing(info.name);
  if (!fields.failed() && out.type != "text") {
    fields.fail(
        "'" + fields.path_of(info.name) + "' must be \"text\"; this model accepts no other parts.",
        info.name, "unsupported_content");
  }
}

constexpr auto kPartRows = std::to_array<Part::Row>({
    Part::other({.name = "type",
                 .help = "The only type of part that the models accept",
                 .required = true,
                 .type_text = "`\"text\"`",
                 .valid = R"(["text"])",
                 .invalid = R"(["image_url", 1])"},
                &read_part_type),
    Part::text<&ContentPart::text>({.name = "text", .help = "The text", .required = true}),
});
constexpr ObjectType<ContentPart> kPartType{kPartRows};

void read_role(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
               ChatMessage& out) {
  const std::string path = fields.path_of(info.name);
  if (!fields.text(info.name, out.role)) fields.missing(info.name);
  if (out.role == "developer") out.role = "system";  // templates use the older name
  constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool"};
  if (out.role == "function") {
    fields.fail("'" + path + "' cannot be function, which is deprecated; use tool.", info.name,
                "unsupported_value");
  } else if (std::ranges::find(kRoles, out.role) == std::end(kRoles)) {
    fields.fail("'" + path + "' must be system, developer, user, assistant or tool.", info.name);
  }
}

void read_tool_call_id(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                       ChatMessage& out) {
  if (out.role == "tool") fields.text(info.name, out.tool_call_id);
}

void read_reasoning_content(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                            ChatMessage& out) {
  if (out.role == "assistant") fields.text(info.name, out.reasoning_content);
}

/// A text, or a list of parts, all of type "text".
void read_content(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                  ChatMessage& out) {
  const Json* content = fields.any(info.name);
  const std::string path = fields.path_of(info.name);
  if (content == nullptr) {
    const bool other = !out.reasoning_content.empty() || !out.tool_calls.empty();
    if (out.role != "assistant" || !other) fields.missing(info.name);
    return;
  }
  if (content->is_string()) {
    out.content = content->get<std::string>();
    return;
  }
  if (!content->is_array() || content->empty()) {
    return fields.fail("'" + path + "' must be a text or a list of parts.", info.name,
                       "invalid_type");
  }
  for (size_t i = 0; i < content->size(); ++i) {
    ContentPart part;
    const std::string part_path = path + "[" + std::to_string(i) + "]";
    if (!read_object(kPartType, fields, (*content)[i], part_path, limits, part)) return;
    out.content += part.text;
  }
}

constexpr auto kMessageRows = std::to_array<Message::Row>({
    Message::other({.name = "role",
                    .help = "`developer` is the same as `system`",
                    .required = true,
                    .type_text = "`system`, `developer`, `user`, `assistant` or `tool`",
                    .valid = R"(["system", "developer", "user", "tool"])",
                    .invalid = R"(["king", "function", 1])"},
                   &read_role),
    Message::text<&ChatMessage::name>({.name = "name", .help = "Passed to the template"}),
    Message::other({.name = "reasoning_content",
                    .help = "Of an assistant's message; passed to the template",
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
    Message::other(
        {.name = "content",
         .help = "Not blank in a message of the user; may be absent from a message of the "
                 "assistant that has `reasoning_content` or `tool_calls`",
         .required = true,
         .type_text = "text or list of parts",
         .valid = R"(["hi", [{"type": "text", "text": "a"}]])",
         .invalid = R"([[], 1, ["a"], [{"type": "image_url", "image_url": {}}]])",
         .members = &describe<kPartType>},
        &read_content),
    Message::refused("function_call", "it is deprecated; use `tool_calls`"),
    Message::refused("refusal", "refusals are part of the text here"),
    Message::refused("audio", "this model accepts text only"),
    Message::refused("annotations", "this model accepts text only"),
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
  out = to_text(*value);
}

}  // namespace chimere::protocol
