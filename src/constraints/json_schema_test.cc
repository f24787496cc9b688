#include "constraints/json_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/test_cpu_seconds.h"

namespace chimere::constraints {
namespace {

using nlohmann::json;

std::unique_ptr<JsonSchemaMachine> machine_of(std::string_view schema) {
  auto machine = JsonSchemaMachine::create(schema);
  EXPECT_TRUE(machine.ok()) << (machine.ok() ? "" : machine.error().message) << "\n" << schema;
  return machine.ok() ? *std::move(machine) : nullptr;
}

bool accepts(JsonSchemaMachine& machine, std::string_view text) {
  State state = machine.start();
  for (const char c : text) state = machine.next(state, static_cast<uint8_t>(c));
  return machine.accepts(state);
}

void expect(std::string_view schema, const std::vector<std::string>& valid,
            const std::vector<std::string>& invalid) {
  const auto machine = machine_of(schema);
  if (!machine) return;
  for (const std::string& text : valid) {
    EXPECT_TRUE(accepts(*machine, text)) << schema << "\nvalid: " << text;
  }
  for (const std::string& text : invalid) {
    EXPECT_FALSE(accepts(*machine, text)) << schema << "\ninvalid: " << text;
  }
  EXPECT_TRUE(machine->status().ok());
}

std::string error_of(std::string_view schema) {
  const auto machine = JsonSchemaMachine::create(schema);
  return machine.ok() ? "" : machine.error().message;
}

/// Documents that are valid, and whether they are texts without undeclared properties.
void expect_declared(std::string_view schema, const std::vector<std::string>& accepted,
                     const std::vector<std::string>& excluded) {
  const auto open = JsonSchemaMachine::create(schema);
  const auto made =
      JsonSchemaMachine::create(schema, {.whitespace = {}, .undeclared_properties = false});
  ASSERT_TRUE(open.ok() && made.ok()) << schema;
  for (const std::string& text : accepted) {
    EXPECT_TRUE(accepts(**made, text)) << schema << "\naccepted: " << text;
  }
  for (const std::string& text : excluded) {
    EXPECT_TRUE(accepts(**open, text)) << schema << "\nvalid: " << text;
    EXPECT_FALSE(accepts(**made, text)) << schema << "\nexcluded: " << text;
  }
}

TEST(JsonSchema, UndeclaredProperties) {
  expect_declared(R"({"properties": {"a": {"properties": {"b": true}}}})",
                  {R"({"a": {"b": 1}})", "{}", "[]"}, {R"({"c": 1})", R"({"a": {"d": 1}})"});
  // Alternatives, references, items.
  expect_declared(
      R"({"anyOf": [{"$ref": "#/$defs/x"}, {"type": "array", "items": {"$ref": "#/$defs/x"}}],
                      "$defs": {"x": {"type": "object", "properties": {"a": true}}}})",
      {R"({"a": 1})", R"([{"a": 1}])"}, {R"({"b": 1})", R"([{"a": 1, "b": 2}])"});
  expect_declared(R"({"type": "object", "allOf": [{"properties": {"a": true}}]})", {R"({"a": 1})"},
                  {R"({"b": 1})"});
  // What other schemas for the same object, and "required", name is declared, too.
  for (
      const char* schema :
      {R"({"properties": {"a": true}, "required": ["b"]})",
       R"({"allOf": [{"properties": {"a": true}}, {"properties": {"b": true}}]})",
       R"({"$ref": "#/$defs/x", "properties": {"b": true}, "$defs": {"x": {"properties": {"a": true}}}})",
       R"({"properties": {"a": true}, "patternProperties": {"^b": true}})",
       R"({"properties": {"a": true}, "dependentRequired": {"a": ["b"]}})",
       R"({"if": {"properties": {"a": {"const": 1}}}, "then": {"properties": {"b": true}}})"}) {
    expect_declared(schema, {R"({"a": 1, "b": 2})"}, {R"({"a": 1, "b": 2, "c": 3})"});
  }
  // Each alternative declares its own.
  for (const char* keyword : {"oneOf", "anyOf"}) {
    expect_declared("{\"" + std::string(keyword) +
                        R"(": [{"properties": {"k": {"const": "a"}, "x": true}, "required": ["k"]},
                   {"properties": {"k": {"const": "b"}, "y": true}, "required": ["k"]}],
            "properties": {"z": true}})",
                    {R"({"k": "a", "x": 1, "z": 1})", R"({"k": "b", "y": 1})"},
                    {R"({"k": "a", "y": 1})", R"({"k": "b", "c": 1})"});
  }
  expect_declared(R"({"properties": {"k": {"enum": ["a", "b"]}}, "required": ["k"],
                      "if": {"properties": {"k": {"const": "a"}}},
                      "then": {"properties": {"x": true}}, "else": {"properties": {"y": true}}})",
                  {R"({"k": "a", "x": 1})", R"({"k": "b", "y": 1})"},
                  {R"({"k": "a", "y": 1})", R"({"k": "b", "x": 1})", R"({"k": "b", "c": 1})"});
  // What is said of other properties, and by negations.
  for (const char* schema :
       {R"({"properties": {"a": true}, "additionalProperties": true})",
        R"({"properties": {"a": true}, "propertyNames": {"maxLength": 1}})",
        R"({"properties": {"a": true}, "minProperties": 2})",
        R"({"allOf": [{"properties": {"a": true}, "additionalProperties": true},
                      {"properties": {"c": true}}]})",
        R"({"not": {"properties": {"a": {"const": 2}}, "required": ["a"]}})"}) {
    expect_declared(schema, {R"({"a": 1, "b": 2})"}, {});
  }
  // No document without them.
  expect_declared(R"({"enum": [{"b": 1}], "anyOf": [{"properties": {"a": true}}]})",
                  {R"({"b": 1})"}, {});
}

