#include "protocol/responses.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <variant>

#include "protocol/base64.h"
#include "protocol/json_text.h"
#include "protocol/logprobs_json.h"
#include "protocol/requests.h"

namespace chimere::protocol {
namespace {

Json head_json(const ResponseHead& head, const char* object) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint}};
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", usage.reasoning_tokens},
            {"accepted_prediction_tokens", usage.accepted_drafts},
            {"rejected_prediction_tokens", usage.rejected_drafts}}}};
}

Json finish_json(const Choice& choice) {
  return choice.finish_reason.empty() ? Json() : Json(choice.finish_reason);
}

Json chat_logprobs(const Choice& choice) {
  if (!choice.has_logprobs) return {};
  Json content = token_logprobs_json(choice.logprobs);
  for (size_t i = 0; i < content.size(); ++i) {
    if (choice.logprobs[i].from_draft) content[i]["from_draft"] = true;
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(const Choice& choice) {
  if (!choice.has_logprobs) return {};
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  int64_t offset = choice.text_offset;
  for (const TokenLogprobs& t : choice.logprobs) {
    out["tokens"].push_back(t.token.bytes);
    out["token_logprobs"].push_back(t.first ? Json() : Json(t.token.value));
    Json top = Json::object();
    for (const Logprob& l : t.top) top[l.bytes] = l.value;
    out["top_logprobs"].push_back(t.first ? Json() : std::move(top));
    out["text_offset"].push_back(std::max<int64_t>(0, offset));
    offset += count_characters(t.token.bytes);
  }
  return out;
}

Json completion_choice(const Choice& choice) {
  return {{"text", choice.content},
          {"index", choice.index},
          {"logprobs", completion_logprobs(choice)},
          {"finish_reason", finish_json(choice)}};
}

Json tool_calls_json(const Choice& choice, bool stream) {
  Json out = Json::array();
  for (const ToolCallPiece& call : choice.tool_calls) {
    Json entry = Json::object();
    if (stream) entry["index"] = call.index;
    Json function = Json::object();
    if (!call.name.empty()) {
      entry["id"] = call.id;
      entry["type"] = "function";
      function["name"] = call.name;
    }
    function["arguments"] = call.arguments;
    entry["function"] = std::move(function);
    out.push_back(std::move(entry));
  }
  return out;
}

/// Nothing where there is none, so that most responses are as OpenAI's are.
void add_warnings(const ResponseHead& head, Json& out) {
  for (const Warning& w : head.warnings) {
    out["warnings"].push_back({{"param", w.param}, {"message", w.message}});
  }
}

std::string chunk(Json out, Json choice, bool null_usage) {
  out["choices"] = Json::array({std::move(choice)});
  if (null_usage) out["usage"] = nullptr;
  return to_text(out);
}

std::string usage_chunk(Json out, const Usage& usage) {
  out["choices"] = Json::array();
  out["usage"] = usage_json(usage);
  return to_text(out);
}

Json model_json(const ModelEntry& model) {
  Json out = {{"id", model.id},
              {"object", "model"},
              {"created", model.created},
              {"owned_by", "chimere"},
              {"max_model_len", model.context},
              {"context_length", model.context}};
  if (model.trained_context > 0) out["trained_context_length"] = model.trained_context;
  if (model.max_state_bytes > 0) {
    out["max_state_bytes"] = model.max_state_bytes;
    out["max_kv_tokens"] = model.max_kv_tokens;
  }
  if (!model.kind.empty()) out["kind"] = model.kind;
  if (!model.aliases.empty()) out["aliases"] = model.aliases;
  if (!model.parent.empty()) out["parent"] = model.parent;
  if (!model.state.empty()) out["state"] = model.state;
  return out;
}

void append_numbers(const std::vector<float>& vector, std::string& out) {
  out += '[';
  for (const float x : vector) {
    char digits[32];
    // The shortest decimal that parses to the same f32.
    const auto end = std::to_chars(digits, digits + sizeof(digits), x).ptr;
    out.append(digits, end);
    out += ',';
  }
  if (vector.empty()) {
    out += ']';
  } else {
    out.back() = ']';
  }
}

/// The bytes of the little-endian f32 numbers in base64, as a JSON text.
void append_bytes(const std::vector<float>& vector, std::string& out) {
  static_assert(std::endian::native == std::endian::little);
  out += '"';
  append_base64({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)}, out);
  out += '"';
}

}  // namespace

