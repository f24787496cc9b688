#include "text/tool_format.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/jinja/json.h"

namespace chimere::text {
namespace {

using jinja::Dict;
using jinja::MarkedText;
using jinja::Value;
using Style = ToolFormat::Style;
using Ids = ToolFormat::Ids;

constexpr std::string_view kToolSpace = " \t\r\n";

std::string_view left_stripped(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kToolSpace), text.size()));
}

std::string_view right_stripped(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kToolSpace) + 1);
}

std::string_view stripped(std::string_view text) { return right_stripped(left_stripped(text)); }

bool contains_text(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Whether `at` lies inside a tag like <function=NAME> or [TOOL_CALLS] of the text; then its
/// beginning goes to `begin`.
bool inside_tag(std::string_view text, size_t at, size_t& begin) {
  for (const auto& [open, close] : {std::pair('<', '>'), std::pair('[', ']')}) {
    const std::string_view before = text.substr(0, at);
    const size_t last = before.rfind(open);
    if (last == std::string_view::npos || contains_text(before.substr(last), {&close, 1})) continue;
    // A bracket is a tag only if an upper-case letter follows; else it is a list.
    const bool tag =
        open == '<' || (last + 1 < text.size() && text[last + 1] >= 'A' && text[last + 1] <= 'Z');
    if (!tag || !contains_text(text.substr(at), {&close, 1})) continue;
    begin = last;
    return true;
  }
  return false;
}

/// The longest common end of two texts that does not begin inside a tag or a character.
std::string_view common_end(std::string_view a, std::string_view b) {
  const auto [x, y] = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  auto n = static_cast<size_t>(x - a.rbegin());
  size_t begin = 0;
  const auto cut = [&](std::string_view text) {
    while (n > 0 && inside_tag(text, text.size() - n, begin)) --n;
    while (n > 0 && (static_cast<uint8_t>(text[text.size() - n]) & 0xC0U) == 0x80U) --n;
  };
  cut(a);
  cut(b);
  return a.substr(a.size() - n);
}

/// The longest common beginning of two texts that does not end inside a tag or a character.
std::string_view common_begin(std::string_view a, std::string_view b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  auto n = static_cast<size_t>(x - a.begin());
  size_t begin = 0;
  if (inside_tag(a, n, begin)) n = begin;
  if (inside_tag(b, n, begin)) n = begin;
  while (n > 0 && n < a.size() && (static_cast<uint8_t>(a[n]) & 0xC0U) == 0x80U) --n;
  return a.substr(0, n);
}

struct ProbeCall {
  std::string name;
  std::string id;
  std::vector<std::pair<std::string, std::string>> arguments;  ///< texts
};

const ProbeCall kProbeA{"probe_alpha", "aAbBcC123", {{"first_key", "value one"}}};
const ProbeCall kProbeB{"probe_beta", "dDeEfF456", {{"other_key", "value two"}}};
const ProbeCall kProbeC{
    "probe_alpha", "aAbBcC123", {{"first_key", "value one"}, {"second_key", "value three"}}};
constexpr std::string_view kProbeText = "Zeroth words.";

/// Where a call stands in a rendering.
struct CallPlace {
  size_t name = 0;
  size_t arguments = 0;      ///< of JSON or Python: their beginning; of tags: the first key
  size_t arguments_end = 0;  ///< of tags: of the last value
};

class Prober {
 public:
  Prober(const ChatTemplate& chat_template, const ChatOptions& options,
         std::string_view reasoning_close)
      : template_(chat_template), options_(options), reasoning_close_(reasoning_close) {
    constexpr int64_t kMostSteps = 1'000'000;
    options_.limits.steps = std::min(options_.limits.steps, kMostSteps);
  }

  /// What the template does with tools, and with them the format if it follows from renderings.
  std::optional<ToolFormat> format(ToolFormat::Rendering& rendering) {
    find_rendering();
    rendering = rendering_;
    if (!rendering_.calls) return std::nullopt;
    ToolFormat out;
    if (!analyse(out)) return std::nullopt;
    out.rendering = rendering_;
    return out;
  }

 private:
  Value message(std::string_view role, std::string_view content) const {
    return chat_message(role, content);
  }

  Value arguments_of(const ProbeCall& call) const {
    if (rendering_.string_arguments) {
      nlohmann::ordered_json json = nlohmann::ordered_json::object();
      for (const auto& [key, value] : call.arguments) json[key] = value;
      return Value::string(json.dump(), false);
    }
    Dict arguments;
    for (const auto& [key, value] : call.arguments) {
      arguments.set(Value::string(key, false), Value::string(value, false));
    }
    return Value::dict(std::move(arguments));
  }

  Value assistant(std::span<const ProbeCall> calls, std::string_view content) const {
    std::vector<Value> list;
    for (size_t i = 0; i < calls.size(); ++i) {
      const ProbeCall& call = calls[i];
      Dict function;
      function.set("name", Value::string(call.name, false));
      function.set("arguments", arguments_of(call));
      Dict entry;
      const std::string id =
          numbered_ ? "functions." + call.name + ":" + std::to_string(i) : call.id;
      entry.set("id", Value::string(id, false));
      entry.set("type", Value::string("function", true));
      entry.set("function", Value::dict(std::move(function)));
      list.push_back(Value::dict(std::move(entry)));
    }
    Dict out;
    out.set("role", Value::string("assistant", true));
    out.set("content", rendering_.none_content && content.empty() ? Value::none()
                                                                  : Value::string(content, false));
    out.set("tool_calls", Value::list(std::move(list)));
    return Value::dict(std::move(out));
  }

  std::optional<std::string> render(std::vector<Value> messages, bool generation_prompt) const {
    ChatOptions options = options_;
    options.add_generation_prompt = generation_prompt;
    auto out = template_.render(Value::list(std::move(messages)), options);
    if (!out.ok()) return std::nullopt;
    return std::move(out->text);
  }
  Value question() const { return message("user", "Why?"); }

  std::optional<std::string> render_calls(std::span<const ProbeCall> calls,
                                          std::string_view content = "") const {
    return render({question(), assistant(calls, content)}, false);
  }

  /// Whether the rendering has the calls with their arguments as a model would write them.
  static bool shows(const std::optional<std::string>& text, std::span<const ProbeCall> calls) {
    if (!text) return false;
    for (const ProbeCall& call : calls) {
      if (!contains_text(*text, call.name)) return false;
      for (const auto& [key, value] : call.arguments) {
        if (!contains_text(*text, key) || !contains_text(*text, value)) return false;
        // A text written as JSON, or a mapping printed as Python does.
        if (contains_text(*text, "\\\"" + key) || contains_text(*text, "{'" + key)) return false;
      }
    }
    return true;
  }

  void find_rendering() {
    find_reasoning_key();
    if (options_.tools.is_none()) {
      Dict parameters;
      Dict properties;
      Dict property;
      property.set("type", Value::string("string", true));
      property.set("description", Value::string("probe_property", false));
      properties.set("probe_key", Value::dict(std::move(property)));
      parameters.set("type", Value::string("object", true));
      parameters.set("properties", Value::dict(std::move(properties)));
      Dict function;
      function.set("name", Value::string("probe_definition", false));
      function.set("description", Value::string("probe_description", false));
      function.set("parameters", Value::dict(std::move(parameters)));
      Dict tool;
      tool.set("type", Value::string("function", true));
      tool.set("function", Value::dict(std::move(function)));
      ChatOptions options = options_;
      options.tools = Value::list({Value::dict(std::move(tool))});
      options.add_generation_prompt = true;
      const auto text = template_.render(Value::list({question()}), options);
      rendering_.tools = text.ok() && contains_text(text->text, "probe_definition");
      if (rendering_.tools) options_.tools = options.tools;
    }
    for (const bool numbered : {false, true}) {
      for (const bool none : {false, true}) {
        for (const bool text : {false, true}) {
          numbered_ = numbered;
          rendering_.none_content = none;
          rendering_.string_arguments = text;
          rendering_.calls = shows(render_calls({&kProbeA, 1}), {&kProbeA, 1});
          if (rendering_.calls) break;
        }
        if (rendering_.calls) break;
      }
      if (rendering_.calls) break;
    }
    if (!rendering_.calls) {
      numbered_ = false;
      rendering_.none_content = false;
      rendering_.string_arguments = false;
    }
    const std::array two = {kProbeA, kProbeB};
    rendering_.several_calls = rendering_.calls && shows(render_calls(two), two);
    const auto both = render_calls({&kProbeA, 1}, kProbeText);
    rendering_.content_and_calls = rendering_.calls && !rendering_.none_content &&
                                   shows(both, {&kProbeA, 1}) && contains_text(*both, kProbeText);
    Dict result;
    result.set("role", Value::string("tool", true));
    result.set("content", Value::string("probe_result", false));
    result.set("name", Value::string(kProbeA.name, false));
    result.set("tool_call_id", Value::string(kProbeA.id, false));
    std::vector<Value> messages = {question()};
    messages.push_back(rendering_.calls ? assistant({&kProbeA, 1}, "")
                                        : message("assistant", kProbeText));
    messages.push_back(Value::dict(std::move(result)));
    const auto text = render(std::move(messages), true);
    rendering_.results = text && contains_text(*text, "probe_result");
  }

  void find_reasoning_key() {
    constexpr std::string_view kReasoning = "probe_reasoning";
    for (const std::string_view key : kReasoningKeys) {
      Dict answer;
      answer.set("role", Value::string("assistant", true));
      answer.set("content", Value::string(kProbeText, false));
      answer.set(key, Value::string(kReasoning, false));
      const auto text = render({question(), Value::dict(std::move(answer))}, false);
      if (!text || !contains_text(*text, kReasoning)) continue;
      rendering_.reasoning_key = key;
      return;
    }
  }

  /// The header of the assistant's turn in `text`, as long as the prompt and other messages have
  /// it.
  size_t header_end(const std::string& text, size_t most) const {
    std::vector<std::string> headers;
    if (auto prompt = render({question()}, true)) headers.push_back(*std::move(prompt));
    if (const auto plain = render({question(), message("assistant", kProbeText)}, false)) {
      const size_t at = plain->find(kProbeText);
      if (at != std::string::npos) headers.push_back(plain->substr(0, at));
    }
    size_t best = 0;
    for (const std::string& header : headers) {
      const bool fits = header.size() <= most && text.starts_with(header);
      if (fits) best = std::max(best, header.size());
    }
    for (const std::string& header : headers) {
      if (best > 0) break;
      best = std::min(common_begin(text, header).size(), most);
    }
    return best;
  }

  /// What ends a message of the assistant.
  std::string message_end() const {
    const auto plain = render({question(), message("assistant", kProbeText)}, false);
    if (!plain) return "";
    const size_t at = plain->find(kProbeText);
    return at == std::string::npos ? "" : plain->substr(at + kProbeText.size());
  }

  /// Finds a call in a rendering, in which `style` was found for its arguments.
  static std::optional<CallPlace> find_call(const std::string& text, size_t from,
                                            const ProbeCall& call, std::optional<Style>& style) {
    CallPlace out;
    out.name = text.find(call.name, from);
    if (out.name == std::string::npos) return std::nullopt;
    const auto& [first, first_value] = call.arguments.front();
    const size_t key = text.find(first, out.name + call.name.size());
    const size_t value = text.find(call.arguments.back().second, out.name);
    if (key == std::string::npos || value == std::string::npos) return std::nullopt;
    const size_t value_end = value + call.arguments.back().second.size();
    const std::string_view before(text.data(), key);
    const bool quoted = before.ends_with('"');
    const std::string_view outside =
        quoted ? right_stripped(before.substr(0, before.size() - 1)) : "";
    Style found = Style::kTagged;
    if (outside.ends_with('{')) {
      found = Style::kNamed;
      out.arguments = outside.size() - 1;
      const size_t end = text.find('}', value_end);
      if (end == std::string::npos) return std::nullopt;
      out.arguments_end = end + 1;
    } else if (before.substr(0, key).ends_with(call.name + "(")) {
      found = Style::kPython;
      out.arguments = key;
      const size_t end = text.find(')', value_end);
      if (end == std::string::npos) return std::nullopt;
      out.arguments_end = end;
    } else {
      out.arguments = key;
      out.arguments_end = value_end;
    }
    if (style && *style != found) return std::nullopt;
    style = found;
    return out;
  }

  bool analyse(ToolFormat& out) const {
    const auto one = render_calls({&kProbeA, 1});
    std::optional<Style> style;
    const auto place = find_call(*one, 0, kProbeA, style);
    if (!place) return false;
    out.style = *style;
    std::string open = one->substr(header_end(*one, place->name));
    open.resize(place->name - (one->size() - open.size()));
    if (rendering_.content_and_calls) {
      const auto both = render_calls({&kProbeA, 1}, kProbeText);
      const size_t at = both->find(kProbeText);
      const size_t name = both->find(kProbeA.name, at);
      if (name == std::string::npos) return false;
      const std::string between =
          both->substr(at + kProbeText.size(), name - at - kProbeText.size());
      open = std::string(common_end(open, between));
    }
    if (const size_t close = open.rfind(reasoning_close_);
        !reasoning_close_.empty() && close != std::string::npos) {
      open.erase(0, close + reasoning_close_.size());
    }
    open = std::string(left_stripped(open));
    const size_t name_end = place->name + kProbeA.name.size();
    out.after_name = one->substr(name_end, place->arguments - name_end);
    std::string close = one->substr(place->arguments_end);
    const std::string end = message_end();
    close.resize(close.size() - common_end(close, end).size());
    // The end of a message with calls may be another token than that of other messages.
    size_t tag = 0;
    if (const size_t at = close.rfind("<|e"); at != std::string::npos) {
      if (contains_text(close.substr(at), "_id|>") || contains_text(close.substr(at), "<|end")) {
        close.resize(at);
      }
    } else if (inside_tag(close + ">", close.size(), tag)) {
      close.resize(tag);
    }
    close = std::string(right_stripped(close));
    // Only an object is told from text by itself.
    if (open.empty()) return false;
    return (out.style != Style::kTagged || analyse_parameters(out, close)) &&
           analyse_ids(out, open, close) && analyse_section(out, open, close) &&
           analyse_keys(out) && verified(out);
  }

  /// Of kTagged: the texts around keys and values; takes the last parameter's end from `close`.
  bool analyse_parameters(ToolFormat& out, std::string& close) const {
    const auto two = render_calls({&kProbeC, 1});
    if (!two) return false;
    std::optional<Style> style = Style::kTagged;
    const auto place = find_call(*two, 0, kProbeC, style);
    if (!place) return false;
    const auto& [first, first_value] = kProbeC.arguments[0];
    const auto& [second, second_value] = kProbeC.arguments[1];
    const size_t key_end = place->arguments + first.size();
    const size_t value = two->find(first_value, key_end);
    const size_t next = two->find(second, value);
    if (next == std::string::npos) return false;
    out.after_key = two->substr(key_end, value - key_end);
    const size_t value_end = value + first_value.size();
    std::string_view between = std::string_view(*two).substr(value_end, next - value_end);
    out.parameter_open = std::string(common_end(between, out.after_name));
    out.after_name.resize(out.after_name.size() - out.parameter_open.size());
    between.remove_suffix(out.parameter_open.size());
    if (!close.starts_with(between)) return false;
    out.parameter_close = std::string(between);
    close.erase(0, between.size());
    return !out.parameter_open.empty() && !out.parameter_close.empty();
  }

  bool analyse_ids(ToolFormat& out, std::string& open, std::string& close) const {
    if (const size_t at = out.after_name.find(kProbeA.id); at != std::string::npos) {
      out.after_id = out.after_name.substr(at + kProbeA.id.size());
      out.after_name.resize(at);
    }
    if (const size_t at = close.find(kProbeA.id); at != std::string::npos) {
      out.before_id = close.substr(0, at);
      close.erase(0, at + kProbeA.id.size());
    }
    if (open.ends_with("functions.") && out.after_name.starts_with(":0")) {
      out.ids = Ids::kNumbered;
      out.after_name.erase(0, 2);
    } else if (!out.after_id.empty() || !out.before_id.empty()) {
      ProbeCall other = kProbeA;
      other.id = "call_0123456789";
      if (!render_calls({&other, 1})) out.ids = Ids::kNineLetters;
    }
    return !contains_text(open, kProbeA.id);
  }

  /// Divides what stands in front of, between and behind calls.
  bool analyse_section(ToolFormat& out, const std::string& open, const std::string& close) const {
    out.parallel = rendering_.several_calls;
    if (!rendering_.several_calls) {
      const size_t object = out.style == Style::kNamed ? open.rfind('{') : std::string::npos;
      const size_t at = object == std::string::npos ? 0 : object;
      out.section_open = open.substr(0, at);
      out.call_open = open.substr(at);
      out.call_close = close;
      if (object != std::string::npos) {
        const size_t brace = close.find('}');
        if (brace == std::string::npos) return false;
        out.call_close = close.substr(0, brace + 1);
        out.section_close = close.substr(brace + 1);
      }
      return true;
    }
    const std::array calls = {kProbeA, kProbeB};
    const auto two = render_calls(calls);
    std::optional<Style> style = out.style;
    const auto a = find_call(*two, 0, kProbeA, style);
    if (!a) return false;
    const auto b = find_call(*two, a->arguments_end, kProbeB, style);
    if (!b) return false;
    std::string_view between =
        std::string_view(*two).substr(a->arguments_end, b->name - a->arguments_end);
    if (!out.parameter_close.empty()) {
      if (!between.starts_with(out.parameter_close)) return false;
      between.remove_prefix(out.parameter_close.size());
    }
    if (!out.before_id.empty()) {
      const size_t at = between.find(kProbeA.id);
      if (at == std::string_view::npos) return false;
      between.remove_prefix(at + kProbeA.id.size());
    }
    std::string_view call_open = common_end(between, open);
    const std::string_view call_close =
        common_begin(between.substr(0, between.size() - call_open.size()), close);
    between = between.substr(call_close.size());
    between.remove_suffix(call_open.size());
    out.call_open = std::string(call_open);
    out.section_open = open.substr(0, open.size() - call_open.size());
    out.call_close = std::string(call_close);
    out.section_close = close.substr(call_close.size());
    out.separator = std::string(between);
    return true;
  }

  /// The key whose value begins where `text` ends; empty: `text` ends otherwise.
  static std::string key_before(std::string_view text, std::string_view value_begin) {
    if (!text.ends_with(value_begin)) return "";
    text.remove_suffix(value_begin.size());
    text = right_stripped(text);
    if (!text.ends_with(':')) return "";
    text = right_stripped(text.substr(0, text.size() - 1));
    if (!text.ends_with('"')) return "";
    text.remove_suffix(1);
    const size_t begin = text.rfind('"');
    return begin == std::string_view::npos ? "" : std::string(text.substr(begin + 1));
  }

  /// Tells an object with a name from a name with an object.
  static bool analyse_keys(ToolFormat& out) {
    if (out.style == Style::kPython) {
      if (out.call_open.empty() || out.section_open.empty()) {
        out.section_open += out.call_open;
        out.call_open.clear();
      }
      return true;
    }
    if (out.style != Style::kNamed) return true;
    const std::string name = key_before(out.section_open + out.call_open, "\"");
    if (name.empty()) return true;
    const std::string arguments = key_before(out.after_name, "");
    if (arguments.empty() || !contains_text(out.call_close, "}")) return false;
    out.style = Style::kObject;
    out.name_key = name;
    out.arguments_key = arguments;
    return true;
  }

  /// The format writes what the template writes.
  bool verified(const ToolFormat& format) const {
    std::vector<ProbeCall> calls = {kProbeC};
    if (rendering_.several_calls) calls.push_back(kProbeB);
    const auto rendered = render_calls(calls);
    if (!rendered) return false;
    std::vector<ToolCall> written;
    for (const ProbeCall& call : calls) {
      nlohmann::ordered_json json;
      for (const auto& [key, value] : call.arguments) json[key] = value;
      written.push_back({call.id, call.name, json.dump()});
    }
    const auto without_space = [](std::string_view text) {
      std::string out;
      std::ranges::copy_if(text, std::back_inserter(out),
                           [](char c) { return kToolSpace.find(c) == std::string_view::npos; });
      return out;
    };
    return contains_text(without_space(*rendered),
                         without_space(write_tool_calls(format, written).bytes()));
  }

  const ChatTemplate& template_;
  ChatOptions options_;
  std::string_view reasoning_close_;
  ToolFormat::Rendering rendering_;
  bool numbered_ = false;
};

using WriteJson = nlohmann::ordered_json;

std::string json_text(const WriteJson& value) {
  return value.dump(-1, ' ', false, WriteJson::error_handler_t::replace);
}

/// A JSON value as a literal of Python.
std::string python_literal(const WriteJson& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_array()) {
    std::string out = "[";
    for (const WriteJson& item : value) out += (out.size() > 1 ? ", " : "") + python_literal(item);
    return out + "]";
  }
  if (value.is_object()) {
    std::string out = "{";
    for (const auto& [key, item] : value.items()) {
      out += (out.size() > 1 ? ", " : "") + json_text(key) + ": " + python_literal(item);
    }
    return out + "}";
  }
  return json_text(value);
}