/// Documents that are valid, and whether they are written as programs print them.
void expect_canonical(std::string_view schema, const std::vector<std::string>& accepted,
                      const std::vector<std::string>& excluded) {
  const auto open = JsonSchemaMachine::create(schema);
  const auto made = JsonSchemaMachine::create(
      schema, {.whitespace = {}, .undeclared_properties = false, .canonical = true});
  ASSERT_TRUE(open.ok() && made.ok()) << schema;
  for (const std::string& text : accepted) {
    EXPECT_TRUE(accepts(**open, text)) << schema << "\nvalid: " << text;
    EXPECT_TRUE(accepts(**made, text)) << schema << "\naccepted: " << text;
  }
  for (const std::string& text : excluded) {
    EXPECT_TRUE(accepts(**open, text)) << schema << "\nvalid: " << text;
    EXPECT_FALSE(accepts(**made, text)) << schema << "\nexcluded: " << text;
  }
}

TEST(JsonSchema, CanonicalNumbers) {
  expect_canonical(R"({"type": "integer"})", {"0", "-12", "9223372036854775807"},
                   {"-0", "1.0", "1e3", "9223372036854775808"});
  expect_canonical(R"({"type": "number"})", {"0", "-12", "1.5", "2.0", "1e-9"},
                   {"-0", "0e1", "1e0", "1.00000000", "0.12345678901234567890"});
  expect_canonical(R"({"type": ["integer", "string"], "multipleOf": 5})", {"10", "\"a\""},
                   {"10.0"});
  expect_canonical(
      R"({"enum": [1, 1.5, 0, 1e300, 2e-9, -3.0, 123456789012345678901]})",
      {"1", "1.5", "0", "1e300", "1e+300", "2e-9", "2e-09", "-3", "123456789012345678901"},
      {"1.0", "1e0", "0.0", "-0", "1.5e0", "0.000000002", "-3.0"});
  expect_canonical(R"({"const": 10})", {"10"}, {"10.0", "1e1", "1e+01"});
  // No number of the schema has this form.
  expect_canonical(R"({"minimum": 1.00000000001, "maximum": 1.00000000002, "type": "number"})",
                   {"1.00000000001"}, {});
  expect_canonical(R"({"type": "integer", "minimum": 1e19, "maximum": 1e20})",
                   {"10000000000000000000"}, {"1e20"});
}

