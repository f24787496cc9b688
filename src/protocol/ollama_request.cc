// Requests of Ollama's API.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/generation_fields.h"
#include "protocol/output_format.h"
#include "protocol/prompts.h"
#include "protocol/request_types.h"
#include "protocol/tool_fields.h"

namespace chimere::protocol {
namespace {

using Row = FieldsOf<OllamaRequest>;
using MessageRow = FieldsOf<ChatMessage>;
using CallRow = FieldsOf<ToolCall>;

void read_model(Fields& fields, std::string_view name, std::string& out) {
  if (fields.text(name, out)) out = ollama_model_name(std::move(out));
}

void read_model_row(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    OllamaRequest& out) {
  read_model(fields, info.name, out.model);
}

/// Images, which clients may send as an empty list.
template <typename T>
void read_images(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                 T& /*out*/) {
  const Json* value = fields.any(info.name);
  if (value == nullptr || (value->is_array() && value->empty())) return;
  fields.fail("'" + fields.path_of(info.name) + "' is not supported: the models accept text only.",
              info.name, "unsupported_content");
}

template <typename T>
constexpr Field<T> images_field() {
  return FieldsOf<T>::other({.name = "images",
                             .help = "the models accept text only",
                             .type_text = "`[]`",
                             .valid = "[[]]",
                             .invalid = R"([1, ["aGk="]])"},
                            &read_images<T>);
}

// Messages

void read_role(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
               ChatMessage& out) {
  if (!fields.text(info.name, out.role)) return fields.missing(info.name);
  for (const char* role : {"system", "user", "assistant", "tool"}) {
    if (out.role == role) return;
  }
  fields.fail("'" + fields.path_of(info.name) + "' must be system, user, assistant or tool.",
              info.name);
}

void read_arguments(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    ToolCall& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  if (!value->is_object()) {
    return fields.fail("'" + fields.path_of(info.name) + "' must be an object.", info.name,
                       "invalid_type");
  }
  out.arguments = to_text(*value);
}

constexpr auto kFunctionRows = std::to_array<CallRow::Row>({
    CallRow::text<&ToolCall::name>(
        {.name = "name", .help = "The name of the function", .required = true}),
    CallRow::other({.name = "arguments",
                    .help = "The arguments",
                    .type_text = "object",
                    .valid = R"([{}, {"a": 1}])",
                    .invalid = R"([1, "{}"])"},
                   &read_arguments),
    CallRow::no_effect("index"),
    CallRow::no_effect("description"),
});
constexpr ObjectType<ToolCall> kFunctionType{kFunctionRows};

void read_function(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                   ToolCall& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return fields.missing(info.name);
  read_object(kFunctionType, fields, *value, fields.path_of(info.name), limits, out);
}

constexpr auto kCallRows = std::to_array<CallRow::Row>({
    CallRow::other({.name = "function",
                    .help = "The call",
                    .required = true,
                    .type_text = "object",
                    .valid = R"([{"name": "f"}])",
                    .invalid = "[1, {}, []]",
                    .members = &describe<kFunctionType>},
                   &read_function),
    CallRow::text<&ToolCall::id>({.name = "id", .help = "The id that the call had"}),
    CallRow::no_effect("type"),
});
constexpr ObjectType<ToolCall> kCallType{kCallRows};

constexpr auto kMessageRows = std::to_array<MessageRow::Row>({
    MessageRow::other({.name = "role",
                       .help = "Whose message it is",
                       .required = true,
                       .type_text = "`system`, `user`, `assistant` or `tool`",
                       .valid = R"(["user", "system", "tool"])",
                       .invalid = R"(["king", 1])"},
                      &read_role),
    MessageRow::text<&ChatMessage::content>({.name = "content", .help = "The text"}),
    MessageRow::text<&ChatMessage::reasoning_content>(
        {.name = "thinking", .help = "The reasoning of a message of the assistant"}),
    MessageRow::list<&ChatMessage::tool_calls, kCallType>(
        {.name = "tool_calls",
         .help = "The calls of a message of the assistant",
         .limit = &RequestLimits::tool_calls,
         .valid = R"([[], [{"function": {"name": "f"}}]])",
         .invalid = R"([1, {}, [1], [{}]])"}),
    MessageRow::text<&ChatMessage::name>(
        {.name = "tool_name", .help = "Of a tool's message: the tool"}),
    MessageRow::text<&ChatMessage::tool_call_id>(
        {.name = "tool_call_id", .help = "Of a tool's message: the call"}),
    images_field<ChatMessage>(),
});
constexpr ObjectType<ChatMessage> kOllamaMessageType{kMessageRows};

// Options

void read_predict(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                  OllamaRequest& out) {
  const Json* value = fields.any(info.name);
  // -1 and -2 are no limit but the context.
  if (value != nullptr && (*value == -1 || *value == -2)) return;
  read_max_tokens(fields, info.name, out);
}

void read_stop_option(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                      OllamaRequest& out) {
  read_stops(fields, info, limits, out);
}

constexpr auto kOptionRows = std::to_array<Row::Row>({
    Row::include<kSamplingType>(),
    Row::other({.name = "num_predict",
                .help = "Maximum number of tokens to generate; -1 and -2: what the context holds",
                .default_value = "`--max-tokens`",
                .type_text = "whole number from 1, -1 or -2",
                .valid = "[1, -1, -2]",
                .invalid = R"([0, -5, 1.5, "x"])"},
               &read_predict),
    Row::other({.name = "stop",
                .help = "Texts that end the generation, at most 16 of 1 KiB each",
                .type_text = "text or list of texts",
                .valid = R"(["a", ["a", "b"], []])",
                .invalid = R"([[1], 1])"},
               &read_stop_option),
    Row::no_effect("num_ctx"),
    Row::no_effect("num_keep"),
    Row::no_effect("num_batch"),
    Row::no_effect("num_gpu"),
    Row::no_effect("main_gpu"),
    Row::no_effect("num_thread"),
    Row::no_effect("use_mmap"),
    Row::no_effect("use_mlock"),
    Row::no_effect("numa"),
    Row::no_effect("low_vram"),
    Row::no_effect("penalize_newline"),
});
constexpr ObjectType<OllamaRequest> kOptionsType{kOptionRows};

void read_options(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                  OllamaRequest& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  read_object(kOptionsType, fields, *value, fields.path_of(info.name), limits, out);
}

void read_format(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                 OllamaRequest& out) {
  read_ollama_format(fields, info.name, out.format);
}

void read_think_row(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    OllamaRequest& out) {
  read_think(fields, info.name, out);
}

/// Seconds of a text like "1h30m", "90s", "-1" or "0.5h"; negative ones are -1.
std::optional<int64_t> duration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  double seconds = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number) || number < 0 || number > 1e9) {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    double unit = 1;
    if (text.starts_with("ms")) {
      unit = 1e-3;
      text.remove_prefix(2);
    } else if (!text.empty()) {
      unit = text[0] == 'h' ? 3600 : text[0] == 'm' ? 60 : text[0] == 's' ? 1 : 0;
      if (unit == 0) return std::nullopt;
      text.remove_prefix(1);
    }
    seconds += number * unit;
  }
  return negative ? -1 : std::llround(std::min(seconds, 1e9));
}

