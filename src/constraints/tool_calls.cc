#include "constraints/tool_calls.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "constraints/json_schema/node.h"
#include "constraints/json_schema/uri.h"
#include "constraints/regular_parts.h"
#include "text/tool_values.h"

namespace chimere::constraints {
namespace {

using ToolJson = nlohmann::ordered_json;
using Format = text::ToolFormat;
using Style = Format::Style;
using Id = Grammar::Id;

constexpr std::string_view kAnyObject = R"({"type":"object"})";
constexpr std::string_view kNoParameters =
    R"({"type":"object","properties":{},"additionalProperties":false})";

/// llguidance's options, which hold for the whole schema.
constexpr const char* kGuidance = "x-guidance";

/// Deepest nesting of a tool's schema; more than a chat template can show.
constexpr int kMostNesting = 200;

int nesting(std::string_view json) {
  int depth = 0;
  int most = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[')) {
      most = std::max(most, ++depth);
    } else if (!in_string && (c == '}' || c == ']')) {
      --depth;
    }
  }
  return most;
}

class ToolGrammar {
 public:
  ToolGrammar(const Format& format, const text::Tokenizer& tokenizer) : format_(format) {
    for (const std::string& marker : format.markers()) {
      const int32_t token = tokenizer.find(marker);
      if (token >= 0 && tokenizer.is_control(token)) controls_.emplace_back(marker, token);
    }
  }

  Grammar take(Id root) {
    grammar_.set_root(root);
    return std::move(grammar_);
  }
  Grammar& grammar() { return grammar_; }

  /// The control token of a marker; -1: it is text.
  int32_t control(std::string_view marker) const {
    for (const auto& [text, token] : controls_) {
      if (text == marker) return token;
    }
    return -1;
  }

  /// A fixed text of the format, in which markers may be control tokens.
  Id fixed(std::string_view text) {
    std::vector<Id> parts;
    std::string plain;
    const auto flush = [&] {
      if (!plain.empty()) parts.push_back(grammar_.literal(plain));
      plain.clear();
    };
    while (!text.empty()) {
      const std::pair<std::string, int32_t>* best = nullptr;
      for (const auto& marker : controls_) {
        const bool longer = best == nullptr || marker.first.size() > best->first.size();
        if (text.starts_with(marker.first) && longer) best = &marker;
      }
      if (best == nullptr) {
        plain += text.front();
        text.remove_prefix(1);
        continue;
      }
      flush();
      parts.push_back(grammar_.token(best->second));
      text.remove_prefix(best->first.size());
    }
    flush();
    return grammar_.sequence(std::move(parts));
  }

  /// One call, from its name on. `checked`: the arguments are valid under the schema.
  Result<Id> call(const text::Tool& tool, bool checked) {
    CHIMERE_TRY(const Id arguments, arguments_of(tool, checked));
    std::vector<Id> parts = {grammar_.literal(tool.name)};
    if (format_.ids == Format::Ids::kNumbered) {
      parts.push_back(grammar_.literal(":"));
      parts.push_back(grammar_.repeat(grammar_.characters({{'0', '9'}}), 1, 3));
    }
    parts.push_back(fixed(format_.after_name));
    if (!format_.after_id.empty()) {
      parts.push_back(id());
      parts.push_back(fixed(format_.after_id));
    }
    parts.push_back(arguments);
    if (!format_.before_id.empty()) {
      parts.push_back(fixed(format_.before_id));
      parts.push_back(id());
    }
    parts.push_back(fixed(format_.call_close));
    return grammar_.sequence(std::move(parts));
  }

  Result<Id> calls(const ToolCallsSpec& spec) {
    std::vector<Id> alternatives;
    for (const text::Tool& tool : spec.tools) {
      if (spec.choice == ToolCallsSpec::Choice::kNamed && tool.name != spec.named) continue;
      const bool checked = tool.strict || spec.choice != ToolCallsSpec::Choice::kAuto;
      CHIMERE_TRY(const Id made, call(tool, checked));
      alternatives.push_back(made);
    }
    if (alternatives.empty()) return invalid_argument("There is no tool to call.");
    return grammar_.choice(std::move(alternatives));
  }