TEST(JsonSchema, CanonicalWhiteSpace) {
  expect_canonical(
      "{}",
      {R"({"a": [1, {"b": []}], "c": {}})", R"({"a":[1,{"b":[]}],"c":{}})", "[[1, 2], [3]]",
       "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}",
       "[\n\t{\n\t\t\"a\": 1\n\t}\n]", "[]", "{}", "1", "[[],[1,2]]"},
      {"[ ]",
       "[ 1]",
       "[1 ]",
       "[\n]",
       "[\n1\n]",
       "{ \"a\": 1}",
       R"({"a": 1,"b": 2})",
       R"({"a": [1,2]})",
       R"({"a":1, "b":2})",
       "[1,2, 3]",
       "[1, 2,3]",
       R"([1,{"a": 1}])",
       "[1,\n 2]",
       "[\n  1, 2\n]",
       "[\n  1,\n   2\n]",
       "[\n  1,\n\t2\n]",
       "[\n  1\n  ]",
       "[\n  1]",
       "[\n  [\n   1\n  ]\n]",
       "{\n  \"a\":1\n}",
       "[\n \t1\n]",
       "[\n         1\n]",
       "[\n  [1]\n]"});
  // Nesting beyond the deepest indentation.
  const auto machine = JsonSchemaMachine::create(
      "{}", {.whitespace = {}, .undeclared_properties = false, .canonical = true});
  ASSERT_TRUE(machine.ok());
  constexpr size_t kDepth = 300;
  std::string text;
  const auto line = [&](size_t level) {
    text += "\n" + std::string(std::min<size_t>(level * 8, 200), ' ');
  };
  for (size_t i = 1; i <= kDepth; ++i) {
    text += "[";
    line(i);
  }
  text += "1";
  for (size_t i = kDepth; i-- > 0;) {
    line(i);
    text += "]";
  }
  EXPECT_TRUE(accepts(**machine, text));
  // Without white space.
  const auto compact = JsonSchemaMachine::create(
      R"({"x-guidance": {"whitespace_flexible": false}})",
      {.whitespace = {}, .undeclared_properties = false, .canonical = true});
  ASSERT_TRUE(compact.ok());
  EXPECT_TRUE(accepts(**compact, R"({"a":[1,2]})"));
  for (const char* other : {R"({"a": [1,2]})", R"({"a":[1, 2]})", "[\n  1\n]"}) {
    EXPECT_FALSE(accepts(**compact, other)) << other;
  }
}

TEST(JsonSchema, CanonicalStrings) {
  const std::vector<std::string> plain = {R"("é/ \n\"\\")", R"({"é/\n": 1})"};
  const std::vector<std::string> escaped = {
      R"("\u00e9")",         R"("\/")",         R"("\u0041")",       R"("\u000a")",
      R"({"\u00e9/\n": 1})", R"({"é\/\n": 1})", R"({"é/\u000a": 1})"};
  expect_canonical("{}", plain, escaped);
  expect_canonical(R"({"type": ["object", "string"], "properties": {"é/\n": true}})", plain,
                   escaped);
  expect_canonical(R"({"enum": ["é/\n"]})", {R"("é/\n")"}, {R"("\u00e9/\n")", R"("é/\u000a")"});
}

