#include <array>
#include <string>

#include "protocol/tool_fields.h"

namespace chimere::protocol {
namespace {

using Kind = ResponseFormat::Kind;
using FormatRow = FieldsOf<ResponseFormat>;

void read_format_type(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                      ResponseFormat& out) {
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
                 ResponseFormat& out) {
  const Json* schema = fields.any(info.name);
  if (schema == nullptr) return fields.missing(info.name);
  if (!schema->is_object() && !schema->is_boolean()) {
    return fields.fail("'" + fields.path_of(info.name) + "' must be a JSON Schema.", info.name,
                       "invalid_type");
  }
  out.schema = to_text(*schema);
}

constexpr auto kSchemaRows = std::to_array<FormatRow::Row>({
    FormatRow::text<&ResponseFormat::name>({.name = "name", .help = "A name for the schema"}),
    FormatRow::text<&ResponseFormat::description>(
        {.name = "description", .help = "What the schema is for"}),
    FormatRow::other({.name = "schema",
                      .help = "The JSON Schema",
                      .required = true,
                      .type_text = "object, or true or false",
                      .valid = R"([{}, {"type": "object"}, true])",
                      .invalid = R"([1, [], "x"])"},
                     &read_schema),
    FormatRow::boolean<&ResponseFormat::strict>(
        {.name = "strict",
         .help = "The content is always valid, with either value",
         .default_value = "false"}),
});
constexpr ObjectType<ResponseFormat> kSchemaType{kSchemaRows};

void read_json_schema(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                      ResponseFormat& out) {
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
});

}  // namespace

constexpr ObjectType<ResponseFormat> kResponseFormatType{kFormatRows};

void read_response_format(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                          ChatRequest& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  read_object(kResponseFormatType, fields, *value, fields.path_of(info.name), limits,
              out.response_format);
}

}  // namespace chimere::protocol
