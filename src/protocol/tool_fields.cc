#include "protocol/tool_fields.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace chimere::protocol {
namespace {

using ToolRow = FieldsOf<Tool>;
using CallRow = FieldsOf<ToolCall>;
using ChoiceRow = FieldsOf<ToolChoice>;

constexpr std::string_view kOnlyFunctions = "only functions are supported";

/// A member `type` with one value, which may be absent.
template <typename T>
constexpr Field<T> function_type() {
  return {{.name = "type",
           .help = "The only type of tool",
           .type_text = "`\"function\"`",
           .valid = R"(["function"])",
           .invalid = R"(["custom", 1])"},
          [](Fields& f, const FieldInfo& i, const RequestLimits&, T&) {
            std::string type;
            if (f.text(i.name, type) && type != "function") {
              f.fail("'" + f.path_of(i.name) +
                         "' must be \"function\": " + std::string(kOnlyFunctions) + ".",
                     i.name, "unsupported_value");
            }
          }};
}

constexpr auto kFunctionRows = std::to_array<ToolRow::Row>({
    tool_name_field(),
    ToolRow::text<&Tool::description>(
        {.name = "description", .help = "Passed to the template, for the model"}),
    tool_schema_field("parameters", false),
    ToolRow::boolean<&Tool::strict>(
        {.name = "strict",
         .help = "The arguments of a call are always valid under the schema",
         .default_value = "false"}),
});
constexpr ObjectType<Tool> kFunctionType{kFunctionRows};

constexpr auto kToolRows = std::to_array<ToolRow::Row>({
    function_type<Tool>(),
    ToolRow::other({.name = "function",
                    .help = "The function",
                    .required = true,
                    .type_text = "object",
                    .valid = R"([{"name": "f"}])",
                    .invalid = R"([1, {}, []])",
                    .members = &describe<kFunctionType>},
                   [](Fields& f, const FieldInfo& i, const RequestLimits& limits, Tool& out) {
                     const Json* value = f.any(i.name);
                     if (value == nullptr) return f.missing(i.name);
                     read_object(kFunctionType, f, *value, f.path_of(i.name), limits, out);
                   }),
});

/// A text of JSON, as the API has it, or the object itself, as some clients send it.
void read_arguments(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    ToolCall& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  if (value->is_string()) {
    out.arguments = value->get<std::string>();
  } else if (value->is_object()) {
    out.arguments = to_text(*value);
  } else {
    fields.fail("'" + fields.path_of(info.name) + "' must be a text, the JSON of an object.",
                info.name, "invalid_type");
  }
}

constexpr auto kCallFunctionRows = std::to_array<CallRow::Row>({
    CallRow::text<&ToolCall::name>(
        {.name = "name", .help = "The name of the function", .required = true}),
    CallRow::other({.name = "arguments",
                    .help = "The arguments as the text of a JSON object",
                    .default_value = "no arguments",
                    .type_text = "text or object",
                    .valid = R"(["{}", "{\"a\": 1}", {"a": 1}])",
                    .invalid = R"([1, []])"},
                   &read_arguments),
});
constexpr ObjectType<ToolCall> kCallFunctionType{kCallFunctionRows};

constexpr auto kCallRows = std::to_array<CallRow::Row>({
    CallRow::text<&ToolCall::id>({.name = "id", .help = "The id that the call had"}),
    function_type<ToolCall>(),
    CallRow::other({.name = "function",
                    .help = "The call",
                    .required = true,
                    .type_text = "object",
                    .valid = R"([{"name": "f"}])",
                    .invalid = R"([1, {}, []])",
                    .members = &describe<kCallFunctionType>},
                   [](Fields& f, const FieldInfo& i, const RequestLimits& limits, ToolCall& out) {
                     const Json* value = f.any(i.name);
                     if (value == nullptr) return f.missing(i.name);
                     read_object(kCallFunctionType, f, *value, f.path_of(i.name), limits, out);
                   }),
    // Of streams; clients that collect the chunks of a call may send it back.
    CallRow::no_effect("index"),
});

constexpr auto kNamedRows = std::to_array<ChoiceRow::Row>({
    ChoiceRow::text<&ToolChoice::name>({.name = "name", .help = "Its name", .required = true}),
});
constexpr ObjectType<ToolChoice> kNamedType{kNamedRows};

constexpr auto kToolChoiceRows = std::to_array<ChoiceRow::Row>({
    function_type<ToolChoice>(),
    ChoiceRow::other(
        {.name = "function", .required = true},
        [](Fields& f, const FieldInfo& i, const RequestLimits& limits, ToolChoice& out) {
          const Json* value = f.any(i.name);
          if (value == nullptr) return f.missing(i.name);
          read_object(kNamedType, f, *value, f.path_of(i.name), limits, out);
        }),
});
constexpr ObjectType<ToolChoice> kToolChoiceType{kToolChoiceRows};

}  // namespace