TEST(JsonSchema, CanonicalOrder) {
  expect_canonical(
      R"({"required": ["c", "a"], "properties": {"b": true, "c": true, "a": true}})",
      {R"({"b": 1, "c": 2, "a": 3})", R"({"c": 2, "a": 3})"},
      {R"({"a": 3, "c": 2})", R"({"c": 2, "b": 1, "a": 3})", R"({"b": 1, "a": 3, "c": 2})"});
  // The same names in another order inside, and in a constant.
  expect_canonical(R"({"properties": {"x": true, "y": {"properties": {"y": true, "x": true}},
                       "z": {"const": {"z": 1, "y": 2}}}})",
                   {R"({"x": 1, "y": {"y": 1, "x": 2}, "z": {"z": 1, "y": 2}})"},
                   {R"({"y": {"x": 1, "y": 2}})", R"({"z": {"y": 2, "z": 1}})",
                    R"({"z": {"z": 1, "y": 2}, "x": 1})"});
  // What requires another property comes behind it, and what is missing is not skipped.
  expect_canonical(
      R"({"properties": {"a": true, "b": true, "c": true}, "dependentRequired": {"c": ["a"]}})",
      {R"({"a": 1, "c": 1})", R"({"b": 1})", R"({"a": 1, "b": 1, "c": 1})"},
      {R"({"b": 1, "a": 1, "c": 1})", R"({"c": 1, "a": 1})"});
  expect_canonical(R"({"properties": {"a": true, "b": true, "c": true}, "minProperties": 2})",
                   {R"({"a": 1, "c": 1})", R"({"b": 1, "c": 1})"}, {R"({"c": 1, "a": 1})"});
  // Other names.
  expect_canonical(
      R"({"properties": {"a": true, "b": true}, "required": ["b"], "additionalProperties": true})",
      {R"({"b": 1, "x": 1})", R"({"a": 1, "b": 1, "x": 1, "y": 1})"},
      {R"({"x": 1, "b": 1})", R"({"b": 1, "x": 1, "a": 1})"});
  expect_canonical(R"({"properties": {"b": true, "a": true}, "patternProperties": {"^x": true},
                       "additionalProperties": false, "required": ["b"]})",
                   {R"({"b": 1, "x": 1})", R"({"b": 1, "xy": 1, "a": 1})"},
                   {R"({"x": 1, "b": 1})", R"({"a": 1, "b": 1})"});
  // Alternatives by a property that is not the first.
  expect_canonical(
      R"({"oneOf": [{"properties": {"x": true, "k": {"const": "a"}}, "required": ["k"]},
                                 {"properties": {"k": {"const": "b"}, "y": true}, "required": ["k"]}]})",
      {R"({"x": 1, "k": "a"})", R"({"k": "b", "y": 1})", R"({"k": "a"})"},
      {R"({"k": "a", "x": 1})", R"({"y": 1, "k": "b"})"});
  // A condition on some property that no name is known of leaves the order free.
  expect_canonical(R"({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                       "not": {"additionalProperties": {"type": "integer"}}})",
                   {R"({"b": 1, "x": null, "a": 1})"}, {});
}

TEST(JsonSchema, OneOfManyObjectsIsCheap) {
  const double begin = test_cpu_seconds();
  std::string schema = R"({"type": "array", "items": {"oneOf": [)";
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    schema += std::string(i > 0 ? "," : "") + R"({"type": "object", "properties": {"id":
        {"type": "integer"}, "kind": {"const": "kind)" +
              n + R"("}, "v)" + n + R"(": {"type": "number"},
        "w": {"properties": {"a": true}}}, "required": ["kind"]})";
  }
  const auto machine = JsonSchemaMachine::create(
      schema + "]}}", {.whitespace = {}, .undeclared_properties = false, .canonical = true});
  ASSERT_TRUE(machine.ok());
  std::string text = "[";
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    text += std::string(i > 0 ? "," : "") + R"({"id":1,"kind":"kind)" + n + R"(","v)" + n +
            R"(":1.5,"w":{"a":1}})";
  }
  EXPECT_TRUE(accepts(**machine, text + "]"));
  EXPECT_FALSE(accepts(**machine, R"([{"kind":"kind1","v2":1}])"));
  EXPECT_FALSE(accepts(**machine, R"([{"kind":"kind1","x":1}])"));
  EXPECT_LT(test_cpu_seconds() - begin, 2);
}