/// The arguments as an object; empty where the text is another document, or nested too deeply for
/// what is recursive here.
WriteJson arguments_object(const std::string& text) {
  if (!jinja::parse_json(text).ok()) return WriteJson::object();
  WriteJson parsed = WriteJson::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : WriteJson::object();
}

}  // namespace

ToolFormat ToolFormat::of(const ChatTemplate& chat_template, std::string_view source,
                          const ChatOptions& options, std::string_view reasoning_close,
                          const Tokenizer* vocabulary) {
  Rendering rendering;
  Prober prober(chat_template, options, reasoning_close);
  ToolFormat written = written_tool_format(source, vocabulary);
  if (written.style != Style::kHarmony) {
    if (auto found = prober.format(rendering)) return *std::move(found);
  } else {
    (void)prober.format(rendering);
  }
  written.rendering = rendering;
  return written;
}

std::vector<std::string> ToolFormat::markers() const {
  if (style == Style::kHarmony) {
    return {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
            "<|end|>",   "<|call|>",    "<|return|>"};
  }
  std::vector<std::string> out;
  for (const std::string* text :
       {&section_open, &call_open, &after_name, &after_id, &before_id, &call_close, &separator,
        &section_close, &parameter_open, &after_key, &parameter_close}) {
    // Each tag alone, and what stands between tags.
    std::string_view rest = stripped(*text);
    while (!rest.empty()) {
      size_t end = rest.size();
      if (rest.front() == '<' || rest.front() == '[') {
        const size_t close = rest.find(rest.front() == '<' ? '>' : ']');
        if (close != std::string_view::npos) end = close + 1;
      } else {
        end = std::min(rest.find_first_of("<[", 1), rest.size());
      }
      std::string part(stripped(rest.substr(0, end)));
      if (!part.empty() && std::ranges::find(out, part) == out.end()) out.push_back(part);
      rest = left_stripped(rest.substr(end));
    }
  }
  return out;
}

