// Every refusal of a schema says where: with a JSON pointer, or the byte of what is no JSON.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "constraints/json_schema.h"

namespace chimere::constraints {
namespace {

struct Refusal {
  const char* schema;
  const char* pointer;   ///< "": the root
  const char* sentence;  ///< a part of it
  Error::Code code = Error::Code::kInvalidArgument;
};

constexpr Error::Code kUnsupported = Error::Code::kUnsupported;

const Refusal kRefusals[] = {
    // What is no schema.
    {"[]", "", "an object, true or false"},
    {R"({"items": 1})", "/items", "must be a schema"},
    {R"({"properties": {"a": 1}})", "/properties", "must be a schema"},
    {R"({"$defs": {}, "properties": []})", "/properties", "must be"},
    {R"({"allOf": {}})", "/allOf", "an array of schemas"},
    {R"({"anyOf": []})", "/anyOf", "at least one"},
    {R"({"type": "text"})", "/type", "one or several of"},
    {R"({"enum": 1})", "/enum", "an array"},
    {R"({"properties": {"a/b": {"minimum": "x"}}})", "/properties/a~1b/minimum", "a number"},
    {R"({"multipleOf": 0})", "/multipleOf", "above 0"},
    {R"({"minLength": -1})", "/minLength", "a count"},
    {R"({"required": [1]})", "/required", "an array of strings"},
    {R"({"pattern": 1})", "/pattern", "a string"},
    {R"({"format": 1})", "/format", "a string"},
    {R"({"items": {"pattern": "(a"}})", "/items/pattern", "pattern"},
    {R"({"$ref": 1})", "/$ref", "a string"},
    {R"({"items": {"$ref": "#/nowhere"}})", "/items/$ref", "leads nowhere"},
    {R"({"items": {"$ref": "#/enum"}, "enum": [1]})", "/items/$ref", "leads to no schema"},
    // What no document satisfies.
    {"false", "", "contradicts itself"},
    {R"({"type": "string", "minLength": 2, "maxLength": 1})", "", "contradicts itself"},
    {R"({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}})", "",
     "contradicts itself"},
    // What is not supported.
    {R"({"$schema": "http://json-schema.org/draft-03/schema#"})", "/$schema", "drafts 4 to",
     kUnsupported},
    {R"({"items": {"$ref": "http://x.y/z"}})", "/items/$ref", "not fetched", kUnsupported},
    {R"({"items": {"$ref": "other.json#/a"}})", "/items/$ref", "not fetched", kUnsupported},
    {R"({"$ref": "#"})", "", "refers to itself", kUnsupported},
    {R"({"format": "idn-email"})", "/format", "not supported", kUnsupported},
    {R"({"items": {"pattern": "(a)\\1"}})", "/items/pattern", "not supported", kUnsupported},
    {R"({"properties": {"a": {"not": {"uniqueItems": true}}}})", "/properties/a/not", "uniqueItems",
     kUnsupported},
    {R"({"items": {"type": "number", "multipleOf": 1.00000000000000000000000000001}})", "/items",
     "digits", kUnsupported},
    {R"({"items": {"type": "array", "uniqueItems": true, "minItems": 3000,
         "items": {"type": "object"}}, "minItems": 1, "type": "array"})",
     "/items", "unique items", kUnsupported},
    {R"({"x-guidance": 1})", "/x-guidance", "an object"},
    {R"({"x-guidance": {"whitespace_flexible": 1}})", "/x-guidance/whitespace_flexible",
     "true or false"},
    {R"({"x-guidance": {"whitespace_pattern": " *"}})", "/x-guidance/whitespace_pattern",
     "not supported", kUnsupported},
    {R"({"x-guidance": {"item_separator": " , "}})", "/x-guidance/item_separator", "not supported",
     kUnsupported},
};

TEST(JsonSchemaRefusals, HaveAPointer) {
  for (const Refusal& refusal : kRefusals) {
    const auto machine = JsonSchemaMachine::create(refusal.schema);
    ASSERT_FALSE(machine.ok()) << refusal.schema;
    const std::string& message = machine.error().message;
    const std::string pointer = refusal.pointer;
    const std::string place =
        "JSON schema, at " + (pointer.empty() ? "the root" : "\"" + pointer + "\"") + ": ";
    EXPECT_TRUE(message.starts_with(place)) << refusal.schema << "\n" << message;
    EXPECT_NE(message.find(refusal.sentence), std::string::npos) << message;
    EXPECT_EQ(machine.error().code, refusal.code) << message;
  }
}

TEST(JsonSchemaRefusals, LongPrefixesBesideContains) {
  std::string schema = R"({"properties": {"a": {"type": "array", "contains": {"type": "string"},
                           "prefixItems": [{})";
  for (int i = 0; i < 1000; ++i) schema += ",{}";
  const auto machine = JsonSchemaMachine::create(schema + "]}}}");
  ASSERT_FALSE(machine.ok());
  EXPECT_TRUE(machine.error().message.starts_with(
      "JSON schema, at \"/properties/a\": \"contains\" beside a long"))
      << machine.error().message;
}

TEST(JsonSchemaRefusals, ManyKeysThatRequireOthersWithinBounds) {
  std::string schema = R"({"properties": {"a": {"type": "object", "minProperties": 30,
                           "maxProperties": 31, "additionalProperties": false, "properties": {)";
  std::string required;
  for (int i = 0; i < 32; ++i) {
    const std::string n = std::to_string(i);
    schema += std::string(i > 0 ? "," : "") + "\"k" + n + "\": {}";
    if (i % 2 == 0) {
      required +=
          std::string(i > 0 ? "," : "") + "\"k" + n + "\": [\"k" + std::to_string(i + 1) + "\"]";
    }
  }
  const auto machine =
      JsonSchemaMachine::create(schema + R"(}, "dependentRequired": {)" + required + "}}}}");
  ASSERT_FALSE(machine.ok());
  EXPECT_TRUE(machine.error().message.starts_with(
      "JSON schema, at \"/properties/a\": \"minProperties\" and"))
      << machine.error().message;
}

TEST(JsonSchemaRefusals, WhatIsNoJsonHasItsByte) {
  for (const char* text : {"", "{", R"({"a": tru})", "{} x"}) {
    const auto machine = JsonSchemaMachine::create(text);
    ASSERT_FALSE(machine.ok());
    EXPECT_NE(machine.error().message.find("(at byte "), std::string::npos)
        << machine.error().message;
  }
}

/// Combinations that grow without bound are refused in bounded time, with the schema's place.
TEST(JsonSchemaRefusals, TooManyCombinations) {
  std::string schema = R"({"properties": {"x": {"allOf": [)";
  for (int i = 0; i < 24; ++i) {
    const std::string n = std::to_string(i);
    schema += std::string(i > 0 ? "," : "") + R"({"oneOf": [{"required": ["a)" + n +
              R"("]}, {"required": ["b)" + n + R"("]}, {"required": ["c)" + n + R"("]}]})";
  }
  schema += "]}}}";
  const auto machine = JsonSchemaMachine::create(schema);
  ASSERT_FALSE(machine.ok());
  EXPECT_TRUE(machine.error().message.starts_with("JSON schema, at \"/properties/x"))
      << machine.error().message;
  EXPECT_EQ(machine.error().code, kUnsupported);
}

}  // namespace
}  // namespace chimere::constraints