template <typename T>
void read_keep_alive(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     T& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  constexpr double kLongest = 1e9;
  if (value->is_number()) {
    const auto seconds = value->get<double>();
    out.keep_alive = seconds < 0 ? -1 : std::llround(std::min(seconds, kLongest));
    return;
  }
  out.keep_alive = value->is_string() ? duration(value->get<std::string>()) : std::nullopt;
  if (out.keep_alive) return;
  fields.fail("'keep_alive' must be a number of seconds or a duration such as \"5m\".", info.name,
              value->is_string() ? ErrorCode("invalid_value") : "invalid_type");
}

void read_ollama_logprobs(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                          OllamaRequest& out) {
  bool wanted = false;
  fields.boolean(info.name, wanted);
  if (wanted) out.logprobs = 0;
}

/// Clients send 0 with requests that want none.
void read_ollama_top_logprobs(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                              OllamaRequest& out) {
  int64_t top = 0;
  if (!fields.integer(info.name, 0, info.most(limits), top) || top == 0) return;
  if (out.logprobs >= 0) {
    out.logprobs = top;
  } else {
    fields.fail("'top_logprobs' needs \"logprobs\": true.", info.name);
  }
}

constexpr auto kSharedRows = std::to_array<Row::Row>({
    Row::other({.name = "model",
                .help = "The name of the served model, with or without `:latest`",
                .default_value = "the served model",
                .type_text = "text",
                .valid = R"(["m", "m:latest"])",
                .invalid = "[1, []]"},
               &read_model_row),
    Row::boolean<&OllamaRequest::stream>(
        {.name = "stream", .help = "Lines of JSON", .default_value = "true"}),
    Row::other({.name = "format",
                .help = "An object in JSON, or a document that is valid under a JSON Schema",
                .type_text = "`\"json\"` or object",
                .valid = R"(["json", {"type": "object"}, ""])",
                .invalid = R"([1, "xml", []])"},
               &read_format),
    Row::other({.name = "options",
                .help = "Sampling and limits",
                .type_text = "object",
                .valid = R"([{}, {"temperature": 0.5, "num_predict": 5}])",
                .invalid = "[1, []]",
                .members = &describe<kOptionsType>},
               &read_options),
    Row::other({.name = "think",
                .help = "[Reasoning](thinking.md)",
                .default_value = "`--reasoning`",
                .type_text = "true, false or an effort",
                .valid = R"([true, false, "low"])",
                .invalid = R"([1, "x", []])"},
               &read_think_row),
    Row::other({.name = "keep_alive",
                .help = "How long the model stays loaded after its last use; negative: until "
                        "memory is needed; 0 without a prompt: it is unloaded",
                .type_text = "number of seconds or text",
                .valid = R"([0, -1, "5m", "1h30m"])",
                .invalid = R"([[], {}, "5x", ""])"},
               &read_keep_alive<OllamaRequest>),
    Row::no_effect("truncate"),
    Row::no_effect("shift"),
    Row::other({.name = "logprobs",
                .help = "The log-probability of every token",
                .default_value = "false",
                .type_text = "true or false",
                .valid = "[true, false]",
                .invalid = R"([1, "x"])"},
               &read_ollama_logprobs),
    Row::other({.name = "top_logprobs",
                .help = "Also those of so many most likely tokens; only with `logprobs`",
                .limit = &RequestLimits::top_logprobs,
                .default_value = "0",
                .type_text = "whole number",
                .valid = "[0, 20]",
                .invalid = R"([-1, 21, 1.5, "x"])",
                .with = R"("logprobs": true)"},
               &read_ollama_top_logprobs),
});
constexpr ObjectType<OllamaRequest> kSharedType{kSharedRows};