std::string ToolFormat::trigger() const {
  if (style == Style::kHarmony) return "<|channel|>";
  const std::string open = section_open + call_open;
  std::string_view rest = left_stripped(open);
  if (rest.empty() || rest.front() == '{') return "";
  const size_t close = rest.find(rest.front() == '[' ? ']' : '>');
  return std::string(close == std::string_view::npos ? rest : rest.substr(0, close + 1));
}

MarkedText write_tool_calls(const ToolFormat& f, std::span<const ToolCall> calls) {
  MarkedText out(f.section_open, true);
  for (size_t i = 0; i < calls.size(); ++i) {
    const ToolCall& call = calls[i];
    if (i > 0) out.append(f.separator, true);
    out.append(f.call_open, true);
    out.append(call.name, false);
    if (f.ids == Ids::kNumbered) out.append(":" + std::to_string(i), false);
    out.append(f.after_name, true);
    if (!f.after_id.empty()) {
      out.append(call.id, false);
      out.append(f.after_id, true);
    }
    if (f.style == Style::kTagged) {
      const WriteJson object = arguments_object(call.arguments);
      for (const auto& [key, value] : object.items()) {
        out.append(f.parameter_open, true);
        out.append(key, false);
        out.append(f.after_key, true);
        out.append(value.is_string() ? value.get<std::string>() : json_text(value), false);
        out.append(f.parameter_close, true);
      }
    } else if (f.style == Style::kPython) {
      std::string arguments;
      const WriteJson object = arguments_object(call.arguments);
      for (const auto& [key, value] : object.items()) {
        arguments += (arguments.empty() ? "" : ", ") + key + "=" + python_literal(value);
      }
      out.append(arguments, false);
    } else {
      out.append(call.arguments.empty() ? "{}" : call.arguments, false);
    }
    if (!f.before_id.empty()) {
      out.append(f.before_id, true);
      out.append(call.id, false);
    }
    out.append(f.call_close, true);
  }
  out.append(f.section_close, true);
  return out;
}

}  // namespace chimere::text