TEST(JsonSchema, AnyDocument) {
  expect("{}", {"null", "[1, {\"a\": [true]}]", "\"\\u00e9\"", "-1.5e3", "{}", "[ ]", "{ }"},
         {"", "nul", "[1,]", "{\"a\"}", "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "01",
          "[1 2]"});
  expect(R"({"type": "object"})", {R"({"x": [1, 2.5], "y": {"x": null}})"}, {"[]", "1", "\"{}\""});
}

TEST(JsonSchema, WhiteSpaceIsBounded) {
  expect("{}", {"{\n  \"a\": [\n    1,\n    2\n  ]\n}", "[1, 2]", "[1,2]", "[ 1 ]"},
         {"[1,  2]", "[\n\n1]", "[1 ,2]", "{\"a\" :1}", " 1", "{\"a\":\n1}", "[1, \n2]"});
  const auto machine = machine_of("{}");
  EXPECT_TRUE(accepts(*machine, "[\n" + std::string(64, ' ') + "1]"));
  EXPECT_FALSE(accepts(*machine, "[\n" + std::string(65, ' ') + "1]"));
}

TEST(JsonSchema, WhiteSpaceCanBeExcluded) {
  const auto machine = machine_of(
      R"({"x-guidance": {"whitespace_flexible": false}, "items": {"type": ["object", "string"]}})");
  EXPECT_TRUE(accepts(*machine, R"([{"a":1,"b":[2,3]},"a b"])"));
  for (const char* text : {R"([ {"a":1}])", R"([{"a": 1}])", R"([{"a":1} ])", "[\n\"a\"]",
                           R"(["a", "b"])", R"([{"a":1, "b":1}])"}) {
    EXPECT_FALSE(accepts(*machine, text)) << text;
  }
  const auto flexible = machine_of(R"({"x-guidance": {"whitespace_flexible": true}})");
  EXPECT_TRUE(accepts(*flexible, R"([ {"a": 1} ])"));
}

TEST(JsonSchema, Properties) {
  expect(R"({"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": "string"}},
            "required": ["a"], "additionalProperties": false})",
         {R"({"a": 1})", R"({"ab": "x", "a": 2})"},
         {"{}", R"({"ab": ""})", R"({"\u0061": 1})", R"({"a": "1"})", R"({"a": 1, "b": 2})",
          R"({"a": 1, "a": 2})"});
  expect(
      R"({"properties": {"é": {"const": 1}, "\"\n😀": {"const": 2}}, "additionalProperties": false})",
      {R"({"é":1})", R"({"\u00e9":1})", R"({"\u00E9":1,"\"\n\ud83d\ude00":2})", R"({"\"\n😀":2})"},
      {R"({"é":2})", R"({"\u00e8":1})"});
  expect(R"({"patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 5}},
            "additionalProperties": {"type": "string"}})",
         {R"({"x": 1, "xy": 5, "z": "s"})", R"({"y": "s"})"},
         {R"({"x": "s"})", R"({"xy": 4})", R"({"z": 1})"});
  expect(R"({"propertyNames": {"pattern": "^[ab]$"}, "minProperties": 2, "type": "object"})",
         {R"({"a": 1, "b": 2})"}, {R"({"a": 1})", R"({"a": 1, "c": 2})"});
  expect(R"({"type": "object", "maxProperties": 2, "required": ["r"]})",
         {R"({"r": 1})", R"({"x": 1, "r": 1})"}, {R"({"x": 1, "y": 1})", R"({"r":1,"x":1,"y":1})"});
  // Keys that bring others, between bounds.
  expect(R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "x": {}},
             "additionalProperties": false, "dependentRequired": {"a": ["b", "c"]},
             "minProperties": 3, "maxProperties": 3})",
         {R"({"a":1,"b":1,"c":1})", R"({"b":1,"c":1,"x":1})", R"({"c":1,"a":1,"b":1})"},
         {R"({"x":1,"a":1,"b":1})", R"({"b":1,"c":1})"});
  expect(R"({"type": "object", "patternProperties": {"^x$": {}}, "additionalProperties": false,
             "properties": {"a": {}, "b": {}, "c": {}}, "required": ["b"],
             "dependentRequired": {"b": ["a"], "a": ["c"]},
             "minProperties": 3, "maxProperties": 3})",
         {R"({"a":1,"b":1,"c":1})"}, {R"({"x":1})", R"({"a":1,"x":1})"});
  expect(R"({"type": "object", "dependentRequired": {"a": ["b"]}, "properties": {"c": {}},
             "dependentSchemas": {"c": {"required": ["d"]}}})",
         {R"({"b":1})", R"({"a":1,"b":1})", R"({"c":1,"d":1})"}, {R"({"a":1})", R"({"c":1})"});
}