 private:
  Id id() {
    const Id letter = grammar_.characters({{'a', 'z'}, {'A', 'Z'}, {'0', '9'}});
    return grammar_.repeat(letter, 9, 9);
  }

  static Error at_keyword(const text::Tool& tool, Error::Code code, std::string_view keyword,
                          const std::string& sentence) {
    const std::string pointer = "/" + json_schema::escape_pointer_token(keyword);
    return at_place(place_of(tool), {code, json_schema::error_place(pointer) + sentence});
  }

  Result<Id> arguments_of(const text::Tool& tool, bool checked) {
    const auto invalid = [&](const char* sentence) {
      return at_place(place_of(tool), invalid_argument(json_schema::error_place("") + sentence));
    };
    if (nesting(tool.parameters) > kMostNesting) return invalid("the schema is nested too deeply");
    ToolJson schema =
        ToolJson::parse(tool.parameters.empty() ? kNoParameters : std::string_view(tool.parameters),
                        nullptr, false);
    if (!schema.is_object()) return invalid("the parameters must be an object, a JSON Schema");
    const auto type = schema.find("type");
    if (type == schema.end()) {
      schema["type"] = "object";
    } else if (*type != "object") {
      return at_keyword(tool, Error::Code::kInvalidArgument, "type", "the type must be object");
    }
    close_properties(schema);
    const bool fields = format_.style == Style::kTagged || format_.style == Style::kPython;
    if (!fields) {
      return grammar_.json_schema(checked ? schema_text(schema) : kAnyObject, place_of(tool));
    }
    return checked ? checked_fields(tool, schema) : free_fields(tool, schema);
  }

  /// A schema that names its properties and nothing else means them all: a model that may add
  /// others can add them without end.
  static void close_properties(ToolJson& schema) {
    constexpr std::string_view kOpening[] = {"additionalProperties",
                                             "patternProperties",
                                             "unevaluatedProperties",
                                             "propertyNames",
                                             "minProperties",
                                             "allOf",
                                             "anyOf",
                                             "oneOf",
                                             "if",
                                             "$ref",
                                             "dependentSchemas",
                                             "dependencies"};
    const bool opens = std::ranges::any_of(
        kOpening, [&](std::string_view keyword) { return schema.contains(keyword); });
    const auto properties = schema.find("properties");
    if (properties != schema.end() && properties->is_object() && !opens) {
      schema["additionalProperties"] = false;
    }
  }

  static std::string schema_text(const ToolJson& schema) {
    return schema.dump(-1, ' ', false, ToolJson::error_handler_t::replace);
  }

  static Grammar::SchemaPlace place_of(const text::Tool& tool) {
    return {"of the tool '" + tool.name + "'", "", ""};
  }

  /// A schema of a parameter as a document of its own, which begins at `place`.
  static std::string part_of(const ToolJson& root, const ToolJson& part,
                             Grammar::SchemaPlace& place) {
    std::string text = schema_text(part);
    if (text.find("$ref") == std::string::npos && !root.contains(kGuidance)) return text;
    place.nested = "/allOf/0";
    std::string out = "{";
    for (const char* name : {"$schema", "$defs", "definitions", kGuidance}) {
      const auto member = root.find(name);
      if (member == root.end()) continue;
      out += text::json_quoted(name) + ":" + schema_text(*member) + ",";
    }
    return out + "\"allOf\":[" + text + "]}";
  }

