#include "protocol/output_format.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace chimere::protocol {
namespace {

using Kind = OutputFormat::Kind;
using FormatRow = FieldsOf<OutputFormat>;
using Generation = FieldsOf<GenerationFields>;

/// Sets what the output must be. Fails if another field did so before.
void set_format(Fields& fields, const FieldInfo& info, Kind kind, OutputFormat& out) {
  const std::string path = fields.path_of(info.name);
  if (out.kind != Kind::kText) {
    return fields.fail("'" + path + "' and '" + out.field +
                           "' both say what the output must be; give one of them.",
                       info.name, "conflicting_fields");
  }
  out.kind = kind;
  out.field = path;
}

bool is_schema(const Json& value) { return value.is_object() || value.is_boolean(); }

/// A schema as vLLM and llama.cpp take it, too: as JSON, or as its text.
void read_schema_into(Fields& fields, const FieldInfo& info, const Json& value, OutputFormat& out) {
  if (!is_schema(value) && !value.is_string()) {
    return fields.fail("'" + fields.path_of(info.name) + "' must be a JSON Schema.", info.name,
                       "invalid_type");
  }
  out.text = value.is_string() ? value.get<std::string>() : to_text(value);
}

void read_schema_field(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                       OutputFormat& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  set_format(fields, info, Kind::kJsonSchema, out);
  read_schema_into(fields, info, *value, out);
}

/// A text that is the whole specification. An empty one is none, as for llama.cpp.
template <Kind kKind>
void read_text_field(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     OutputFormat& out) {
  std::string text;
  if (!fields.text(info.name, text) || text.empty()) return;
  set_format(fields, info, kKind, out);
  out.text = std::move(text);
}

void read_choices_field(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                        OutputFormat& out) {
  const Json* list = fields.list(info.name, 1, limits.output_choices);
  if (list == nullptr) return;
  if (!std::ranges::all_of(*list, [](const Json& v) { return v.is_string(); })) {
    return fields.fail("'" + fields.path_of(info.name) + "' must be a list of texts.", info.name,
                       "invalid_type");
  }
  set_format(fields, info, Kind::kChoice, out);
  out.choices = list->get<std::vector<std::string>>();
}

void read_json_object_field(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                            OutputFormat& out) {
  bool wanted = false;
  if (fields.boolean(info.name, wanted); wanted) set_format(fields, info, Kind::kJsonObject, out);
}

/// No white space in documents, as vLLM's field says it: the option of the schema, which every
/// reader of schemas knows. Behind the fields that set the format.
void read_compact_field(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                        OutputFormat& out) {
  bool compact = false;
  fields.boolean(info.name, compact);
  if (!compact) return;
  Json schema;
  if (out.kind == Kind::kJsonObject) {
    schema["type"] = "object";
  } else if (out.kind == Kind::kJsonSchema) {
    schema = Json::parse(out.text, nullptr, false);
    if (schema.is_boolean() && schema.get<bool>()) schema = Json::object();
  }
  if (!schema.is_object()) return;  // other formats have no white space of their own
  Json& guidance = schema["x-guidance"];
  if (guidance.is_null()) guidance = Json::object();
  if (!guidance.is_object()) return;  // refused with the schema
  guidance["whitespace_flexible"] = false;
  out.kind = Kind::kJsonSchema;
  out.text = to_text(schema);
}

// response_format

void read_format_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                      OutputFormat& out) {
  std::string type;
  if (!fields.text(info.name, type)) return fields.missing(info.name);
  if (type == "json_object") {
    out.kind = Kind::kJsonObject;
  } else if (type == "json_schema") {
    out.kind = Kind::kJsonSchema;
  } else if (type != "text") {
    fields.fail("'" + fields.path_of(info.name) + "' must be text, json_object or json_schema.",
                info.name);
  }
}

void read_schema(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                 OutputFormat& out) {
  const Json* schema = fields.any(info.name);
  if (schema == nullptr) return fields.missing(info.name);
  read_schema_into(fields, info, *schema, out);
}

/// The schema of a json_object as llama.cpp and others take it.
void read_object_schema(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                        OutputFormat& out) {
  const Json* schema = fields.any(info.name);
  if (schema == nullptr) return;
  if (out.kind != Kind::kJsonObject) {
    return fields.fail("'" + fields.path_of(info.name) +
                           "' belongs to the type json_object; the type json_schema has it in "
                           "'json_schema'.",
                       info.name);
  }
  out.kind = Kind::kJsonSchema;
  read_schema_into(fields, info, *schema, out);
}