TEST(JsonSchema, Arrays) {
  expect(R"({"type": "array", "prefixItems": [{"const": 1}, {"type": "string"}],
            "items": {"type": "null"}, "minItems": 1, "maxItems": 3})",
         {"[1]", R"([1, "a"])", R"([1, "a", null])"},
         {"[]", "[2]", R"([1, "a", 1])", "[1,\"\",null,null]"});
  expect(
      R"({"type": "array", "contains": {"const": 5}, "minContains": 2, "maxContains": 3, "maxItems": 4})",
      {"[5, 5]", "[1, 5, 2, 5]", "[5,5,5,1]"}, {"[5]", "[1,2,3,4]", "[5,5,5,5]", "[1,1,5]"});
  expect(
      R"({"type": "array", "uniqueItems": true, "items": {"enum": [1, "a", [1], {"x": 1, "y": 2}]}})",
      {R"([1, "a", [1], {"x": 1, "y": 2}])", "[]"},
      {"[1, 1.0]", R"(["a", "\u0061"])", "[[1],[1]]", R"([{"x":1,"y":2},{"y":2,"x":1}])"});
}

TEST(JsonSchema, BooleanKeywords) {
  expect(R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})", {"1", "2.5", "\"a\""},
         {"3", "1.5"});
  expect(R"({"not": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "type": "object"})",
         {"{}", R"({"a": 2})", R"({"b": 1})"}, {R"({"a": 1})", R"({"b": 1, "a": 1})"});
  expect(
      R"({"if": {"properties": {"k": {"const": "x"}}, "required": ["k"]}, "then": {"required": ["x"]},
             "else": {"required": ["y"]}, "type": "object"})",
      {R"({"k": "x", "x": 1})", R"({"y": 1})", R"({"y":1,"k":"z"})"},
      {R"({"k": "x"})", R"({"k": "x", "y": 1})", R"({"x": 1})"});
  expect(R"({"type": "object", "properties": {"a": true}, "anyOf": [{"properties": {"b": true}},
             {"required": ["q"]}], "unevaluatedProperties": false})",
         {R"({"a": 1})", R"({"a": 1, "b": 2})"}, {R"({"c": 1})", R"({"q": 1})"});
  // "const" and "enum" evaluate nothing.
  expect(
      R"({"anyOf": [{"const": ["a", 5]}, {"const": []}], "unevaluatedItems": {"type": "string"}})",
      {"[]"}, {R"(["a", 5])"});
  expect(R"({"enum": [{"a": 1}, {}], "unevaluatedProperties": false})", {"{}"}, {R"({"a": 1})"});
  expect(R"({"not": {"const": {"a": [1, {}]}}, "type": "object", "maxProperties": 1})",
         {"{}", R"({"a": [1]})", R"({"a": [1, []]})", R"({"b": [1, {}]})"}, {R"({"a": [1, {}]})"});
}