  /// A parameter's value and the text that closes it.
  Id value(const ToolJson& root, const ToolJson& schema, text::ParameterKind kind,
           Grammar::SchemaPlace place) {
    const std::string_view close = format_.parameter_close;
    const std::string part = part_of(root, schema, place);
    if (format_.style == Style::kPython) return grammar_.json_schema(part, std::move(place));
    const bool text =
        kind == text::ParameterKind::kText || kind == text::ParameterKind::kTextOrNull;
    if (!text) {
      return grammar_.sequence({grammar_.json_schema(part, std::move(place)), fixed(close)});
    }
    if (is_free(schema) && control(stripped(close)) < 0) return grammar_.text_until(close);
    const bool or_null = kind == text::ParameterKind::kTextOrNull;
    return grammar_.sequence(
        {grammar_.schema_text(part, close, or_null, std::move(place)), fixed(close)});
  }

  static std::string_view stripped(std::string_view text) {
    while (!text.empty() && text.front() == '\n') text.remove_prefix(1);
    return text;
  }

  /// Whether a schema says nothing of a string but that it is one.
  static bool is_free(const ToolJson& schema) {
    constexpr auto kNothing = std::to_array<std::string_view>(
        {"type", "title", "description", "default", "examples", "$comment"});
    return std::ranges::all_of(schema.items(), [&](const auto& member) {
      return std::ranges::find(kNothing, member.key()) != kNothing.end();
    });
  }

  Id parameter(const std::string& key, Id value) {
    if (format_.style == Style::kPython) {
      return grammar_.sequence({grammar_.literal(key + "="), value});
    }
    return grammar_.sequence(
        {fixed(format_.parameter_open), grammar_.literal(key), fixed(format_.after_key), value});
  }

  /// Parameters in the schema's order; those that are not required may be left out.
  Result<Id> checked_fields(const text::Tool& tool, const ToolJson& schema) {
    constexpr auto kRead = std::to_array<std::string_view>(
        {"type", "properties", "required", "additionalProperties", "title", "description", "$defs",
         "definitions", "$schema", "$id", "$comment", "examples", "default", kGuidance});
    for (const auto& [word, ignored] : schema.items()) {
      if (std::ranges::find(kRead, word) != kRead.end()) continue;
      return at_keyword(tool, Error::Code::kUnsupported, word,
                        "the keyword is not supported beside the parameters of a model that "
                        "writes them one by one");
    }
    static const ToolJson none = ToolJson::object();
    const auto member = schema.find("properties");
    const ToolJson& properties = member == schema.end() ? none : *member;
    const text::ToolParameters kinds(tool.parameters);
    std::vector<std::string> required;
    if (const auto list = schema.find("required"); list != schema.end() && list->is_array()) {
      for (const ToolJson& name : *list) {
        if (name.is_string()) required.push_back(name.get<std::string>());
      }
    }
    struct Parameter {
      Id id;
      bool required;
    };
    std::vector<Parameter> parameters;
    if (!properties.is_object()) {
      return at_keyword(tool, Error::Code::kInvalidArgument, "properties",
                        "\"properties\" must be an object");
    }
    for (const auto& [key, part] : properties.items()) {
      const auto needed = std::ranges::find(required, key);
      Grammar::SchemaPlace place = place_of(tool);
      place.pointer = "/properties/" + json_schema::escape_pointer_token(key);
      const Id made = value(schema, part, kinds.kind(key), std::move(place));
      parameters.push_back({parameter(key, made), needed != required.end()});
      if (needed != required.end()) required.erase(needed);
    }
    if (!required.empty()) {
      return at_keyword(tool, Error::Code::kUnsupported, "required",
                        "\"" + required.front() + "\" is not among the properties");
    }
    if (format_.style != Style::kPython) {
      std::vector<Id> parts;
      for (const Parameter& p : parameters) {
        parts.push_back(p.required ? p.id : grammar_.optional(p.id));
      }
      return grammar_.sequence(std::move(parts));
    }
    // With commas between: built from the end, for each place with and without one before.
    const Id comma = grammar_.literal(", ");
    Id first = grammar_.sequence({});
    Id later = first;
    for (size_t i = parameters.size(); i-- > 0;) {
      const auto& [made, needed] = parameters[i];
      const int32_t rule = grammar_.add_rule("parameters" + std::to_string(rules_++));
      grammar_.define(rule, later);
      const Id rest = grammar_.reference(rule);
      const Id here = grammar_.sequence({made, rest});
      const Id behind = grammar_.sequence({comma, made, rest});
      const Id skipped_first = first;
      first = needed ? here : grammar_.choice({here, skipped_first});
      later = needed ? behind : grammar_.choice({behind, rest});
    }
    return first;
  }