void read_ollama_tools(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                       OllamaRequest& out) {
  read_tools<kToolType>(fields, info, limits, {"function", "function.name"}, out.tools);
}

constexpr auto kChatRows = std::to_array<Row::Row>({
    Row::list<&OllamaRequest::messages, kOllamaMessageType>(
        {.name = "messages",
         .help = "The conversation; without one the model is loaded; a last message of the "
                 "assistant is [continued](serving.md#continued-messages)",
         .limit = &RequestLimits::messages,
         .valid = R"([[], [{"role": "user", "content": "hi"}]])",
         .invalid = R"([{}, "hi", 1, [{}]])"}),
    Row::other({.name = "tools",
                .help = "[Functions](serving.md#tools) that the model may call; tools of other "
                        "types are left out, with a warning",
                .limit = &RequestLimits::tools,
                .type_text = "list of objects",
                .valid = R"([[], [{"type": "function", "function": {"name": "g"}}]])",
                .invalid = R"([1, {}, [1], [{}]])",
                .members = &describe<kToolType>},
               &read_ollama_tools),
    Row::include<kSharedType>(),
});

constexpr auto kGenerateRows = std::to_array<Row::Row>({
    Row::text<&OllamaRequest::prompt>(
        {.name = "prompt", .help = "A message of the user; without one the model is loaded"}),
    Row::text<&OllamaRequest::system>({.name = "system", .help = "A first message of the system"}),
    Row::boolean<&OllamaRequest::raw>({.name = "raw",
                                       .help = "The prompt is continued without the template",
                                       .default_value = "false"}),
    Row::include<kSharedType>(),
    images_field<OllamaRequest>(),
    Row::refused("suffix", "`/infill` fills in between texts"),
    Row::refused("template", "the model's own template is used; `raw` uses none"),
    Row::refused("context", "send the conversation to /api/chat"),
});

void check_chat(Fields& fields, const RequestLimits& /*limits*/, const OllamaRequest& out) {
  check_continued(fields, out);
}

// Embeddings

using EmbedRow = FieldsOf<EmbeddingsRequest>;

void read_embed_model(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                      EmbeddingsRequest& out) {
  read_model(fields, info.name, out.model);
}

void read_inputs(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 EmbeddingsRequest& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return fields.missing(info.name);
  const auto add = [&](const Json& text) {
    if (text.is_string()) out.inputs.emplace_back(text.get<std::string>());
    return text.is_string();
  };
  if (add(*value)) return;
  const Json* list = fields.list(info.name, 1, limits.embeddings);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (add((*list)[i])) continue;
    return fields.fail("'input' must be a text or a list of texts.", info.name, "invalid_type");
  }
}