TEST(JsonSchema, References) {
  expect(R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "required": ["v"],
             "properties": {"v": {"type": "integer"}, "c": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
             "additionalProperties": false}}})",
         {R"({"v": 1, "c": [{"v": 2}, {"c": [], "v": 3}]})"}, {R"({"v": 1, "c": [{}]})"});
  expect(
      R"({"$id": "http://x.y/root.json", "$ref": "item.json#named", "$defs": {"i": {"$id": "item.json",
             "$defs": {"n": {"$anchor": "named", "type": "null"}}}}})",
      {"null"}, {"1"});
  // A branch that can never end is not entered.
  expect(R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"type": "object",
             "required": ["x"], "properties": {"x": {"$ref": "#/$defs/b"}}}]},
             "b": {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/b"}}}}})",
         {"null"}, {"{\"x\":"});
  const auto machine = machine_of(R"({"properties": {"a": {"$ref": "#"}}, "required": ["b"]})");
  EXPECT_TRUE(accepts(*machine, R"({"a": {"a": {"b": 1}, "b": 1}, "b": 1})"));
}

TEST(JsonSchema, Dialects) {
  expect(R"({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "minimum": 1,
             "exclusiveMinimum": true})",
         {"2"}, {"1", "2.0"});
  expect(R"({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"const": 1}],
             "additionalItems": false, "type": "array"})",
         {"[]", "[1]"}, {"[2]", "[1,1]"});
  expect(
      R"({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "maximum": 1,
             "definitions": {"a": {"type": "integer"}}})",
      {"5", "5.0"}, {"1.5"});
}

TEST(JsonSchema, Errors) {
  EXPECT_NE(error_of(R"({"properties": {"a/b": {"minimum": "x"}}})").find("\"/properties/a~1b"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"items": {"$ref": "http://x.y/z"}})").find("not fetched"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"items": {"$ref": "#/nowhere"}})").find("\"/items"), std::string::npos);
  EXPECT_NE(error_of(R"({"$ref": "#"})").find("refers to itself"), std::string::npos);
  EXPECT_NE(error_of(R"({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}})")
                .find("contradicts itself"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"type": "string", "minLength": 2, "maxLength": 1})").find("contradicts"),
            std::string::npos);
  EXPECT_NE(error_of("{").find("JSON"), std::string::npos);
  EXPECT_NE(error_of("[]"), "");
  EXPECT_NE(error_of(R"({"pattern": "(a"})").find("pattern"), std::string::npos);
  EXPECT_NE(error_of(R"({"allOf": {}})").find("allOf"), std::string::npos);
  EXPECT_NE(error_of(R"({"not": {"uniqueItems": true}})").find("uniqueItems"), std::string::npos);
}

/// The first states of a machine, each with a text that leads there.
void expect_no_dead_end(JsonSchemaMachine& machine, std::string_view schema) {
  std::vector<std::pair<State, std::string>> states = {{machine.start(), ""}};
  std::set<State> seen = {machine.start()};
  for (size_t i = 0; i < states.size() && i < 3000; ++i) {
    const auto [state, text] = states[i];
    bool alive = machine.accepts(state);
    for (const char c : std::string_view("{}[]\":, \n0129-.abetrufalsn")) {
      const State next = machine.next(state, static_cast<uint8_t>(c));
      if (next == kDead) continue;
      alive = true;
      if (seen.insert(next).second) states.emplace_back(next, text + c);
    }
    ASSERT_TRUE(alive) << schema << "\nafter " << text;
  }
}

TEST(JsonSchema, NoDeadEnds) {
  // Each of these would lead a naive machine into a state without a way out.
  for (
      const char* schema : {
          R"({"type": "array", "uniqueItems": true, "items": {"type": "boolean"}, "minItems": 2})",
          R"({"type": "array", "uniqueItems": true, "items": {"type": "object", "properties":
               {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": false}, "minItems": 2})",
          R"({"type": "object", "minProperties": 2, "maxProperties": 2, "required": ["a", "b"]})",
          R"({"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 100}, "maxItems": 2, "minItems": 2})",
          R"({"type": "object", "properties": {"a": false, "ab": {"type": "null"}}, "additionalProperties": false, "minProperties": 1})",
      }) {
    for (const bool canonical : {false, true}) {
      const auto made = JsonSchemaMachine::create(
          schema, {.whitespace = {}, .undeclared_properties = !canonical, .canonical = canonical});
      ASSERT_TRUE(made.ok()) << schema;
      expect_no_dead_end(**made, schema);
    }
  }
}