  /// Known parameters in any order, with any values of their kinds.
  Id free_fields(const text::Tool& tool, const ToolJson& schema) {
    const text::ToolParameters kinds(tool.parameters);
    const ToolJson any = true;
    std::vector<Id> choices;
    const auto member = schema.find("properties");
    if (member != schema.end() && member->is_object()) {
      for (const auto& [key, part] : member->items()) {
        choices.push_back(parameter(key, free_value(kinds.kind(key))));
      }
    }
    if (choices.empty()) {
      if (tool.parameters.empty()) return grammar_.sequence({});
      const Id letter = grammar_.characters({{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}});
      const Id value = free_value(text::ParameterKind::kAny);
      const Id key = grammar_.repeat(letter, 1, 64);
      choices.push_back(format_.style == Style::kPython
                            ? grammar_.sequence({key, grammar_.literal("="), value})
                            : grammar_.sequence({fixed(format_.parameter_open), key,
                                                 fixed(format_.after_key), value}));
    }
    const Id one = grammar_.choice(std::move(choices));
    if (format_.style != Style::kPython) return grammar_.repeat(one, 0, Grammar::kUnbounded);
    const Id next = grammar_.sequence({grammar_.literal(", "), one});
    return grammar_.optional(
        grammar_.sequence({one, grammar_.repeat(next, 0, Grammar::kUnbounded)}));
  }

  Id free_value(text::ParameterKind kind) {
    static const ToolJson any = ToolJson::object();
    const bool text = kind != text::ParameterKind::kJson;
    if (format_.style == Style::kPython || !text) return value(any, any, kind, {});
    return value(any, any, text::ParameterKind::kText, {});
  }

  const Format& format_;
  std::vector<std::pair<std::string, int32_t>> controls_;
  Grammar grammar_;
  int32_t rules_ = 0;
};

/// A generation in gpt-oss's channels.
Result<Grammar> harmony_grammar(const Format& format, const ToolCallsSpec& spec,
                                const text::Tokenizer& tokenizer) {
  ToolGrammar build(format, tokenizer);
  Grammar& g = build.grammar();
  const Id next = build.fixed("<|end|><|start|>assistant");
  const Id text = g.text_without(format.markers());
  const auto message = [&](std::string_view channel) {
    return g.sequence(
        {build.fixed("<|channel|>" + std::string(channel) + "<|message|>"), text, next});
  };
  std::vector<Id> last;
  if (!spec.tools.empty()) {
    CHIMERE_TRY(const Id calls, build.calls(spec));
    last.push_back(g.sequence({build.fixed("<|channel|>commentary to=functions."), calls}));
  }
  const bool content = spec.choice == ToolCallsSpec::Choice::kAuto;
  if (content) {
    const Id written = spec.content_schema.empty() ? text : g.json_schema(spec.content_schema);
    last.push_back(g.sequence({build.fixed(text::kHarmonyAnswer), written}));
  }
  // Commentary is content: beside a schema there is none.
  std::vector<Id> channels = {message("analysis")};
  if (spec.content_schema.empty()) channels.push_back(message("commentary"));
  const Id before = g.choice(std::move(channels));
  const Id root = g.sequence({g.repeat(before, 0, Grammar::kUnbounded), g.choice(std::move(last))});
  if (!spec.opened) return build.take(root);
  const Id others = g.sequence({next, root});
  if (!content) return build.take(others);
  return build.take(g.choice({text, g.sequence({text, others})}));
}

/// Tags that stand in no text beside calls: those of calls, without the one that begins them, and
/// `others`. A model that writes one has lost its way, and clients must not see it.
std::vector<std::string> markup(const Format& format, std::span<const std::string> others,
                                std::string_view begin) {
  std::vector<std::string> out;
  for (std::string& marker : format.markers()) {
    // `<tool_call>`, or the beginning of `<function=NAME>`.
    const bool tag = marker.size() > 2 && marker.front() == '<' &&
                     (marker.back() == '>' || marker.back() == '=');
    const bool word = marker.size() > 4 && marker.front() == '[' && marker.back() == ']';
    const bool of_trigger = begin.find(marker) != std::string_view::npos;
    if ((tag || word) && !of_trigger) out.push_back(std::move(marker));
  }
  for (const std::string& tag : others) {
    if (begin.find(tag) == std::string_view::npos) out.push_back(tag);
  }
  return out;
}

/// gpt-oss's calls in the form of the others.
Format harmony_calls(Format format) {
  format.after_name = " <|constrain|>json<|message|>";
  return format;
}

}  // namespace

