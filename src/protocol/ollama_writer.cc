#include "protocol/ollama_writer.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

#include "protocol/json_text.h"
#include "protocol/logprobs_json.h"

namespace chimere::protocol {
namespace {

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::string now() {
  using namespace std::chrono;
  return iso_time(duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count());
}

class OllamaWriter final : public GenerationWriter {
 public:
  OllamaWriter(std::string id, std::string model, bool chat)
      : id_(std::move(id)), model_(std::move(model)), chat_(chat) {}

  const std::string& id() const override { return id_; }
  std::string_view stream_type() const override { return "application/x-ndjson"; }

  std::string open(std::span<const Choice> /*choices*/, int64_t /*prompt_tokens*/) override {
    return "";
  }

  std::string piece(const Choice& part) override {
    std::string out;
    for (const ToolCallPiece& call : part.tool_calls) {
      if (!call.name.empty()) {
        end_call();
        name_ = call.name;
      }
      arguments_ += call.arguments;
    }
    if (!part.finish_reason.empty()) {
      reason_ = part.finish_reason == "length" ? "length" : "stop";
      end_call();
    }
    if (!part.content.empty() || !part.reasoning.empty() || !calls_.empty() ||
        !part.logprobs.empty()) {
      Json line = document(part.content, part.reasoning);
      if (!part.logprobs.empty()) line["logprobs"] = token_logprobs_json(part.logprobs);
      out = to_text(line) + "\n";
    }
    return out;
  }

  std::string close(const Usage& usage, const Timings& timings) override {
    Json out = document("", "");
    finish(usage, timings, out);
    return to_text(out) + "\n";
  }

  std::string fail(const ApiError& error) override {
    return error_body(error, ApiForm::kOllama) + "\n";
  }

  std::string whole(std::span<const Choice> choices, const Usage& usage,
                    const Timings& timings) override {
    const Choice& choice = choices.front();
    reason_ = choice.finish_reason == "length" ? "length" : "stop";
    for (const ToolCallPiece& call : choice.tool_calls) add_call(call.name, call.arguments);
    Json out = document(choice.content, choice.reasoning);
    if (choice.has_logprobs) out["logprobs"] = token_logprobs_json(choice.logprobs);
    finish(usage, timings, out);
    return to_text(out);
  }

 private:
  /// Clients get whole calls; one that was cut off is left out.
  void add_call(const std::string& name, const std::string& arguments) {
    Json parsed = Json::parse(arguments, nullptr, false);
    if (!parsed.is_object()) return;
    calls_.push_back({{"function", {{"name", name}, {"arguments", std::move(parsed)}}}});
  }
  void end_call() {
    if (!name_.empty()) add_call(name_, arguments_);
    name_.clear();
    arguments_.clear();
  }

  Json document(const std::string& content, const std::string& reasoning) {
    Json out = {{"model", model_}, {"created_at", now()}};
    if (!chat_) {
      out["response"] = content;
      if (!reasoning.empty()) out["thinking"] = reasoning;
    } else {
      Json message = {{"role", "assistant"}, {"content", content}};
      if (!reasoning.empty()) message["thinking"] = reasoning;
      if (!calls_.empty()) message["tool_calls"] = std::exchange(calls_, Json::array());
      out["message"] = std::move(message);
    }
    out["done"] = false;
    return out;
  }

  void finish(const Usage& usage, const Timings& timings, Json& out) const {
    out["done"] = true;
    out["done_reason"] = reason_;
    out["total_duration"] = nanoseconds(timings.total);
    out["load_duration"] = 0;
    out["prompt_eval_count"] = usage.prompt_tokens;
    out["prompt_eval_duration"] = nanoseconds(timings.prompt);
    out["eval_count"] = usage.completion_tokens;
    out["eval_duration"] = nanoseconds(timings.decode);
  }

  const std::string id_;
  const std::string model_;
  const bool chat_;
  std::string reason_ = "stop";
  std::string name_;  ///< of the call that is being received; empty: none
  std::string arguments_;
  Json calls_ = Json::array();  ///< whole and not sent yet
};

Json details(const OllamaModel& model) {
  std::string size = std::to_string(model.parameters);
  char text[32];
  const auto count = static_cast<double>(model.parameters);
  if (count >= 1e9) {
    std::snprintf(text, sizeof text, "%.1fB", count / 1e9);
    size = text;
  } else if (count >= 1e6) {
    std::snprintf(text, sizeof text, "%.1fM", count / 1e6);
    size = text;
  }
  return {{"parent_model", ""},           {"format", "gguf"},
          {"family", model.architecture}, {"families", Json::array({model.architecture})},
          {"parameter_size", size},       {"quantization_level", model.quantization}};
}

Json entry(const OllamaModel& model) {
  return {{"name", model.id},
          {"model", model.id},
          {"size", model.bytes},
          {"digest", model.digest},
          {"details", details(model)}};
}

}  // namespace

std::string iso_time(int64_t unix_milliseconds) {
  const auto seconds = static_cast<std::time_t>(unix_milliseconds / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900,
                utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                static_cast<int>(unix_milliseconds % 1000));
  return text;
}

std::unique_ptr<GenerationWriter> ollama_writer(std::string id, std::string model, bool chat) {
  return std::make_unique<OllamaWriter>(std::move(id), std::move(model), chat);
}

std::string ollama_loaded(const std::string& model, bool chat, const char* reason) {
  Json out = {{"model", model}, {"created_at", now()}};
  if (chat) {
    out["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    out["response"] = "";
  }
  out["done"] = true;
  out["done_reason"] = reason;
  return to_text(out);
}

std::string ollama_tags(std::span<const OllamaModel> models) {
  Json list = Json::array();
  for (const OllamaModel& model : models) {
    Json one = entry(model);
    one["modified_at"] = iso_time(model.created * 1000);
    list.push_back(std::move(one));
  }
  return to_text({{"models", std::move(list)}});
}

std::string ollama_ps(std::span<const OllamaModel> models) {
  Json list = Json::array();
  for (const OllamaModel& model : models) {
    Json one = entry(model);
    // Clients expect a time.
    constexpr int64_t kNever = 11'000'000'000;
    one["expires_at"] = iso_time((model.expires == 0 ? kNever : model.expires) * 1000);
    one["size_vram"] = model.memory;
    one["context_length"] = model.context;
    list.push_back(std::move(one));
  }
  return to_text({{"models", std::move(list)}});
}

std::string ollama_show(const OllamaModel& model) {
  return to_text({{"modelfile", ""},
                  {"parameters", ""},
                  {"template", model.chat_template},
                  {"details", details(model)},
                  {"model_info",
                   {{"general.architecture", model.architecture},
                    {"general.parameter_count", model.parameters},
                    {model.architecture + ".context_length", model.context}}},
                  {"capabilities", model.capabilities},
                  {"modified_at", iso_time(model.created * 1000)}});
}

std::string ollama_status(std::string_view status) { return to_text({{"status", status}}); }

std::string ollama_pulling(const std::string& model, int64_t done, int64_t total) {
  // Clients show a bar for each digest.
  return to_text(
      {{"status", "pulling " + model}, {"digest", model}, {"total", total}, {"completed", done}});
}

std::string ollama_embeddings(const std::string& model, std::span<const std::vector<float>> vectors,
                              int64_t tokens, double seconds, bool one) {
  if (one) return to_text({{"embedding", vectors.front()}});
  return to_text({{"model", model},
                  {"embeddings", vectors},
                  {"total_duration", nanoseconds(seconds)},
                  {"load_duration", 0},
                  {"prompt_eval_count", tokens}});
}

}  // namespace chimere::protocol