void read_embed_prompt(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                       EmbeddingsRequest& out) {
  std::string text;
  if (!fields.text(info.name, text)) return fields.missing(info.name);
  out.inputs.emplace_back(std::move(text));
}

constexpr EmbedRow::Row kEmbedModel =
    EmbedRow::other({.name = "model",
                     .help = "The name of the embedding model, with or without `:latest`",
                     .default_value = "the embedding model",
                     .type_text = "text",
                     .valid = R"(["m", "m:latest"])",
                     .invalid = "[1, []]"},
                    &read_embed_model);

constexpr auto kEmbedRows = std::to_array<EmbedRow::Row>({
    EmbedRow::other({.name = "input",
                     .help = "The texts",
                     .required = true,
                     .type_text = "text or list of texts",
                     .valid = R"(["a", ["a", "b"]])",
                     .invalid = R"([1, [1], [], {}])"},
                    &read_inputs),
    kEmbedModel,
    EmbedRow::integer<&EmbeddingsRequest::dimensions>(
        {.name = "dimensions",
         .help = "Shorten the vectors to this many numbers; 0: all",
         .max = 1 << 20,
         .default_value = "0"}),
    EmbedRow::no_effect("truncate"),
    EmbedRow::no_effect("options"),
    EmbedRow::other({.name = "keep_alive",
                     .help = "How long the model stays loaded after its last use; negative: until "
                             "memory is needed",
                     .type_text = "number of seconds or text",
                     .valid = R"([0, -1, "5m", "1h30m"])",
                     .invalid = R"([[], {}, "5x", ""])"},
                    &read_keep_alive<EmbeddingsRequest>),
});

constexpr auto kEmbedOneRows = std::to_array<EmbedRow::Row>({
    EmbedRow::other({.name = "prompt",
                     .help = "The text",
                     .required = true,
                     .type_text = "text",
                     .valid = R"(["a"])",
                     .invalid = "[1, []]"},
                    &read_embed_prompt),
    kEmbedModel,
    EmbedRow::no_effect("options"),
    EmbedRow::other({.name = "keep_alive",
                     .help = "How long the model stays loaded after its last use; negative: until "
                             "memory is needed",
                     .type_text = "number of seconds or text",
                     .valid = R"([0, -1, "5m", "1h30m"])",
                     .invalid = R"([[], {}, "5x", ""])"},
                    &read_keep_alive<EmbeddingsRequest>),
});

// Models

using ShowRow = FieldsOf<ShowRequest>;

void read_show_model(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     ShowRequest& out) {
  read_model(fields, info.name, out.model);
}

constexpr auto kShowRows = std::to_array<ShowRow::Row>({
    ShowRow::other({.name = "model",
                    .help = "The name of the model, with or without `:latest`",
                    .default_value = "the served model",
                    .type_text = "text",
                    .valid = R"(["m", "m:latest"])",
                    .invalid = "[1, []]"},
                   &read_show_model),
    ShowRow::other({.name = "name",
                    .help = "The older name of `model`",
                    .type_text = "text",
                    .valid = R"(["m"])",
                    .invalid = "[1]"},
                   &read_show_model),
    ShowRow::no_effect("verbose"),
});

using PullRow = FieldsOf<PullRequest>;
using DeleteRow = FieldsOf<DeleteRequest>;
using CopyRow = FieldsOf<CopyRequest>;

template <typename T>
void read_needed_model(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                       T& out) {
  read_model(fields, info.name, out.model);
}

/// The model may have its older name.
template <typename T>
void check_needed_model(Fields& fields, const RequestLimits& /*limits*/, const T& out) {
  if (out.model.empty()) fields.missing("model");
}

constexpr auto kPullRows = std::to_array<PullRow::Row>({
    PullRow::other({.name = "model",
                    .help = "`OWNER/NAME` or `OWNER/NAME:QUANT`, also with `hf.co/` before it",
                    .required = true,
                    .type_text = "text",
                    .valid = R"(["o/m", "hf.co/o/m:Q4_K_M"])",
                    .invalid = R"([1, [], ""])"},
                   &read_needed_model<PullRequest>),
    PullRow::other({.name = "name",
                    .help = "The older name of `model`",
                    .type_text = "text",
                    .valid = R"(["o/m"])",
                    .invalid = "[1]"},
                   &read_needed_model<PullRequest>),
    PullRow::boolean<&PullRequest::stream>(
        {.name = "stream", .help = "Lines of JSON with the progress", .default_value = "true"}),
    PullRow::no_effect("insecure"),
});