constexpr ObjectType<Tool> kToolType{kToolRows};
constexpr ObjectType<ToolCall> kToolCallType{kCallRows};

void read_tool_name(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    Tool& out) {
  if (!fields.text(info.name, out.name)) return fields.missing(info.name);
  constexpr size_t kLongest = 128;
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/";
  const bool valid = !out.name.empty() && out.name.size() <= kLongest &&
                     out.name.find_first_not_of(kLetters) == std::string::npos;
  if (valid) return;
  fields.fail("'" + fields.path_of(info.name) +
                  "' must have from 1 to 128 letters, digits and characters of \"_-.:/\".",
              info.name);
}

void read_tool_schema(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                      Tool& out) {
  const Json* schema = fields.any(info.name);
  if (schema == nullptr) {
    if (info.required) fields.missing(info.name);
    return;
  }
  if (!schema->is_object()) {
    return fields.fail("'" + fields.path_of(info.name) + "' must be an object, a JSON Schema.",
                       info.name, "invalid_type");
  }
  out.parameters = to_text(*schema);
}

void read_tool_calls(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                     ChatMessage& out) {
  const Json* list = fields.list(info.name, 0, info.most(limits));
  if (list == nullptr) return;
  const std::string path = fields.path_of(info.name);
  if (!list->empty() && out.role != "assistant") {
    return fields.fail("'" + path + "' can only be in a message of the assistant.", info.name);
  }
  for (size_t at = 0; at < list->size(); ++at) {
    ToolCall& call = out.tool_calls.emplace_back();
    const std::string item = path + "[" + std::to_string(at) + "]";
    if (!read_object(kToolCallType, fields, (*list)[at], item, limits, call)) return;
  }
}

void read_tool_choice(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                      ChatRequest& out) {
  using Kind = ToolChoice::Kind;
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  const std::string wrong =
      "'tool_choice' must be auto, none, required or an object that names a function.";
  // Anthropic's form, too: {"type": "any"}.
  const auto type = value->is_object() ? value->find("type") : value->end();
  const bool word = type != value->end() && type->is_string() && *type != "function";
  if (value->is_object() && !word) {
    out.tool_choice.kind = Kind::kNamed;
    read_object(kToolChoiceType, fields, *value, fields.path_of(info.name), limits,
                out.tool_choice);
    return;
  }
  if (!word && !value->is_string()) return fields.fail(wrong, info.name, "invalid_type");
  const auto& text = (word ? *type : *value).get_ref<const std::string&>();
  if (text == "none") {
    out.tool_choice.kind = Kind::kNone;
  } else if (text == "required" || text == "any") {
    out.tool_choice.kind = Kind::kRequired;
  } else if (text != "auto") {
    fields.fail(wrong, info.name);
  }
}

bool UniqueNames::add(Fields& fields, const std::string& name, const std::string& path) {
  if (names_.insert(name).second) return true;
  fields.fail("'" + path + "' is the name of another tool, too; give each its own.", path);
  return false;
}

bool LeftOutTools::take(const Json& tool, std::string_view own, const RequestLimits& limits) {
  if (limits.strict_fields || !tool.is_object()) return false;
  const auto type = tool.find("type");
  if (type == tool.end() || !type->is_string()) return false;
  if (type->get_ref<const std::string&>() == own) return false;
  constexpr size_t kMostNamed = 16;
  constexpr size_t kLongestName = 64;
  if (tools_++ < kMostNamed) {
    const auto name = tool.find("name");
    const bool named = name != tool.end() && name->is_string();
    const auto& shown = (named ? *name : *type).get_ref<const std::string&>();
    names_ += (names_.empty() ? "'" : ", '") + shown.substr(0, kLongestName) + "'";
  }
  return true;
}

void LeftOutTools::note(const RequestLimits& limits) const {
  if (tools_ == 0 || limits.notes == nullptr) return;
  limits.notes->changed.push_back({"tools", "The model does not see " + std::to_string(tools_) +
                                                " of the 'tools' (" + names_ +
                                                "): it can only call the client's own functions."});
}

void read_chat_tools(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                     ChatRequest& out) {
  read_tools<kToolType>(fields, info, limits, {"function", "function.name"}, out.tools);
}

void check_tools(Fields& fields, const ChatRequest& request) {
  const ToolChoice& choice = request.tool_choice;
  const auto has = [&](const std::string& name) {
    return std::ranges::find(request.tools, name, &Tool::name) != request.tools.end();
  };
  if (choice.kind == ToolChoice::Kind::kRequired && request.tools.empty()) {
    return fields.fail("'tool_choice' is required, but the request has no 'tools'.", "tool_choice");
  }
  if (choice.kind == ToolChoice::Kind::kNamed && !has(choice.name)) {
    fields.fail("'tool_choice' names a function that is not in 'tools'.",
                "tool_choice.function.name");
  }
}

}  // namespace chimere::protocol