Result<ConstraintSpec> tool_calls_constraint(const text::ToolFormat& format,
                                             const ToolCallsSpec& spec,
                                             const text::Tokenizer& tokenizer) {
  using Choice = ToolCallsSpec::Choice;
  ConstraintSpec out;
  if (format.style == Style::kHarmony) {
    const Format calls = harmony_calls(format);
    CHIMERE_TRY(out.content, harmony_grammar(calls, spec, tokenizer));
    return out;
  }
  const std::string open = format.section_open + format.call_open;
  std::string begin = format.trigger();
  const bool at_start = begin.empty();
  if (at_start) begin = open;
  const size_t at = open.find(begin);
  if (begin.empty() || at == std::string::npos) {
    return unsupported("This model's format of tool calls has no beginning.");
  }
  const std::string behind = open.substr(at + begin.size());
  // A section holds all calls; without one, each call begins with the trigger.
  const bool section = !format.section_open.empty();
  const bool several = spec.parallel && format.parallel && spec.choice != Choice::kNamed;
  ToolGrammar build(format, tokenizer);
  Grammar& g = build.grammar();
  CHIMERE_TRY(const Id call, build.calls(spec));
  std::vector<Id> parts = {build.fixed(behind), call};
  if (section && several) {
    const Id next = g.sequence({build.fixed(format.separator + format.call_open), call});
    parts.push_back(g.repeat(next, 0, Grammar::kUnbounded));
  }
  parts.push_back(build.fixed(format.section_close));
  const Id body = g.sequence(std::move(parts));
  if (spec.choice == Choice::kAuto && !spec.content_schema.empty()) {
    const Id one = g.sequence({build.fixed(begin), body});
    const Id more = g.sequence({build.fixed(format.separator), one});
    const Id all =
        section || !several ? one : g.sequence({one, g.repeat(more, 0, Grammar::kUnbounded)});
    out.content = build.take(g.choice({all, g.json_schema(spec.content_schema)}));
    return out;
  }
  TriggeredSpec triggered;
  TriggeredSpec::Trigger& trigger = triggered.triggers.emplace_back();
  trigger.begin.text = begin;
  trigger.begin.token = build.control(begin);
  trigger.at_start = at_start;
  trigger.body = build.take(body);
  triggered.excluded = markup(format, spec.excluded, begin);
  triggered.text_before = spec.choice == Choice::kAuto;
  triggered.min_calls = spec.choice == Choice::kAuto ? 0 : 1;
  triggered.max_calls = !section && several ? -1 : 1;
  out.content = std::move(triggered);
  return out;
}

}  // namespace chimere::constraints
