#include "text/tool_messages.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "text/jinja/json.h"

namespace chimere::text {
namespace {

using jinja::Dict;
using jinja::MarkedText;
using jinja::Value;

constexpr std::string_view kLettersAndDigits =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// An id of nine letters and digits that follows from `id`.
std::string nine_letters(const std::string& id) {
  constexpr size_t kLength = 9;
  if (id.size() == kLength && id.find_first_not_of(kLettersAndDigits) == std::string::npos) {
    return id;
  }
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  std::string out;
  for (size_t i = 0; i < kLength; ++i) {
    out += kLettersAndDigits[hash % kLettersAndDigits.size()];
    hash /= kLettersAndDigits.size();
  }
  return out;
}

Value plain(std::string_view text) { return Value::string(text, false); }

/// The schema of an object with an empty description of each property that has none.
Value described(const Value& parameters) {
  const Value* properties = parameters.as_dict().find("properties");
  if (properties == nullptr || !properties->is_dict()) return parameters;
  Dict all;
  for (const auto& [name, schema] : properties->as_dict().entries()) {
    Value value = schema;
    if (schema.is_dict() && schema.as_dict().find("description") == nullptr) {
      Dict with = schema.as_dict();
      with.set("description", Value::string("", true));
      value = Value::dict(std::move(with));
    }
    all.set(name, std::move(value));
  }
  Dict out = parameters.as_dict();
  out.set("properties", Value::dict(std::move(all)));
  return Value::dict(std::move(out));
}

Result<Value> tool_value(const Tool& tool, bool describe = false) {
  Dict function;
  function.set("name", plain(tool.name));
  // Templates read the description and parameters.properties without asking whether they exist.
  function.set("description", plain(tool.description));
  Dict none;
  none.set("type", Value::string("object", true));
  none.set("properties", Value::dict({}));
  Value parameters = Value::dict(std::move(none));
  if (!tool.parameters.empty()) {
    auto parsed = jinja::parse_json(tool.parameters);
    if (!parsed.ok() || !parsed->is_dict()) {
      return invalid_argument("The parameters of the tool '" + tool.name +
                              "' are no JSON object that a chat template can show: " +
                              (parsed.ok() ? "another type" : parsed.error().message));
    }
    if (!parsed->as_dict().entries().empty()) parameters = *std::move(parsed);
  }
  function.set("parameters", describe ? described(parameters) : std::move(parameters));
  Dict out;
  out.set("type", Value::string("function", true));
  out.set("function", Value::dict(std::move(function)));
  return Value::dict(std::move(out));
}

/// The arguments as the template takes them. Text that is no object, as a model may have written
/// it, becomes a member.
Value arguments_value(const std::string& text, const ToolFormat& format) {
  if (format.rendering.string_arguments) return plain(text.empty() ? "{}" : text);
  if (text.empty()) return Value::dict({});
  auto parsed = jinja::parse_json(text);
  if (parsed.ok() && parsed->is_dict()) return *std::move(parsed);
  Dict wrapped;
  wrapped.set("arguments", plain(text));
  return Value::dict(std::move(wrapped));
}

class Conversation {
 public:
  explicit Conversation(const ToolFormat& format) : format_(format) {}

  void add(const ChatMessage& m) {
    if (m.role == "tool") {
      add_result(m);
    } else if (m.tool_calls.empty()) {
      push(base(m, plain(m.content)));
    } else {
      add_calls(m);
    }
  }
  std::vector<Value> take() {
    flush();
    return std::move(out_);
  }

 private:
  Dict base(const ChatMessage& m, Value content) const {
    Dict message;
    message.set("role", plain(m.role));
    message.set("content", std::move(content));
    if (!m.name.empty()) message.set("name", plain(m.name));
    // gpt-oss's template takes one of both beside calls.
    const bool shown =
        format_.style != ToolFormat::Style::kHarmony || m.tool_calls.empty() || m.content.empty();
    if (!m.reasoning_content.empty() && shown) {
      message.set(format_.rendering.reasoning_key, plain(m.reasoning_content));
    }
    return message;
  }

  void push(Dict message) {
    flush();
    out_.push_back(Value::dict(std::move(message)));
  }

  /// The calls of a message that the template takes one by one wait here, each for its result.
  struct Waiting {
    std::string id;
    Value message;
    std::vector<Value> results;
  };
  void flush() {
    for (Waiting& w : waiting_) {
      out_.push_back(std::move(w.message));
      for (Value& r : w.results) out_.push_back(std::move(r));
    }
    waiting_.clear();
  }

  std::string id_of(const ToolCall& call) {
    std::string id = call.id;
    if (format_.ids == ToolFormat::Ids::kNineLetters) id = nine_letters(call.id);
    if (format_.ids == ToolFormat::Ids::kNumbered) {
      id = "functions." + call.name + ":" + std::to_string(calls_);
    }
    ++calls_;
    ids_[call.id] = {id, call.name};
    return id;
  }