constexpr auto kSchemaRows = std::to_array<FormatRow::Row>({
    FormatRow::text<&OutputFormat::name>({.name = "name", .help = "A name for the schema"}),
    FormatRow::text<&OutputFormat::description>(
        {.name = "description", .help = "What the schema is for"}),
    FormatRow::other({.name = "schema",
                      .help = "The JSON Schema",
                      .required = true,
                      .type_text = "object, or true or false",
                      .valid = R"([{}, {"type": "object"}, true])",
                      .invalid = R"([1, []])"},
                     &read_schema),
    FormatRow::boolean<&OutputFormat::strict>(
        {.name = "strict",
         .help = "The content is always valid, with either value",
         .default_value = "false"}),
});
constexpr ObjectType<OutputFormat> kSchemaType{kSchemaRows};

void read_json_schema(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                      OutputFormat& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) {
    if (out.kind == Kind::kJsonSchema) fields.missing(info.name);
    return;
  }
  read_object(kSchemaType, fields, *value, fields.path_of(info.name), limits, out);
}

constexpr auto kFormatRows = std::to_array<FormatRow::Row>({
    FormatRow::other({.name = "type",
                      .help = "The form",
                      .required = true,
                      .type_text = "`\"text\"`, `\"json_object\"` or `\"json_schema\"`",
                      .valid = R"(["text", "json_object"])",
                      .invalid = R"(["xml", 1])"},
                     &read_format_type),
    FormatRow::other({.name = "json_schema",
                      .help = "The schema of the type `json_schema`",
                      .type_text = "object",
                      .valid = R"([{"schema": {}}, {"name": "n", "schema": {"type": "object"}}])",
                      .invalid = R"([1, [], {}])",
                      .with = R"("type": "json_schema")",
                      .members = &describe<kSchemaType>},
                     &read_json_schema),
    FormatRow::other({.name = "schema",
                      .help = "A JSON Schema of the type `json_object`",
                      .type_text = "object, or true or false",
                      .valid = R"([{}, {"type": "object"}])",
                      .invalid = R"([1, []])",
                      .with = R"("type": "json_object")"},
                     &read_object_schema),
});
constexpr ObjectType<OutputFormat> kResponseFormatType{kFormatRows};

void read_response_format(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                          GenerationFields& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  out.format.field = info.name;
  read_object(kResponseFormatType, fields, *value, fields.path_of(info.name), limits, out.format);
}

// vLLM's

constexpr std::string_view kSchemaValues = R"([{}, true, "{\"type\": \"string\"}"])";
constexpr std::string_view kSchemaForms = "object, true, false, or a text of JSON";
constexpr std::string_view kGrammarValues = R"(["root ::= \"a\"", ""])";
constexpr std::string_view kChoiceValues = R"([["yes", "no"]])";
constexpr std::string_view kNoChoices = R"(["yes", [], [1]])";

constexpr auto kStructuredRows = std::to_array<FormatRow::Row>({
    FormatRow::other({.name = "json",
                      .help = "A document that is valid under this JSON Schema",
                      .type_text = kSchemaForms,
                      .valid = kSchemaValues,
                      .invalid = "[1, []]"},
                     &read_schema_field),
    FormatRow::other({.name = "json_object",
                      .help = "An object in JSON",
                      .default_value = "false",
                      .type_text = "true or false",
                      .valid = "[true, false]",
                      .invalid = "[1, {}]"},
                     &read_json_object_field),
    FormatRow::other({.name = "regex",
                      .help = "A match of this regular expression (ECMA-262) as a whole",
                      .type_text = "text",
                      .valid = R"(["[0-9]+"])",
                      .invalid = "[1, []]"},
                     &read_text_field<Kind::kRegex>),
    FormatRow::other({.name = "choice",
                      .help = "One of these texts, at most 10,000",
                      .type_text = "list of texts",
                      .valid = kChoiceValues,
                      .invalid = kNoChoices},
                     &read_choices_field),
    FormatRow::other({.name = "grammar",
                      .help = "A text of this grammar (GBNF)",
                      .type_text = "text",
                      .valid = kGrammarValues,
                      .invalid = "[1, []]"},
                     &read_text_field<Kind::kGrammar>),
    FormatRow::other({.name = "disable_any_whitespace",
                      .help = "No white space between the parts of a document in JSON",
                      .default_value = "false",
                      .type_text = "true or false",
                      .valid = "[true, false]",
                      .invalid = "[1, {}]"},
                     &read_compact_field),
});
constexpr ObjectType<OutputFormat> kStructuredType{kStructuredRows};

void read_structured(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                     GenerationFields& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  read_object(kStructuredType, fields, *value, fields.path_of(info.name), limits, out.format);
}

/// A reader of a format as that of a field of the request.
template <FormatRow::Reader kRead>
void read_format(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 GenerationFields& out) {
  kRead(fields, info, limits, out.format);
}

