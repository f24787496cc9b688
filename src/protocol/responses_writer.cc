// Generations in the form of OpenAI's Responses API.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/carried_reasoning.h"
#include "protocol/generation_writer.h"
#include "protocol/json_text.h"
#include "protocol/logprobs_json.h"

namespace chimere::protocol {
namespace {

Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

Json text_part(const std::string& text, Json logprobs) {
  return {{"type", "output_text"},
          {"annotations", Json::array()},
          {"logprobs", std::move(logprobs)},
          {"text", text}};
}

Json reasoning_part(const std::string& text) {
  return {{"type", "reasoning_text"}, {"text", text}};
}

class ResponsesWriter final : public GenerationWriter {
 public:
  ResponsesWriter(ResponseHead head, const std::string& echo, bool stored, bool carry_reasoning)
      : head_(std::move(head)),
        echo_(Json::parse(echo)),
        stored_(stored),
        carry_reasoning_(carry_reasoning) {}

  const std::string& id() const override { return head_.id; }

  std::string open(std::span<const Choice> /*choices*/, int64_t /*prompt_tokens*/) override {
    const Json response = document("in_progress", Json::array(), Json());
    std::string out = event("response.created", {{"response", response}});
    return out += event("response.in_progress", {{"response", response}});
  }

  std::string piece(const Choice& part) override {
    std::string out;
    sampled_.insert(sampled_.end(), part.logprobs.begin(), part.logprobs.end());
    if (!part.reasoning.empty()) {
      begin(Kind::kReasoning, nullptr, out);
      text_ += part.reasoning;
      out += event("response.reasoning_text.delta", place({{"delta", part.reasoning}}));
    }
    if (!part.content.empty()) {
      begin(Kind::kMessage, nullptr, out);
      text_ += part.content;
      Json logprobs = take_logprobs(part);
      logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
      out += event("response.output_text.delta",
                   place({{"delta", part.content}, {"logprobs", std::move(logprobs)}}));
    }
    for (const ToolCallPiece& call : part.tool_calls) {
      if (!call.name.empty()) {
        end_item(true, out);
        begin(Kind::kCall, &call, out);
      }
      if (call.arguments.empty()) continue;
      text_ += call.arguments;
      out += event(
          "response.function_call_arguments.delta",
          {{"item_id", item_id_}, {"output_index", items_.size()}, {"delta", call.arguments}});
    }
    if (!part.finish_reason.empty()) {
      cut_off_ = part.finish_reason == "length";
      end_item(!cut_off_, out);
    }
    return out;
  }

  std::string close(const Usage& usage, const Timings& /*timings*/) override {
    return event(cut_off_ ? "response.incomplete" : "response.completed",
                 {{"response", ended(usage)}});
  }

  std::string fail(const ApiError& error) override {
    std::string out;
    end_item(false, out);
    const bool cancelled = error.code.name() == "cancelled";
    Json response = document(cancelled ? "cancelled" : "failed", items_, Json());
    const char* code = cancelled               ? "cancelled"
                       : error.status() == 429 ? "rate_limit_exceeded"
                                               : "server_error";
    response["error"] = {{"code", code}, {"message", error.message}};
    return out += event("response.failed", {{"response", std::move(response)}});
  }

  std::string whole(std::span<const Choice> choices, const Usage& usage,
                    const Timings& /*timings*/) override {
    // The items of a stream are there already.
    if (items_.empty()) (void)piece(choices.front());
    return to_text(ended(usage));
  }

 private:
  enum class Kind { kNone, kReasoning, kMessage, kCall };

  Json document(const char* status, Json output, Json usage) const {
    Json out = {{"id", head_.id},
                {"object", "response"},
                {"created_at", head_.created},
                {"completed_at", nullptr},
                {"status", status},
                {"background", false},
                {"error", nullptr},
                {"incomplete_details", nullptr},
                {"model", head_.model},
                {"output", std::move(output)}};
    out.update(echo_);
    out["store"] = stored_;
    out["usage"] = std::move(usage);
    for (const Warning& w : head_.warnings) {
      out["warnings"].push_back({{"param", w.param}, {"message", w.message}});
    }
    return out;
  }

  Json ended(const Usage& usage) {
    Json out = document(cut_off_ ? "incomplete" : "completed", items_, usage_json(usage));
    if (cut_off_) {
      out["incomplete_details"] = {{"reason", "max_output_tokens"}};
    } else {
      using std::chrono::system_clock;
      if (completed_ == 0) completed_ = system_clock::to_time_t(system_clock::now());
      out["completed_at"] = completed_;
    }
    return out;
  }

  std::string event(const char* type, const Json& members) {
    Json out = {{"type", type}, {"sequence_number", sequence_++}};
    out.update(members);
    return "event: " + std::string(type) + "\n" + sse_event(to_text(out));
  }

  /// The members that say where a text belongs, and more.
  Json place(const Json& members) const {
    Json out = {{"item_id", item_id_}, {"output_index", items_.size()}, {"content_index", 0}};
    out.update(members);
    return out;
  }

