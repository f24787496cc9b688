#include "text/tool_values.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "text/text_matcher.h"

namespace chimere::text {
namespace {

using ValueJson = nlohmann::json;

/// Types that a schema allows, as bits.
constexpr unsigned kStringType = 1;
constexpr unsigned kNullType = 2;
constexpr unsigned kOtherType = 4;
constexpr unsigned kAllTypes = kStringType | kNullType | kOtherType;
constexpr int kMostHops = 16;         ///< nesting of $ref, anyOf, ... that is followed
constexpr int kMostSchemas = 20'000;  ///< schemas that are looked at for one tool

unsigned type_bit(const ValueJson& name) {
  if (name == "string") return kStringType;
  return name == "null" ? kNullType : kOtherType;
}

unsigned value_bit(const ValueJson& value) {
  if (value.is_string()) return kStringType;
  return value.is_null() ? kNullType : kOtherType;
}

unsigned schema_types(const ValueJson& root, const ValueJson& schema, int hops, int& budget) {
  if (!schema.is_object() || hops > kMostHops || --budget < 0) return kAllTypes;
  unsigned out = kAllTypes;
  if (const auto type = schema.find("type"); type != schema.end()) {
    unsigned bits = 0;
    if (type->is_array()) {
      for (const ValueJson& name : *type) bits |= type_bit(name);
    } else {
      bits = type_bit(*type);
    }
    out &= bits;
  }
  if (const auto list = schema.find("enum"); list != schema.end() && list->is_array()) {
    unsigned bits = 0;
    for (const ValueJson& value : *list) bits |= value_bit(value);
    out &= bits;
  }
  if (const auto value = schema.find("const"); value != schema.end()) out &= value_bit(*value);
  for (const char* word : {"anyOf", "oneOf"}) {
    const auto list = schema.find(word);
    if (list == schema.end() || !list->is_array()) continue;
    unsigned bits = 0;
    for (const ValueJson& part : *list) bits |= schema_types(root, part, hops + 4, budget);
    out &= bits;
  }
  if (const auto list = schema.find("allOf"); list != schema.end() && list->is_array()) {
    for (const ValueJson& part : *list) out &= schema_types(root, part, hops + 4, budget);
  }
  const auto ref = schema.find("$ref");
  if (ref != schema.end() && ref->is_string()) {
    const auto& text = ref->get_ref<const std::string&>();
    for (const char* place : {"$defs", "definitions"}) {
      const std::string prefix = std::string("#/") + place + "/";
      if (!text.starts_with(prefix) || !root.contains(place)) continue;
      const ValueJson& defs = root.at(place);
      const std::string name = text.substr(prefix.size());
      if (defs.is_object() && defs.contains(name)) {
        out &= schema_types(root, defs.at(name), hops + 1, budget);
      }
    }
  }
  return out;
}

ParameterKind kind_of(unsigned types) {
  if (types == kStringType) return ParameterKind::kText;
  if (types == (kStringType | kNullType)) return ParameterKind::kTextOrNull;
  return (types & kStringType) == 0 ? ParameterKind::kJson : ParameterKind::kAny;
}

void append_escaped(char c, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<uint8_t>(c);
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      if (byte >= 0x20) {
        out += c;
        break;
      }
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
      break;
  }
}

/// Python's names of JSON's literals; else the text itself.
std::string_view json_word(std::string_view word) {
  if (word == "None") return "null";
  if (word == "True") return "true";
  if (word == "False") return "false";
  return word;
}

bool is_json(std::string_view text) {
  JsonStream json;
  bool done = false;
  for (const char c : text) {
    if (done) {
      if (!is_white_space(c)) return false;
      continue;
    }
    const JsonStream::Step step = json.push(c);
    if (step == JsonStream::Step::kError) return false;
    if (step == JsonStream::Step::kAfter && !is_white_space(c)) return false;
    done = step != JsonStream::Step::kMore;
  }
  return done || json.may_end();
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_white_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

ToolParameters::ToolParameters(std::string_view schema) {
  const ValueJson root = ValueJson::parse(schema, nullptr, false);
  if (!root.is_object()) return;
  const auto properties = root.find("properties");
  if (properties == root.end() || !properties->is_object()) return;
  int budget = kMostSchemas;
  for (const auto& [key, value] : properties->items()) {
    kinds_[key] = kind_of(schema_types(root, value, 0, budget));
  }
}

ParameterKind ToolParameters::kind(const std::string& key) const {
  const auto it = kinds_.find(key);
  return it == kinds_.end() ? ParameterKind::kAny : it->second;
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) append_escaped(c, out);
  return out + '"';
}

void TaggedValue::push(char c, std::string& out) {
  switch (kind_) {
    case ParameterKind::kText:
      return push_text(c, out);
    case ParameterKind::kTextOrNull:
      held_ += c;
      if (!open_ && (std::string_view("null").starts_with(held_) ||
                     std::string_view("None").starts_with(held_))) {
        return;
      }
      for (const char held : held_) push_text(held, out);
      held_.clear();
      return;
    case ParameterKind::kJson:
      return push_json(c, out);
    case ParameterKind::kAny:
      held_ += c;
      if (may_be_json(c)) return;
      kind_ = ParameterKind::kText;
      for (const char held : held_) push_text(held, out);
      held_.clear();
      return;
  }
}

/// Whether the text so far, which ends with `c`, can become JSON.
bool TaggedValue::may_be_json(char c) {
  const std::string_view word = trimmed(held_);
  const char first = word.empty() ? '\0' : word.front();
  if (first == 'N' || first == 'T' || first == 'F') {
    for (const std::string_view literal : {"None", "True", "False"}) {
      if (word == literal || (literal.starts_with(word) && word.back() == c)) return true;
    }
    return false;
  }
  if (done_) return is_white_space(c);
  const JsonStream::Step step = json_.push(c);
  done_ = step == JsonStream::Step::kDone || step == JsonStream::Step::kAfter;
  return step != JsonStream::Step::kError &&
         (step != JsonStream::Step::kAfter || is_white_space(c));
}

void TaggedValue::push_text(char c, std::string& out) {
  if (!open_) out += '"';
  open_ = true;
  append_escaped(c, out);
}

void TaggedValue::push_json(char c, std::string& out) {
  // White space behind a value is left out; None, True and False wait for their end.
  if (done_ && is_white_space(c)) return;
  if (json_.empty() && !whole_) {
    if (is_white_space(c)) return;
    whole_ = c == 'N' || c == 'T' || c == 'F';
  }
  if (whole_) {
    held_ += c;
    return;
  }
  open_ = true;
  if (done_) {
    out += c;  // no JSON: the client sees what the model wrote
    return;
  }
  const JsonStream::Step step = json_.push(c);
  if (step == JsonStream::Step::kAfter && is_white_space(c)) {
    done_ = true;
    return;
  }
  if (step == JsonStream::Step::kError && json_.in_string()) {
    append_escaped(c, out);  // a control character
    return;
  }
  out += c;
  done_ = step != JsonStream::Step::kMore;
}

void TaggedValue::finish(std::string& out) {
  switch (kind_) {
    case ParameterKind::kText:
      out += open_ ? "\"" : "\"\"";
      return;
    case ParameterKind::kTextOrNull:
      if (open_) {
        out += '"';
      } else {
        out += held_ == "null" || held_ == "None" ? "null" : json_quoted(held_);
      }
      return;
    case ParameterKind::kJson:
      if (whole_) {
        const std::string_view word = json_word(trimmed(held_));
        out += is_json(word) ? std::string(word) : json_quoted(held_);
      } else if (!open_) {
        out += "null";
      }
      return;
    case ParameterKind::kAny: {
      const std::string_view word = json_word(trimmed(held_));
      out += is_json(word) ? std::string(word) : json_quoted(held_);
      return;
    }
  }
}

bool PythonValue::write(std::string_view json, std::string& out) {
  for (const char c : json) {
    if (ended_) return false;
    const JsonStream::Step step = check_.push(c);
    if (step == JsonStream::Step::kError || step == JsonStream::Step::kAfter) return false;
    ended_ = step == JsonStream::Step::kDone;
    out += c;
  }
  any_ |= !json.empty();
  return true;
}

bool PythonValue::flush_word(std::string& out) {
  const bool good = write(json_word(word_), out);
  word_.clear();
  return good;
}

PythonValue::Step PythonValue::string_byte(char c, std::string& out) {
  const auto step = [](bool good) { return good ? Step::kMore : Step::kError; };
  if (hex_ > 0) {
    --hex_;
    return step(write({&c, 1}, out));
  }
  if (escaped_) {
    escaped_ = false;
    if (c == 'x') {
      hex_ = 2;
      return step(write("\\u00", out));
    }
    if (c == '\'') return step(write("'", out));
    if (c == '\n') return Step::kMore;
    std::string escape = "\\";
    if (std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos) {
      escape += c;
    } else {
      escape += '\\';
      append_escaped(c, escape);
    }
    return step(write(escape, out));
  }
  if (c == '\\') {
    escaped_ = true;
    return Step::kMore;
  }
  if (c == quote_) {
    quote_ = '\0';
    return step(write("\"", out));
  }
  std::string text;
  append_escaped(c, text);
  return step(write(text, out));
}

PythonValue::Step PythonValue::push(char c, std::string& out) {
  const auto step = [](bool good) { return good ? Step::kMore : Step::kError; };
  if (quote_ != '\0') return string_byte(c, out);
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '+' || c == '-' || c == '.' || c == '_';
  if (letter) {
    word_ += c;
    return word_.size() > 400 ? Step::kError : Step::kMore;
  }
  if (!word_.empty() && !flush_word(out)) return Step::kError;
  if (is_white_space(c)) return Step::kMore;
  const bool closes = c == ')' || c == ']' || c == '}';
  if (levels_.empty() && (closes || c == ',')) {
    return any_ && (ended_ || check_.may_end()) ? Step::kAfter : Step::kError;
  }
  if (c == '\'' || c == '"') {
    quote_ = c;
    return step(write("\"", out));
  }
  if (c == '[' || c == '(') {
    levels_ += c == '[' ? ']' : ')';
    return step(write("[", out));
  }
  if (c == '{') {
    levels_ += '}';
    return step(write("{", out));
  }
  if (closes) {
    if (levels_.back() != c) return Step::kError;
    levels_.pop_back();
    return step(write(c == '}' ? "}" : "]", out));
  }
  return c == ':' || c == ',' ? step(write({&c, 1}, out)) : Step::kError;
}

}  // namespace chimere::text
