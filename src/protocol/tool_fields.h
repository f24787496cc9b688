// The fields of tools and their calls. Internal to the module.
#ifndef CHIMERE_PROTOCOL_TOOL_FIELDS_H_
#define CHIMERE_PROTOCOL_TOOL_FIELDS_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/field_table.h"

namespace chimere::protocol {

extern const ObjectType<Tool> kToolType;
extern const ObjectType<ToolCall> kToolCallType;

void read_tool_calls(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                     ChatMessage& out);
void read_tool_choice(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                      ChatRequest& out);

void read_chat_tools(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                     ChatRequest& out);

/// The name of a tool.
void read_tool_name(Fields& fields, const FieldInfo& info, const RequestLimits& limits, Tool& out);
/// The schema of a tool's arguments.
void read_tool_schema(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                      Tool& out);

constexpr Field<Tool> tool_name_field() {
  return FieldsOf<Tool>::other(
      {.name = "name",
       .help = "From 1 to 128 letters, digits and characters of `_-.:/`; each name once",
       .required = true,
       .type_text = "text",
       .valid = R"(["f", "a.b:c/d_e-9"])",
       .invalid = R"(["", "a b", "<x>", 1])"},
      &read_tool_name);
}

constexpr Field<Tool> tool_schema_field(std::string_view name, bool required) {
  return FieldsOf<Tool>::other({.name = name,
                                .help = "JSON Schema of the arguments",
                                .required = required,
                                .default_value = required ? "" : "no arguments",
                                .type_text = "object",
                                .valid = R"([{}, {"type": "object", "properties": {"a": {}}}])",
                                .invalid = R"([1, [], "x"])"},
                               &read_tool_schema);
}

/// Collects the tools of a list that are left out: those of types that only servers with tools of
/// their own run, which clients offer to every server.
class LeftOutTools {
 public:
  /// Whether the tool is one of them: its `type` is a text other than `own`. False if the limits
  /// are strict, so that its parser refuses it.
  bool take(const Json& tool, std::string_view own, const RequestLimits& limits);
  /// Names them in one warning.
  void note(const RequestLimits& limits) const;

 private:
  size_t tools_ = 0;
  std::string names_;
};

/// The names of a list of tools, each of which may occur once.
class UniqueNames {
 public:
  /// Fails if there is one like it. `path`: where this one is.
  bool add(Fields& fields, const std::string& name, const std::string& path);

 private:
  std::set<std::string> names_;
};

struct ToolKind {
  std::string_view type;  ///< of the tools that are read; others are left out
  std::string_view name;  ///< where such a tool has its name
};

/// Reads a list of tools with different names.
template <const auto& kType>
void read_tools(Fields& fields, const FieldInfo& info, const RequestLimits& limits, ToolKind kind,
                std::vector<Tool>& out) {
  const Json* list = fields.list(info.name, 0, info.most(limits));
  if (list == nullptr) return;
  LeftOutTools left_out;
  UniqueNames names;
  for (size_t at = 0; at < list->size(); ++at) {
    const Json& tool = (*list)[at];
    if (left_out.take(tool, kind.type, limits)) continue;
    const std::string path = fields.path_of(info.name) + "[" + std::to_string(at) + "]";
    if (!read_object(kType, fields, tool, path, limits, out.emplace_back())) return;
    if (!names.add(fields, out.back().name, path + "." + std::string(kind.name))) return;
  }
  left_out.note(limits);
}

/// Fails for a choice of a tool that does not exist.
void check_tools(Fields& fields, const ChatRequest& request);

constexpr Field<ChatMessage> tool_calls_field() {
  return FieldsOf<ChatMessage>::other(
      {.name = "tool_calls",
       .help = "Of an assistant's message: the calls that it made; `[]` is the same as none",
       .limit = &RequestLimits::tool_calls,
       .type_text = "list of objects",
       .valid = R"([[], [{"function": {"name": "f", "arguments": "{}"}}]])",
       .invalid = R"([1, {}, [1], [{}], [{"function": {"name": "f", "arguments": 1}}]])",
       .with = R"("role": "assistant")",
       .members = &describe<kToolCallType>},
      &read_tool_calls);
}

constexpr Field<ChatRequest> tools_field() {
  return FieldsOf<ChatRequest>::other(
      {.name = "tools",
       .help = "[Functions](serving.md#tools) that the model may call; `[]` is the same as none; "
               "tools of other types are left out, with a warning",
       .limit = &RequestLimits::tools,
       .type_text = "list of objects",
       .valid = R"([[], [{"type": "function", "function": {"name": "g"}}]])",
       .invalid = R"([1, {}, [1], [{}], [{"function": {}}]])",
       .members = &describe<kToolType>},
      &read_chat_tools);
}

constexpr Field<ChatRequest> tool_choice_field() {
  return FieldsOf<ChatRequest>::other(
      {.name = "tool_choice",
       .help =
           "`none`: no calls, `required` or `any`: at least one call, an object: a call of that "
           "function; the last two only with `tools`",
       .default_value = "`auto`",
       .type_text = "`\"auto\"`, `\"none\"`, `\"required\"`, `\"any\"` or object",
       .valid = R"(["auto", "none", "required", "any", {"type": "any"},
                    {"type": "function", "function": {"name": "f"}}])",
       .invalid = R"(["some", 1, [], {}, {"type": "function", "function": {"name": "g"}}])",
       .with = R"("tools": [{"type": "function", "function": {"name": "f"}}])"},
      &read_tool_choice);
}

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_TOOL_FIELDS_H_