  Json item(const char* status) const {
    const bool whole = std::string_view(status) != "in_progress";
    if (open_ == Kind::kCall) {
      return {{"id", item_id_},      {"type", "function_call"}, {"status", status},
              {"call_id", call_id_}, {"name", name_},           {"arguments", whole ? text_ : ""}};
    }
    Json content = Json::array();
    if (open_ == Kind::kReasoning) {
      if (whole) content.push_back(reasoning_part(text_));
      Json out = {{"id", item_id_},
                  {"type", "reasoning"},
                  {"status", status},
                  {"summary", Json::array()},
                  {"content", std::move(content)}};
      if (carry_reasoning_ && whole) out["encrypted_content"] = protocol::carry_reasoning(text_);
      return out;
    }
    if (whole) content.push_back(text_part(text_, logprobs_));
    return {{"id", item_id_},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }

  /// Takes the tokens of the part's content; those of reasoning, tags and calls have no place.
  Json take_logprobs(const Choice& part) {
    std::string text;
    for (const TokenLogprobs& t : sampled_) text += t.token.bytes;
    const size_t found = text.find(part.content, std::min(part.reasoning.size(), text.size()));
    const size_t begin = found == std::string::npos ? 0 : found;
    const size_t end = found == std::string::npos ? text.size() : found + part.content.size();
    std::vector<TokenLogprobs> inside;
    std::vector<TokenLogprobs> behind;
    size_t at = 0;
    for (TokenLogprobs& t : sampled_) {
      const size_t size = t.token.bytes.size();
      if (at >= end) {
        behind.push_back(std::move(t));
      } else if (at + size > begin) {
        inside.push_back(std::move(t));
      }
      at += size;
    }
    sampled_ = std::move(behind);
    return token_logprobs_json(inside);
  }

  void begin(Kind kind, const ToolCallPiece* call, std::string& out) {
    if (open_ == kind) return;
    end_item(true, out);
    open_ = kind;
    text_.clear();
    logprobs_ = Json::array();
    const char* prefix = kind == Kind::kReasoning ? "rs_" : kind == Kind::kMessage ? "msg_" : "fc_";
    // The response's own id is random.
    item_id_ = prefix + head_.id.substr(head_.id.find('_') + 1) + std::to_string(items_.size());
    if (call != nullptr) {
      call_id_ = call->id;
      name_ = call->name;
    }
    out += event("response.output_item.added",
                 {{"output_index", items_.size()}, {"item", item("in_progress")}});
    if (kind == Kind::kCall) return;
    const Json part = kind == Kind::kMessage ? text_part("", Json::array()) : reasoning_part("");
    out += event("response.content_part.added", place({{"part", part}}));
  }

  void end_item(bool complete, std::string& out) {
    if (open_ == Kind::kNone) return;
    if (open_ == Kind::kCall) {
      out += event("response.function_call_arguments.done", {{"item_id", item_id_},
                                                             {"output_index", items_.size()},
                                                             {"name", name_},
                                                             {"arguments", text_}});
    } else {
      const bool message = open_ == Kind::kMessage;
      Json done = {{"text", text_}};
      if (message) done["logprobs"] = logprobs_;
      out += event(message ? "response.output_text.done" : "response.reasoning_text.done",
                   place(done));
      out +=
          event("response.content_part.done",
                place({{"part", message ? text_part(text_, logprobs_) : reasoning_part(text_)}}));
    }
    Json whole = item(complete ? "completed" : "incomplete");
    out += event("response.output_item.done", {{"output_index", items_.size()}, {"item", whole}});
    items_.push_back(std::move(whole));
    open_ = Kind::kNone;
  }

  const ResponseHead head_;
  const Json echo_;
  const bool stored_;
  const bool carry_reasoning_;
  int64_t sequence_ = 0;
  Json items_ = Json::array();  ///< those that have ended
  Kind open_ = Kind::kNone;
  std::string item_id_;
  std::string text_;                    ///< of the open item
  std::vector<TokenLogprobs> sampled_;  ///< whose text has not been written as a message's
  Json logprobs_ = Json::array();       ///< of the open item
  std::string call_id_;
  std::string name_;
  bool cut_off_ = false;
  int64_t completed_ = 0;  ///< seconds since 1970
};

}  // namespace

std::unique_ptr<GenerationWriter> responses_writer(ResponseHead head, const std::string& echo,
                                                   bool stored, bool carry_reasoning) {
  return std::make_unique<ResponsesWriter>(std::move(head), echo, stored, carry_reasoning);
}

std::string input_items_response(const std::string& input, const ItemPage& page) {
  Json items = Json::parse(input);
  if (items.is_string()) {
    items = Json::array({{{"type", "message"},
                          {"role", "user"},
                          {"content", Json::array({{{"type", "input_text"}, {"text", items}}})}}});
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].contains("id")) items[i]["id"] = "item_" + std::to_string(i);
    if (!items[i].contains("type")) items[i]["type"] = "message";
  }
  if (!page.oldest_first) std::reverse(items.begin(), items.end());
  Json data = Json::array();
  bool begun = page.after.empty();
  bool more = false;
  for (Json& item : items) {
    if (begun && data.size() == page.limit) {
      more = true;
      break;
    }
    const bool before = item["id"] == page.after;
    if (begun) data.push_back(std::move(item));
    begun = begun || before;
  }
  const Json first = data.empty() ? Json() : data.front()["id"];
  const Json last = data.empty() ? Json() : data.back()["id"];
  return to_text({{"object", "list"},
                  {"data", std::move(data)},
                  {"first_id", first},
                  {"last_id", last},
                  {"has_more", more}});
}

std::string input_token_count_response(int64_t tokens) {
  return to_text({{"object", "response.input_tokens"}, {"input_tokens", tokens}});
}

std::string cancelled_response(const ResponseHead& head) {
  return to_text({{"id", head.id},
                  {"object", "response"},
                  {"created_at", head.created},
                  {"status", "cancelled"},
                  {"background", false},
                  {"error", nullptr},
                  {"incomplete_details", nullptr},
                  {"model", head.model},
                  {"output", Json::array()}});
}

std::string deleted_response(std::string_view id) {
  return to_text({{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace chimere::protocol