std::string chat_response(const ResponseHead& head, std::span<const Choice> choices,
                          const Usage& usage) {
  Json out = head_json(head, "chat.completion");
  out["choices"] = Json::array();
  for (const Choice& c : choices) {
    Json message = {{"role", "assistant"}, {"content", c.content}, {"refusal", nullptr}};
    if (!c.reasoning.empty()) message["reasoning_content"] = c.reasoning;
    if (!c.tool_calls.empty()) {
      if (c.content.empty()) message["content"] = nullptr;
      message["tool_calls"] = tool_calls_json(c, false);
    }
    out["choices"].push_back({{"index", c.index},
                              {"message", std::move(message)},
                              {"logprobs", chat_logprobs(c)},
                              {"finish_reason", finish_json(c)}});
  }
  if (!head.orchestration.empty()) out["odo"] = Json::parse(head.orchestration);
  out["usage"] = usage_json(usage);
  add_warnings(head, out);
  return to_text(out);
}

std::string completion_response(const ResponseHead& head, std::span<const Choice> choices,
                                const Usage& usage) {
  Json out = head_json(head, "text_completion");
  out["choices"] = Json::array();
  for (const Choice& c : choices) out["choices"].push_back(completion_choice(c));
  out["usage"] = usage_json(usage);
  add_warnings(head, out);
  return to_text(out);
}

std::string chat_role_chunk(const ResponseHead& head, int64_t index, bool null_usage) {
  return chunk(head_json(head, "chat.completion.chunk"),
               {{"index", index},
                {"delta", {{"role", "assistant"}, {"content", ""}}},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}},
               null_usage);
}

std::string chat_chunk(const ResponseHead& head, const Choice& piece, bool null_usage) {
  Json delta = Json::object();
  if (!piece.reasoning.empty()) delta["reasoning_content"] = piece.reasoning;
  if (!piece.content.empty()) delta["content"] = piece.content;
  if (!piece.tool_calls.empty()) delta["tool_calls"] = tool_calls_json(piece, true);
  return chunk(head_json(head, "chat.completion.chunk"),
               {{"index", piece.index},
                {"delta", std::move(delta)},
                {"logprobs", chat_logprobs(piece)},
                {"finish_reason", finish_json(piece)}},
               null_usage);
}

std::string completion_chunk(const ResponseHead& head, const Choice& piece, bool null_usage) {
  return chunk(head_json(head, "text_completion"), completion_choice(piece), null_usage);
}

TextChunks::TextChunks(const ResponseHead& head, bool chat, int64_t index, bool null_usage) {
  // Marker for the content; the last one in the text, since the choices come last.
  static const std::string kPlace = "\x01";
  Choice piece;
  piece.index = index;
  piece.content = kPlace;
  const std::string whole =
      chat ? chat_chunk(head, piece, null_usage) : completion_chunk(head, piece, null_usage);
  const std::string place = to_text(Json(kPlace));
  const size_t at = whole.rfind(place);
  before_ = whole.substr(0, at);
  after_ = whole.substr(at + place.size());
}

std::string TextChunks::chunk(const std::string& content) const {
  return before_ + to_text(Json(content)) + after_;
}

std::string chat_step_chunk(const ResponseHead& head, std::string_view member,
                            std::string_view json, bool null_usage) {
  Json out = head_json(head, "chat.completion.chunk");
  // An empty choice rather than none, because clients read the first one.
  out["choices"] = Json::array({{{"index", 0},
                                 {"delta", Json::object()},
                                 {"logprobs", nullptr},
                                 {"finish_reason", nullptr}}});
  if (null_usage) out["usage"] = nullptr;
  Json value = Json::parse(json);
  if (member.empty()) {
    out["odo"] = std::move(value);
  } else {
    out["odo"][std::string(member)] = std::move(value);
  }
  return to_text(out);
}

