// A simple validator of JSON Schema, for tests: recursive, and independent of the machine.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_ORACLE_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_ORACLE_H_

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

namespace chimere::constraints::testing {

using nlohmann::json;

/// Draft 2020-12 without $id, $anchor, $dynamicRef and formats. `$ref` is "#" or "#/$defs/name".
class SchemaOracle {
 public:
  explicit SchemaOracle(json root) : root_(std::move(root)) {}

  bool valid(const json& value) {
    Evaluated evaluated;
    return check(root_, value, evaluated);
  }

 private:
  struct Evaluated {
    std::set<std::string> properties;
    std::set<size_t> items;
    void add(const Evaluated& other) {
      properties.insert(other.properties.begin(), other.properties.end());
      items.insert(other.items.begin(), other.items.end());
    }
  };

  static bool is_integer(const json& value) {
    return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
  }

  static bool has_type(const json& value, const std::string& type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return is_integer(value);
    if (type == "number") return value.is_number();
    if (type == "string") return value.is_string();
    return type == "array" ? value.is_array() : value.is_object();
  }

  static bool matches(const std::string& pattern, const std::string& text) {
    return std::regex_search(text, std::regex(pattern));
  }

  bool holds(const json& schema, const json& value) {
    Evaluated unused;
    return check(schema, value, unused);
  }

  bool check_simple(const json& schema, const json& value) const {
    if (schema.contains("type")) {
      const json& type = schema["type"];
      bool any = type.is_string() && has_type(value, type);
      for (const json& one : type.is_array() ? type : json::array()) any |= has_type(value, one);
      if (!any) return false;
    }
    if (schema.contains("const") && value != schema["const"]) return false;
    if (schema.contains("enum")) {
      bool any = false;
      for (const json& one : schema["enum"]) any |= value == one;
      if (!any) return false;
    }
    if (value.is_number()) {
      const double number = value;
      if (number < schema.value("minimum", -HUGE_VAL) ||
          number > schema.value("maximum", HUGE_VAL)) {
        return false;
      }
      if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>())
        return false;
      if (schema.contains("exclusiveMaximum") && number >= schema["exclusiveMaximum"].get<double>())
        return false;
      if (schema.contains("multipleOf")) {
        const json& divisor = schema["multipleOf"];
        const double ratio = number / divisor.get<double>();
        const bool whole = value.is_number_integer() && divisor.is_number_integer();
        // Doubles above 2^53 are all even.
        if (whole ? value.get<int64_t>() % divisor.get<int64_t>() != 0 : ratio != std::floor(ratio))
          return false;
      }
    }
    if (value.is_string()) {
      const std::string text = value;
      if (text.size() < schema.value("minLength", size_t{0})) return false;
      if (text.size() > schema.value("maxLength", size_t{1000000})) return false;
      if (schema.contains("pattern") && !matches(schema["pattern"], text)) return false;
    }
    return true;
  }

  bool check_object(const json& schema, const json& value, Evaluated& evaluated) {
    if (value.size() < schema.value("minProperties", size_t{0})) return false;
    if (value.size() > schema.value("maxProperties", size_t{1000000})) return false;
    for (const json& key : schema.value("required", json::array())) {
      if (!value.contains(key.get<std::string>())) return false;
    }
    const json properties = schema.value("properties", json::object());
    const json patterns = schema.value("patternProperties", json::object());
    for (const auto& [key, item] : value.items()) {
      bool additional = true;
      if (properties.contains(key)) {
        additional = false;
        if (!holds(properties[key], item)) return false;
      }
      for (const auto& [pattern, sub] : patterns.items()) {
        if (!matches(pattern, key)) continue;
        additional = false;
        if (!holds(sub, item)) return false;
      }
      if (!additional || schema.contains("additionalProperties")) evaluated.properties.insert(key);
      if (additional && schema.contains("additionalProperties") &&
          !holds(schema["additionalProperties"], item)) {
        return false;
      }
      if (schema.contains("propertyNames") && !holds(schema["propertyNames"], json(key))) {
        return false;
      }
    }
    const json required = schema.value("dependentRequired", json::object());
    for (const auto& [key, list] : required.items()) {
      if (!value.contains(key)) continue;
      for (const json& other : list) {
        if (!value.contains(other.get<std::string>())) return false;
      }
    }
    const json dependents = schema.value("dependentSchemas", json::object());
    for (const auto& [key, sub] : dependents.items()) {
      if (value.contains(key) && !check(sub, value, evaluated)) return false;
    }
    return true;
  }