constexpr auto kOutputRows = std::to_array<Generation::Row>({
    Generation::other(
        {.name = "response_format",
         .help = "[Form of the output](serving.md#structured-output): text, an object in JSON, or "
                 "a document that is valid under a JSON Schema",
         .default_value = "`{\"type\": \"text\"}`",
         .type_text = "object",
         .valid = R"([{"type": "text"}, {"type": "json_object"},
             {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": true}}])",
         .invalid = R"([1, [], {}, {"type": "xml"}, {"type": "json_schema"},
             {"type": "json_schema", "json_schema": {"name": "n", "schema": 1}}])",
         .members = &describe<kResponseFormatType>},
        &read_response_format),
    Generation::other({.name = "json_schema",
                       .help = "The output is a document that is valid under this JSON Schema, as "
                               "in llama.cpp's server",
                       .type_text = kSchemaForms,
                       .valid = kSchemaValues,
                       .invalid = "[1, []]"},
                      &read_format<&read_schema_field>),
    Generation::other({.name = "grammar",
                       .help = "The output is a text of this grammar (GBNF), as in llama.cpp's "
                               "server; an empty text is none",
                       .type_text = "text",
                       .valid = kGrammarValues,
                       .invalid = "[1, []]"},
                      &read_format<&read_text_field<Kind::kGrammar>>),
    Generation::other({.name = "structured_outputs",
                       .help = "What the output must be, as in vLLM; one member",
                       .type_text = "object",
                       .valid = R"([{}, {"regex": "a+"}, {"choice": ["a", "b"]}, {"json": {}}])",
                       .invalid = R"([1, [], {"regex": 1}, {"regex": "a", "choice": ["a"]}])",
                       .members = &describe<kStructuredType>},
                      &read_structured),
    Generation::other({.name = "guided_json",
                       .help = "The older name of `structured_outputs.json`",
                       .type_text = kSchemaForms,
                       .valid = kSchemaValues,
                       .invalid = "[1, []]"},
                      &read_format<&read_schema_field>),
    Generation::other({.name = "guided_regex",
                       .help = "The older name of `structured_outputs.regex`",
                       .type_text = "text",
                       .valid = R"(["[0-9]+"])",
                       .invalid = "[1, []]"},
                      &read_format<&read_text_field<Kind::kRegex>>),
    Generation::other({.name = "guided_choice",
                       .help = "The older name of `structured_outputs.choice`",
                       .type_text = "list of texts",
                       .valid = kChoiceValues,
                       .invalid = kNoChoices},
                      &read_format<&read_choices_field>),
    Generation::other({.name = "guided_grammar",
                       .help = "The older name of `structured_outputs.grammar`",
                       .type_text = "text",
                       .valid = kGrammarValues,
                       .invalid = "[1, []]"},
                      &read_format<&read_text_field<Kind::kGrammar>>),
});

void read_flat_schema(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                      OutputFormat& out) {
  const Json* schema = fields.any(info.name);
  if (schema != nullptr) return read_schema_into(fields, info, *schema, out);
  if (out.kind == Kind::kJsonSchema) fields.missing(info.name);
}

constexpr auto kFlatRows = std::to_array<FormatRow::Row>({
    FormatRow::other({.name = "type"}, &read_format_type),
    FormatRow::text<&OutputFormat::name>({.name = "name"}),
    FormatRow::text<&OutputFormat::description>({.name = "description"}),
    FormatRow::boolean<&OutputFormat::strict>({.name = "strict"}),
    FormatRow::other({.name = "schema"}, &read_flat_schema),
});
constexpr ObjectType<OutputFormat> kFlatType{kFlatRows};

}  // namespace

void read_flat_format(Fields& fields, std::string_view name, const RequestLimits& limits,
                      OutputFormat& out) {
  const Json* value = fields.any(name);
  if (value == nullptr) return;
  out.field = fields.path_of(name);
  read_object(kFlatType, fields, *value, out.field, limits, out);
}

void read_ollama_format(Fields& fields, std::string_view name, OutputFormat& out) {
  const Json* value = fields.any(name);
  if (value == nullptr) return;
  if (value->is_string() && value->get_ref<const std::string&>().empty()) return;
  out.field = fields.path_of(name);
  if (*value == "json") {
    out.kind = Kind::kJsonObject;
  } else if (value->is_object()) {
    out.kind = Kind::kJsonSchema;
    out.text = to_text(*value);
  } else {
    fields.fail("'" + out.field + "' must be \"json\" or a JSON Schema.", name, "invalid_type");
  }
}

constexpr ObjectType<GenerationFields> kOutputFormatType{kOutputRows};

}  // namespace chimere::protocol