constexpr auto kDeleteRows = std::to_array<DeleteRow::Row>({
    DeleteRow::other({.name = "model",
                      .help = "A model of the folder",
                      .required = true,
                      .type_text = "text",
                      .valid = R"(["m", "hf.co/o/m:Q4_K_M", "m:latest"])",
                      .invalid = R"([1, [], ""])"},
                     &read_needed_model<DeleteRequest>),
    DeleteRow::other({.name = "name",
                      .help = "The older name of `model`",
                      .type_text = "text",
                      .valid = R"(["m"])",
                      .invalid = "[1]"},
                     &read_needed_model<DeleteRequest>),
});

template <std::string CopyRequest::*kMember>
void read_copy_model(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     CopyRequest& out) {
  read_model(fields, info.name, out.*kMember);
  if ((out.*kMember).empty()) fields.missing(info.name);
}

constexpr auto kCopyRows = std::to_array<CopyRow::Row>({
    CopyRow::other({.name = "source",
                    .help = "A model of the folder",
                    .required = true,
                    .type_text = "text",
                    .valid = R"(["m", "m:latest"])",
                    .invalid = R"([1, ""])"},
                   &read_copy_model<&CopyRequest::source>),
    CopyRow::other({.name = "destination",
                    .help = "Its further name",
                    .required = true,
                    .type_text = "text",
                    .valid = R"(["n"])",
                    .invalid = R"([1, ""])"},
                   &read_copy_model<&CopyRequest::destination>),
});

}  // namespace

constexpr ObjectType<OllamaRequest> kOllamaChatType{kChatRows, &check_chat};
constexpr ObjectType<OllamaRequest> kOllamaGenerateType{kGenerateRows};
constexpr ObjectType<EmbeddingsRequest> kOllamaEmbedType{kEmbedRows};
constexpr ObjectType<EmbeddingsRequest> kOllamaEmbeddingsType{kEmbedOneRows};
constexpr ObjectType<ShowRequest> kOllamaShowType{kShowRows};
constexpr ObjectType<PullRequest> kOllamaPullType{kPullRows, &check_needed_model<PullRequest>};
constexpr ObjectType<DeleteRequest> kOllamaDeleteType{kDeleteRows,
                                                      &check_needed_model<DeleteRequest>};
constexpr ObjectType<CopyRequest> kOllamaCopyType{kCopyRows};

std::string ollama_model_name(std::string name) {
  constexpr std::string_view kTag = ":latest";
  if (name.ends_with(kTag)) name.resize(name.size() - kTag.size());
  for (const std::string_view host : {"hf.co/", "huggingface.co/"}) {
    if (!name.starts_with(host)) continue;
    name.erase(0, host.size());
    break;
  }
  return name;
}

std::optional<ApiError> parse_ollama(std::string_view body, const Settings& defaults,
                                     const RequestLimits& limits, bool chat, OllamaRequest& out) {
  out = {};
  out.settings = defaults;
  out.stream = true;
  const RequestLimits own = with_notes(limits, out);
  if (chat) return parse_body(kOllamaChatType, body, own, out, kDeepJson);
  if (auto error = parse_body(kOllamaGenerateType, body, own, out, kDeepJson)) return error;
  if (out.prompt.empty() || out.raw) return std::nullopt;
  const auto add = [&](const char* role, const std::string& text) {
    ChatMessage& message = out.messages.emplace_back();
    message.role = role;
    message.content = text;
  };
  if (!out.system.empty()) add("system", out.system);
  add("user", out.prompt);
  return std::nullopt;
}

std::optional<ApiError> parse_ollama_embed(std::string_view body, const RequestLimits& limits,
                                           bool one, EmbeddingsRequest& out) {
  out = {};
  return parse_body(one ? kOllamaEmbeddingsType : kOllamaEmbedType, body, with_notes(limits, out),
                    out);
}

std::optional<ApiError> parse_ollama_show(std::string_view body, const RequestLimits& limits,
                                          ShowRequest& out) {
  out = {};
  return parse_body(kOllamaShowType, body, limits, out);
}

std::optional<ApiError> parse_ollama_pull(std::string_view body, const RequestLimits& limits,
                                          PullRequest& out) {
  out = {};
  return parse_body(kOllamaPullType, body, limits, out);
}

std::optional<ApiError> parse_ollama_delete(std::string_view body, const RequestLimits& limits,
                                            DeleteRequest& out) {
  out = {};
  return parse_body(kOllamaDeleteType, body, limits, out);
}

std::optional<ApiError> parse_ollama_copy(std::string_view body, const RequestLimits& limits,
                                          CopyRequest& out) {
  out = {};
  return parse_body(kOllamaCopyType, body, limits, out);
}

}  // namespace chimere::protocol