  bool check_array(const json& schema, const json& value, Evaluated& evaluated) {
    if (value.size() < schema.value("minItems", size_t{0})) return false;
    if (value.size() > schema.value("maxItems", size_t{1000000})) return false;
    const json prefix = schema.value("prefixItems", json::array());
    size_t contained = 0;
    for (size_t i = 0; i < value.size(); ++i) {
      if (i < prefix.size()) {
        if (!holds(prefix[i], value[i])) return false;
        evaluated.items.insert(i);
      } else if (schema.contains("items")) {
        if (!holds(schema["items"], value[i])) return false;
        evaluated.items.insert(i);
      }
      if (schema.contains("contains") && holds(schema["contains"], value[i])) {
        ++contained;
        evaluated.items.insert(i);
      }
      for (size_t j = 0; j < i && schema.value("uniqueItems", false); ++j) {
        if (value[i] == value[j]) return false;
      }
    }
    return !schema.contains("contains") ||
           (contained >= schema.value("minContains", size_t{1}) &&
            contained <= schema.value("maxContains", size_t{1000000}));
  }

  bool check_applicators(const json& schema, const json& value, Evaluated& evaluated) {
    for (const json& sub : schema.value("allOf", json::array())) {
      if (!check(sub, value, evaluated)) return false;
    }
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (!schema.contains(keyword)) continue;
      size_t count = 0;
      for (const json& sub : schema[keyword]) {
        Evaluated inner;
        if (!check(sub, value, inner)) continue;
        ++count;
        evaluated.add(inner);
      }
      if (count == 0 || (count > 1 && std::string(keyword) == "oneOf")) return false;
    }
    if (schema.contains("not") && holds(schema["not"], value)) return false;
    if (schema.contains("if")) {
      Evaluated inner;
      const bool condition = check(schema["if"], value, inner);
      if (condition) evaluated.add(inner);
      const char* next = condition ? "then" : "else";
      if (schema.contains(next) && !check(schema[next], value, evaluated)) return false;
    }
    return true;
  }

  bool check(const json& schema, const json& value, Evaluated& evaluated) {
    if (schema.is_boolean()) return schema.get<bool>();
    if (!check_simple(schema, value)) return false;
    if (schema.contains("$ref")) {
      const std::string ref = schema["$ref"];
      const json& target = ref == "#" ? root_ : root_["$defs"][ref.substr(8)];
      if (!check(target, value, evaluated)) return false;
    }
    if (value.is_object() && !check_object(schema, value, evaluated)) return false;
    if (value.is_array() && !check_array(schema, value, evaluated)) return false;
    if (!check_applicators(schema, value, evaluated)) return false;
    if (value.is_object() && schema.contains("unevaluatedProperties")) {
      for (const auto& [key, item] : value.items()) {
        if (evaluated.properties.insert(key).second &&
            !holds(schema["unevaluatedProperties"], item)) {
          return false;
        }
      }
    }
    if (value.is_array() && schema.contains("unevaluatedItems")) {
      for (size_t i = 0; i < value.size(); ++i) {
        if (evaluated.items.insert(i).second && !holds(schema["unevaluatedItems"], value[i])) {
          return false;
        }
      }
    }
    return true;
  }

  json root_;
};

}  // namespace chimere::constraints::testing

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_ORACLE_H_
