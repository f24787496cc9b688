#include "protocol/chat_stream.h"

#include <algorithm>
#include <utility>

#include "protocol/json_text.h"

namespace chimere::protocol {
namespace {

constexpr size_t kMostEvent = 16 << 20;

Json setting_value(const Settings& settings, const SettingInfo& info) {
  switch (info.kind) {
    case SettingInfo::Kind::kInteger:
      return settings.get(static_cast<const Setting<int64_t>&>(info));
    case SettingInfo::Kind::kReal:
      return settings.get(static_cast<const Setting<double>&>(info));
    case SettingInfo::Kind::kSwitch:
      return settings.get(static_cast<const Setting<bool>&>(info));
    case SettingInfo::Kind::kText:
      break;
  }
  const std::string& text = settings.get(static_cast<const Setting<std::string>&>(info));
  if (!info.json_list && info.separator == '\0') return text;
  if (info.json_list) return Json::parse(text, nullptr, false);
  Json list = Json::array();
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(info.separator));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (!item.empty()) list.push_back(item);
  }
  return list;
}

Json message_json(const ChatMessage& message) {
  Json out = {{"role", message.role}, {"content", message.content}};
  if (!message.name.empty()) out["name"] = message.name;
  if (!message.reasoning_content.empty()) out["reasoning_content"] = message.reasoning_content;
  if (!message.tool_call_id.empty()) out["tool_call_id"] = message.tool_call_id;
  for (const ToolCall& call : message.tool_calls) {
    out["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return out;
}

void add_format(const OutputFormat& format, Json& out) {
  using Kind = OutputFormat::Kind;
  switch (format.kind) {
    case Kind::kText:
      break;
    case Kind::kJsonObject:
      out["response_format"] = {{"type", "json_object"}};
      break;
    case Kind::kJsonSchema: {
      Json schema = {{"name", format.name.empty() ? "output" : format.name},
                     {"schema", Json::parse(format.text, nullptr, false)}};
      if (format.strict) schema["strict"] = true;
      out["response_format"] = {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
      break;
    }
    case Kind::kRegex:
      out["guided_regex"] = format.text;
      break;
    case Kind::kGrammar:
      out["guided_grammar"] = format.text;
      break;
    case Kind::kChoice:
      out["guided_choice"] = format.choices;
      break;
  }
}

void add_reasoning(const std::string& reasoning, Json& out) {
  const bool number =
      !reasoning.empty() && reasoning.find_first_not_of("0123456789") == std::string::npos;
  if (number) {
    out["thinking_budget"] = std::stoll(reasoning);
  } else if (reasoning != "auto") {
    out["reasoning_effort"] = reasoning;
  }
}

void add_tools(const ChatRequest& request, Json& out) {
  if (request.tools.empty()) return;
  for (const Tool& tool : request.tools) {
    Json function = {{"name", tool.name}};
    if (!tool.description.empty()) function["description"] = tool.description;
    if (!tool.parameters.empty()) {
      function["parameters"] = Json::parse(tool.parameters, nullptr, false);
    }
    if (tool.strict) function["strict"] = true;
    out["tools"].push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  using Kind = ToolChoice::Kind;
  if (request.tool_choice.kind == Kind::kNone) out["tool_choice"] = "none";
  if (request.tool_choice.kind == Kind::kRequired) out["tool_choice"] = "required";
  if (request.tool_choice.kind == Kind::kNamed) {
    out["tool_choice"] = {{"type", "function"}, {"function", {{"name", request.tool_choice.name}}}};
  }
  if (!request.parallel_tool_calls) out["parallel_tool_calls"] = false;
}

/// A text member; empty if it is absent, null or something else.
std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t number_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

Logprob logprob_of(const Json& entry) {
  Logprob out;
  out.bytes = text_in(entry, "token");
  if (const auto bytes = entry.find("bytes"); bytes != entry.end() && bytes->is_array()) {
    out.bytes.clear();
    for (const Json& b : *bytes) {
      if (b.is_number_integer()) out.bytes += static_cast<char>(b.get<int64_t>());
    }
  }
  if (const auto value = entry.find("logprob"); value != entry.end() && value->is_number()) {
    out.value = value->get<float>();
  }
  return out;
}

Choice choice_of(const Json& choice) {
  Choice out;
  out.finish_reason = text_in(choice, "finish_reason");
  if (const auto delta = choice.find("delta"); delta != choice.end() && delta->is_object()) {
    out.content = text_in(*delta, "content");
    out.reasoning = text_in(*delta, "reasoning_content");
    if (out.reasoning.empty()) out.reasoning = text_in(*delta, "reasoning");
    const auto calls = delta->find("tool_calls");
    if (calls != delta->end() && calls->is_array()) {
      for (const Json& call : *calls) {
        if (!call.is_object()) continue;
        const auto function = call.find("function");
        ToolCallPiece piece{number_in(call, "index"), text_in(call, "id"), "", ""};
        if (function != call.end() && function->is_object()) {
          piece.name = text_in(*function, "name");
          piece.arguments = text_in(*function, "arguments");
        }
        out.tool_calls.push_back(std::move(piece));
      }
    }
  }
  const auto logprobs = choice.find("logprobs");
  if (logprobs != choice.end() && logprobs->is_object() && logprobs->contains("content") &&
      (*logprobs)["content"].is_array()) {
    out.has_logprobs = true;
    for (const Json& token : (*logprobs)["content"]) {
      if (!token.is_object()) continue;
      TokenLogprobs entry;
      entry.token = logprob_of(token);
      if (const auto top = token.find("top_logprobs"); top != token.end() && top->is_array()) {
        for (const Json& t : *top) {
          if (t.is_object()) entry.top.push_back(logprob_of(t));
        }
      }
      out.logprobs.push_back(std::move(entry));
    }
  }
  return out;
}

Usage usage_of(const Json& usage) {
  Usage out;
  out.prompt_tokens = number_in(usage, "prompt_tokens");
  out.completion_tokens = number_in(usage, "completion_tokens");
  const auto prompt = usage.find("prompt_tokens_details");
  if (prompt != usage.end() && prompt->is_object()) {
    out.cached_tokens = number_in(*prompt, "cached_tokens");
  }
  const auto completion = usage.find("completion_tokens_details");
  if (completion != usage.end() && completion->is_object()) {
    out.reasoning_tokens = number_in(*completion, "reasoning_tokens");
  }
  return out;
}

ApiError upstream_error(const Json& error, int status) {
  std::string message = error.is_string() ? error.get<std::string>() : "";
  std::string param;
  if (error.is_object()) {
    message = text_in(error, "message");
    param = text_in(error, "param");
  }
  if (message.empty()) message = "The server answered with status " + std::to_string(status) + ".";
  // A code of ours with this status; that of the other server may be unknown here.
  ErrorCode code = "invalid_value";
  if (status == 401) code = "invalid_api_key";
  if (status == 404) code = "model_not_found";
  if (status == 429) code = "queue_full";
  if (status >= 500) code = "engine_error";
  if (status == 503) code = "model_unavailable";
  return {code, std::move(message), std::move(param)};
}

}  // namespace

std::string chat_request_body(const ChatRequest& request, const Settings& defaults) {
  Json out = {{"model", request.model}, {"messages", Json::array()}};
  for (const ChatMessage& message : request.messages) {
    out["messages"].push_back(message_json(message));
  }
  out["stream"] = true;
  out["stream_options"] = {{"include_usage", true}};
  for (const SettingInfo* setting : settings::all()) {
    if (setting->field.empty()) continue;
    Json value = setting_value(request.settings, *setting);
    const bool given = std::ranges::find(request.given, setting->name) != request.given.end();
    if (given || value != setting_value(defaults, *setting)) {
      out[std::string(setting->field)] = std::move(value);
    }
  }
  const int64_t most = request.settings.get(settings::kMaxTokens);
  if (most >= 0 && most != defaults.get(settings::kMaxTokens)) out["max_tokens"] = most;
  const std::string& reasoning = request.settings.get(settings::kReasoning);
  if (reasoning != defaults.get(settings::kReasoning)) add_reasoning(reasoning, out);
  if (!request.stop.empty()) out["stop"] = request.stop;
  for (const auto& [token, bias] : request.logit_bias) {
    out["logit_bias"][std::to_string(token)] = std::max(bias, -100.0F);
  }
  if (request.logprobs >= 0) {
    out["logprobs"] = true;
    if (request.logprobs > 0) out["top_logprobs"] = request.logprobs;
  }
  if (request.lora) {
    Json adapters = Json::array();
    for (const LoraChoice& choice : *request.lora) {
      Json row = {{"scale", choice.scale}};
      row[choice.name.empty() ? "id" : "name"] =
          choice.name.empty() ? Json(choice.id) : Json(choice.name);
      adapters.push_back(std::move(row));
    }
    out["lora"] = std::move(adapters);
  }
  if (!request.engram.empty()) out["engram"] = request.engram;
  if (!request.template_kwargs.empty()) {
    out["chat_template_kwargs"] = Json::parse(request.template_kwargs, nullptr, false);
  }
  add_format(request.format, out);
  add_tools(request, out);
  return to_text(out);
}

std::optional<ApiError> ChatStreamReader::push(std::string_view bytes) {
  waiting_ += bytes;
  if (waiting_.size() > kMostEvent) {
    return ApiError{"engine_error", "The server sent an event of more than 16 MiB."};
  }
  size_t begin = 0;
  while (true) {
    const size_t end = waiting_.find('\n', begin);
    if (end == std::string::npos) break;
    std::string_view line(waiting_.data() + begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (auto error = event(line)) return error;
  }
  waiting_.erase(0, begin);
  return std::nullopt;
}

std::optional<ApiError> ChatStreamReader::event(std::string_view data) {
  if (data == "[DONE]") {
    done_ = true;
    return std::nullopt;
  }
  const Json chunk = Json::parse(data, nullptr, false);
  if (!chunk.is_object()) {
    return ApiError{"engine_error", "The server sent an event that is no JSON object."};
  }
  if (const auto error = chunk.find("error"); error != chunk.end() && !error->is_null()) {
    return upstream_error(*error, 500);
  }
  if (const auto odo = chunk.find("odo"); odo != chunk.end() && odo->is_object()) {
    const auto step = odo->find("step");
    if (step != odo->end()) {
      if (events_.step) events_.step(to_text(*step));
    } else if (events_.metadata) {
      events_.metadata(to_text(*odo));
    }
  }
  if (const auto usage = chunk.find("usage"); usage != chunk.end() && usage->is_object()) {
    if (events_.usage) events_.usage(usage_of(*usage));
  }
  const auto choices = chunk.find("choices");
  if (choices != chunk.end() && choices->is_array() && !choices->empty() &&
      choices->front().is_object() && events_.piece) {
    events_.piece(choice_of(choices->front()));
  }
  return std::nullopt;
}

ApiError error_of_body(int status, std::string_view body) {
  const Json document = Json::parse(body, nullptr, false);
  if (!document.is_object()) return upstream_error(Json(), status);
  const auto error = document.find("error");
  return upstream_error(error == document.end() ? Json() : *error, status);
}

}  // namespace chimere::protocol