  Value call_value(const ToolCall& call, const std::string& id) {
    Dict function;
    function.set("name", plain(call.name));
    function.set("arguments", arguments_value(call.arguments, format_));
    Dict out;
    out.set("id", plain(id));
    out.set("type", Value::string("function", true));
    out.set("function", Value::dict(std::move(function)));
    return Value::dict(std::move(out));
  }

  void add_calls(const ChatMessage& m) {
    flush();
    if (!format_.rendering.calls) {
      MarkedText content(m.content, false);
      std::vector<ToolCall> calls = m.tool_calls;
      for (ToolCall& call : calls) call.id = id_of(call);
      content.append(write_tool_calls(format_, calls));
      push(base(m, Value::string(std::move(content))));
      return;
    }
    const auto content = [&](bool first) {
      if (format_.rendering.none_content) return Value::none();
      return plain(first ? std::string_view(m.content) : std::string_view());
    };
    std::vector<Value> together;
    for (const ToolCall& call : m.tool_calls) {
      const std::string id = id_of(call);
      Value value = call_value(call, id);
      if (format_.rendering.several_calls) {
        together.push_back(std::move(value));
        continue;
      }
      Dict message = base(m, content(waiting_.empty()));
      message.set("tool_calls", Value::list({std::move(value)}));
      waiting_.push_back({id, Value::dict(std::move(message)), {}});
    }
    if (together.empty()) return;
    Dict message = base(m, content(true));
    message.set("tool_calls", Value::list(std::move(together)));
    push(std::move(message));
  }

  void add_result(const ChatMessage& m) {
    std::string id = m.tool_call_id;
    std::string name = m.name;
    if (const auto known = ids_.find(id); known != ids_.end()) {
      id = known->second.first;
      if (name.empty()) name = known->second.second;
    } else if (format_.ids == ToolFormat::Ids::kNineLetters) {
      id = nine_letters(id);
    }
    ChatMessage result = m;
    result.name = name;
    Dict message;
    if (format_.rendering.results) {
      message = base(result, plain(m.content));
      message.set("tool_call_id", plain(id));
    } else {
      result.role = "user";
      result.name.clear();
      message = base(result, plain("<tool_response>\n" + m.content + "\n</tool_response>"));
    }
    const auto call = std::ranges::find(waiting_, id, &Waiting::id);
    if (call != waiting_.end()) {
      call->results.push_back(Value::dict(std::move(message)));
    } else {
      push(std::move(message));
    }
  }

  const ToolFormat& format_;
  std::vector<Value> out_;
  std::vector<Waiting> waiting_;
  std::map<std::string, std::pair<std::string, std::string>> ids_;  ///< → the template's, and name
  int64_t calls_ = 0;
};

/// What a system message says about tools where the template says nothing.
Result<Value> instructions(std::string_view system, std::span<const Tool> tools,
                           const ToolFormat& format) {
  const auto quoted = [](const std::string& text) {
    using nlohmann::json;
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  MarkedText out(system, false);
  if (!system.empty()) out.append("\n\n", true);
  out.append("You can call these functions, given as JSON, one a line:\n", true);
  for (const Tool& tool : tools) {
    CHIMERE_CHECK_OK(tool_value(tool));
    const std::string parameters = tool.parameters.empty() ? "{}" : tool.parameters;
    out.append(R"({"name": )" + quoted(tool.name) + R"(, "description": )" +
                   quoted(tool.description) + R"(, "parameters": )" + parameters + "}\n",
               false);
  }
  const ToolCall example{"", "NAME", R"({"ARGUMENT": "VALUE"})"};
  out.append("\nTo call one, write in this form, with nothing behind it:\n", true);
  // As plain text: an example is no call.
  out.append(write_tool_calls(format, {&example, 1}).bytes(), false);
  return Value::string(std::move(out));
}

}  // namespace

Result<Value> tools_value(std::span<const Tool> tools, bool describe) {
  std::vector<Value> out;
  out.reserve(tools.size());
  for (const Tool& tool : tools) {
    CHIMERE_TRY(Value value, tool_value(tool, describe));
    out.push_back(std::move(value));
  }
  return Value::list(std::move(out));
}

Result<Value> messages_value(std::span<const ChatMessage> messages, std::span<const Tool> tools,
                             const ToolFormat& format) {
  Conversation conversation(format);
  std::vector<Value> out;
  if (!tools.empty() && !format.rendering.tools) {
    const bool system = !messages.empty() && messages.front().role == "system";
    const std::string_view text = system ? std::string_view(messages.front().content) : "";
    CHIMERE_TRY(Value content, instructions(text, tools, format));
    if (system) messages = messages.subspan(1);
    Dict message;
    message.set("role", Value::string("system", true));
    message.set("content", std::move(content));
    out.push_back(Value::dict(std::move(message)));
  }
  for (const ChatMessage& m : messages) conversation.add(m);
  for (Value& value : conversation.take()) out.push_back(std::move(value));
  return Value::list(std::move(out));
}

}  // namespace chimere::text