std::string chat_usage_chunk(const ResponseHead& head, const Usage& usage) {
  return usage_chunk(head_json(head, "chat.completion.chunk"), usage);
}

std::string completion_usage_chunk(const ResponseHead& head, const Usage& usage) {
  return usage_chunk(head_json(head, "text_completion"), usage);
}

std::string sse_event(std::string_view json) { return "data: " + std::string(json) + "\n\n"; }

std::string model_list(std::span<const ModelEntry> models) {
  Json data = Json::array();
  for (const ModelEntry& m : models) data.push_back(model_json(m));
  return to_text({{"object", "list"}, {"data", std::move(data)}});
}

std::string model_response(const ModelEntry& model) { return to_text(model_json(model)); }

std::string tokenize_response(std::span<const int32_t> tokens, std::span<const std::string> pieces,
                              int64_t context) {
  Json out = {{"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", context}};
  if (!pieces.empty()) out["pieces"] = pieces;
  return to_text(out);
}

std::string embeddings_response(std::string_view model, std::span<const std::vector<float>> vectors,
                                bool base64, int64_t tokens) {
  // Written directly: a JSON document of a million numbers takes fifty times their memory.
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)";
    if (base64) {
      append_bytes(vectors[i], out);
    } else {
      append_numbers(vectors[i], out);
    }
    out += '}';
  }
  out += R"(],"model":)" + to_text(Json(std::string(model)));
  const Json usage = {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
  return out + R"(,"usage":)" + to_text(usage) + '}';
}

std::string cohere_embed_response(std::string_view id, const EmbeddingsRequest& request,
                                  std::span<const std::vector<float>> vectors, int64_t tokens) {
  const Json head = {
      {"id", id},
      {"response_type", "embeddings_by_type"},
      {"meta",
       {{"api_version", {{"version", "2"}}}, {"billed_units", {{"input_tokens", tokens}}}}}};
  std::string out = to_text(head);
  out.back() = ',';
  out += R"("texts":[)";
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (i > 0) out += ',';
    out += to_text(Json(std::get<std::string>(request.inputs[i])));
  }
  out += R"(],"embeddings":{)";
  const auto list = [&](const char* name, const auto& append) {
    if (out.back() == ']') out += ',';
    out += '"' + std::string(name) + "\":[";
    for (size_t i = 0; i < vectors.size(); ++i) {
      if (i > 0) out += ',';
      append(vectors[i], out);
    }
    out += ']';
  };
  if (request.floats) list("float", append_numbers);
  if (request.base64) list("base64", append_bytes);
  return out + "}}";
}

std::string detokenize_response(std::string_view content) {
  return to_text({{"content", content}});
}

std::string status_response(const ServerStatus& s) {
  Json models = Json::array();
  for (const ServerStatus::Model& m : s.models) {
    models.push_back({{"id", m.id},
                      {"kind", m.kind},
                      {"state", m.state},
                      {"progress", m.progress},
                      {"bytes", m.bytes},
                      {"requests", m.requests},
                      {"waiting", m.waiting},
                      {"loads", m.loads},
                      {"evictions", m.evictions},
                      {"failures", m.failures}});
  }
  return to_text({{"version", s.version},
                  {"model", s.model},
                  {"ready", s.ready},
                  {"uptime_seconds", s.uptime_seconds},
                  {"connections", s.connections},
                  {"requests", {{"running", s.running}, {"waiting", s.waiting}}},
                  {"steps", s.steps},
                  {"tokens", {{"prompt", s.prompt_tokens}, {"generation", s.generated_tokens}}},
                  {"evictions", s.evictions},
                  {"memory",
                   {{"kv_bytes", s.kv_bytes},
                    {"kv_limit", s.kv_limit},
                    {"recurrent_bytes", s.recurrent_bytes},
                    {"recurrent_limit", s.recurrent_limit},
                    {"models_limit", s.models_limit}}},
                  {"models", std::move(models)}});
}

}  // namespace chimere::protocol