TEST(JsonSchema, LargeBoundsCostNothing) {
  const double begin = test_cpu_seconds();
  std::string words;
  for (int i = 0; i < 5000; ++i) words += (i > 0 ? ",\"w" : "\"w") + std::to_string(i) + "\"";
  std::string tools;
  for (int i = 0; i < 400; ++i) {
    const std::string name = "tool_" + std::to_string(i);
    tools += (i > 0 ? "," : "") + std::string(R"({"type":"object","required":["name","arguments"],
      "additionalProperties":false,"properties":{"name":{"const":")") +
             name + R"("},"arguments":{"type":"object","properties":{"p)" + std::to_string(i) +
             R"(":{"type":"string","maxLength":1000000}},"additionalProperties":false}}})";
  }
  const auto strings = machine_of(R"({"type": "string", "minLength": 3, "maxLength": 1000000})");
  EXPECT_TRUE(accepts(*strings, "\"" + std::string(1000, 'x') + "\""));
  const auto items = machine_of(R"({"type": "array", "minItems": 1000, "maxItems": 30000,
                                    "items": {"type": "integer"}})");
  std::string text = "[1";
  for (int i = 1; i < 1000; ++i) text += ",1";
  EXPECT_TRUE(accepts(*items, text + "]"));
  EXPECT_FALSE(accepts(*items, text.substr(2) + "]"));
  const auto choice = machine_of("{\"enum\": [" + words + "]}");
  EXPECT_TRUE(accepts(*choice, "\"w4999\""));
  EXPECT_FALSE(accepts(*choice, "\"w5000\""));
  for (const char* keyword : {"anyOf", "oneOf"}) {
    const auto calls = machine_of("{\"" + std::string(keyword) + "\": [" + tools + "]}");
    EXPECT_TRUE(accepts(*calls, R"({"name": "tool_399", "arguments": {"p399": "x"}})"));
    EXPECT_TRUE(accepts(*calls, R"({"arguments": {"p39": "x"}, "name": "tool_39"})"));
    EXPECT_FALSE(accepts(*calls, R"({"name": "tool_399", "arguments": {"p398": "x"}})"));
    EXPECT_FALSE(accepts(*calls, R"({"arguments": {"p39": "x"}, "name": "tool_3"})"));
  }
  EXPECT_LT(test_cpu_seconds() - begin, 20);
}

TEST(JsonSchema, DeepNesting) {
  constexpr int kDepth = 60000;
  const auto repeated = [](const std::string& part) {
    std::string out;
    for (int i = 0; i < kDepth; ++i) out += part;
    return out;
  };
  const auto any = machine_of("{}");
  EXPECT_TRUE(accepts(*any, repeated("[") + repeated("]")));
  EXPECT_TRUE(accepts(*any, repeated("{\"a\":") + "1" + repeated("}")));
  const auto list = machine_of(R"({"type": "array", "items": {"$ref": "#"}, "maxItems": 1})");
  EXPECT_TRUE(accepts(*list, repeated("[") + repeated("]")));
  EXPECT_FALSE(accepts(*list, repeated("[") + "1" + repeated("]")));
  const auto items = machine_of(repeated(R"({"items":)") + "{}" + repeated("}"));
  EXPECT_TRUE(accepts(*items, "[[[[1]]]]"));
  const auto required = machine_of(
      repeated(R"({"type":"object","required":["a"],"properties":{"a":)") + "{}" + repeated("}}"));
  EXPECT_TRUE(accepts(*required, repeated("{\"a\":") + "1" + repeated("}")));
  const auto all = machine_of(repeated(R"({"allOf":[)") + "{\"type\":\"null\"}" + repeated("]}"));
  EXPECT_TRUE(accepts(*all, "null"));
  EXPECT_FALSE(accepts(*all, "1"));
  error_of(repeated(R"({"not":)") + "{}" + repeated("}"));
  error_of(repeated("["));
}

}  // namespace
}  // namespace chimere::constraints
