// Generations in the form of Anthropic's Messages API.
#include <algorithm>
#include <string>
#include <utility>

#include "protocol/carried_reasoning.h"
#include "protocol/generation_writer.h"
#include "protocol/json_text.h"

namespace chimere::protocol {
namespace {

/// What clients send back with the text of the reasoning. It is not verified.
constexpr std::string_view kUnsigned = "unsigned";

const char* stop_reason(const Choice& choice) {
  if (choice.finish_reason == "tool_calls") return "tool_use";
  if (choice.finish_reason == "length") {
    return choice.context_full ? "model_context_window_exceeded" : "max_tokens";
  }
  return choice.stop_text.empty() ? "end_turn" : "stop_sequence";
}

Json stop_sequence(const Choice& choice) {
  const bool named = choice.finish_reason == "stop" && !choice.stop_text.empty();
  return named ? Json(choice.stop_text) : Json();
}

/// The arguments of a call as an object; of a call that was cut off, what it is.
Json input_json(const std::string& arguments) {
  Json out = Json::parse(arguments, nullptr, false);
  return out.is_object() ? out : Json::object();
}

class AnthropicWriter final : public GenerationWriter {
 public:
  AnthropicWriter(std::string id, std::string model, bool show_thinking, bool counts_writes)
      : id_(std::move(id)),
        model_(std::move(model)),
        show_thinking_(show_thinking),
        counts_writes_(counts_writes) {}

  const std::string& id() const override { return id_; }
  std::string_view call_prefix() const override { return "toolu_"; }

  std::string open(std::span<const Choice> /*choices*/, int64_t prompt_tokens) override {
    Json message = head();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    Usage usage;
    usage.prompt_tokens = prompt_tokens;
    message["usage"] = usage_json(usage);
    return event("message_start", {{"message", std::move(message)}}) +
           event("ping", Json::object());
  }

  std::string piece(const Choice& part) override {
    std::string out;
    if (!part.reasoning.empty()) {
      begin(Open::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
      reasoning_ += part.reasoning;
      if (show_thinking_) delta({{"type", "thinking_delta"}, {"thinking", part.reasoning}}, out);
    }
    if (!part.content.empty()) {
      begin(Open::kText, {{"type", "text"}, {"text", ""}}, out);
      delta({{"type", "text_delta"}, {"text", part.content}}, out);
    }
    for (const ToolCallPiece& call : part.tool_calls) {
      if (!call.name.empty()) {
        end_block(out);
        begin(
            Open::kTool,
            {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::object()}},
            out);
      }
      if (!call.arguments.empty()) {
        delta({{"type", "input_json_delta"}, {"partial_json", call.arguments}}, out);
      }
    }
    if (!part.finish_reason.empty()) {
      end_block(out);
      last_ = {{"stop_reason", stop_reason(part)}, {"stop_sequence", stop_sequence(part)}};
    }
    return out;
  }

  std::string close(const Usage& usage, const Timings& /*timings*/) override {
    return event("message_delta", {{"delta", last_}, {"usage", usage_json(usage)}}) +
           event("message_stop", Json::object());
  }

  std::string fail(const ApiError& error) override {
    return "event: error\n" + sse_event(error_body(error, ApiForm::kAnthropic));
  }

  std::string whole(std::span<const Choice> choices, const Usage& usage,
                    const Timings& /*timings*/) override {
    const Choice& choice = choices.front();
    Json content = Json::array();
    if (!choice.reasoning.empty()) {
      content.push_back({{"type", "thinking"},
                         {"thinking", show_thinking_ ? choice.reasoning : ""},
                         {"signature", signature(choice.reasoning)}});
    }
    if (!choice.content.empty()) {
      content.push_back({{"type", "text"}, {"text", choice.content}});
    }
    for (const ToolCallPiece& call : choice.tool_calls) {
      content.push_back({{"type", "tool_use"},
                         {"id", call.id},
                         {"name", call.name},
                         {"input", input_json(call.arguments)}});
    }
    Json out = head();
    out["content"] = std::move(content);
    out["stop_reason"] = stop_reason(choice);
    out["stop_sequence"] = stop_sequence(choice);
    out["usage"] = usage_json(usage);
    return to_text(out);
  }

 private:
  enum class Open { kNone, kThinking, kText, kTool };

  Json head() const {
    return {{"id", id_}, {"type", "message"}, {"role", "assistant"}, {"model", model_}};
  }

  std::string signature(const std::string& reasoning) const {
    return show_thinking_ ? std::string(kUnsigned) : carry_reasoning(reasoning);
  }

  /// Anthropic counts the tokens that were read from the cache, those that were written to it and
  /// the others apart. Here every prompt is written.
  Json usage_json(const Usage& usage) const {
    const int64_t computed = usage.prompt_tokens - usage.cached_tokens;
    return {{"input_tokens", counts_writes_ ? 0 : computed},
            {"cache_creation_input_tokens", counts_writes_ ? computed : 0},
            {"cache_read_input_tokens", usage.cached_tokens},
            {"output_tokens", usage.completion_tokens}};
  }

  static std::string event(const char* type, const Json& members) {
    Json out = {{"type", type}};
    out.update(members);
    return "event: " + std::string(type) + "\n" + sse_event(to_text(out));
  }

  void begin(Open kind, const Json& block, std::string& out) {
    if (open_ == kind) return;
    end_block(out);
    open_ = kind;
    out += event("content_block_start", {{"index", index_}, {"content_block", block}});
  }

  void delta(const Json& change, std::string& out) const {
    out += event("content_block_delta", {{"index", index_}, {"delta", change}});
  }

  void end_block(std::string& out) {
    if (open_ == Open::kNone) return;
    if (open_ == Open::kThinking) {
      delta({{"type", "signature_delta"}, {"signature", signature(reasoning_)}}, out);
      reasoning_.clear();
    }
    out += event("content_block_stop", {{"index", index_++}});
    open_ = Open::kNone;
  }

  const std::string id_;
  const std::string model_;
  const bool show_thinking_;
  const bool counts_writes_;
  Open open_ = Open::kNone;
  int64_t index_ = 0;      ///< of the open or next block
  std::string reasoning_;  ///< of the open block
  Json last_;              ///< how the generation ended
};

}  // namespace

std::unique_ptr<GenerationWriter> anthropic_writer(std::string id, std::string model,
                                                   bool show_thinking, bool counts_writes) {
  return std::make_unique<AnthropicWriter>(std::move(id), std::move(model), show_thinking,
                                           counts_writes);
}

namespace {

Json model_json(const ModelEntry& model) {
  return {{"type", "model"},
          {"id", model.id},
          {"display_name", model.id},
          {"created_at", iso_time(model.created * 1000)},
          {"max_input_tokens", model.context}};
}

}  // namespace

std::string anthropic_model(const ModelEntry& model) { return to_text(model_json(model)); }

std::string anthropic_model_list(std::span<const ModelEntry> models) {
  Json data = Json::array();
  for (const ModelEntry& model : models) data.push_back(model_json(model));
  const Json first = models.empty() ? Json() : Json(models.front().id);
  const Json last = models.empty() ? Json() : Json(models.back().id);
  return to_text(
      {{"data", std::move(data)}, {"has_more", false}, {"first_id", first}, {"last_id", last}});
}

std::string token_count_response(int64_t tokens) { return to_text({{"input_tokens", tokens}}); }

}  // namespace chimere::protocol
