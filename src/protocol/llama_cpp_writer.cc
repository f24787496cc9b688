#include "protocol/llama_cpp_writer.h"

#include <utility>

#include "protocol/json_text.h"
#include "protocol/logprobs_json.h"

namespace chimere::protocol {
namespace {

/// `n` tokens in `seconds` as llama.cpp's server says it.
void add_rate(const std::string& name, int64_t n, double seconds, Json& out) {
  constexpr double kMilliseconds = 1000;
  const auto tokens = static_cast<double>(n);
  out[name + "_n"] = n;
  out[name + "_ms"] = seconds * kMilliseconds;
  out[name + "_per_token_ms"] = n > 0 ? seconds * kMilliseconds / tokens : 0;
  out[name + "_per_second"] = seconds > 0 ? tokens / seconds : 0;
}

class LlamaCppWriter final : public GenerationWriter {
 public:
  LlamaCppWriter(std::string id, std::string model)
      : id_(std::move(id)), model_(std::move(model)) {}

  const std::string& id() const override { return id_; }
  std::string open(std::span<const Choice> /*choices*/, int64_t /*prompt_tokens*/) override {
    return "";
  }
  std::string piece(const Choice& part) override {
    if (!part.finish_reason.empty()) remember(part);
    if (part.content.empty() && part.logprobs.empty()) return "";
    Json out = {{"index", part.index}, {"content", part.content}, {"stop", false}};
    if (!part.logprobs.empty()) {
      out["completion_probabilities"] = token_logprobs_json(part.logprobs);
    }
    return sse_event(to_text(out));
  }
  std::string close(const Usage& usage, const Timings& timings) override {
    return sse_event(to_text(document("", usage, timings)));
  }
  std::string fail(const ApiError& error) override { return sse_event(error_body(error)); }
  std::string whole(std::span<const Choice> choices, const Usage& usage,
                    const Timings& timings) override {
    const Choice& choice = choices.front();
    remember(choice);
    Json out = document(choice.content, usage, timings);
    if (choice.has_logprobs) {
      out["completion_probabilities"] = token_logprobs_json(choice.logprobs);
    }
    return to_text(out);
  }

 private:
  void remember(const Choice& end) {
    stop_text_ = end.stop_text;
    type_ = end.finish_reason == "length" ? "limit" : stop_text_.empty() ? "eos" : "word";
  }
  Json document(const std::string& content, const Usage& usage, const Timings& timings) const {
    Json times = {{"cache_n", usage.cached_tokens}};
    add_rate("prompt", usage.prompt_tokens - usage.cached_tokens, timings.prompt, times);
    add_rate("predicted", usage.completion_tokens, timings.decode, times);
    if (const int64_t drafted = usage.accepted_drafts + usage.rejected_drafts; drafted > 0) {
      times["draft_n"] = drafted;
      times["draft_n_accepted"] = usage.accepted_drafts;
    }
    return {{"index", 0},
            {"content", content},
            {"id_slot", -1},
            {"stop", true},
            {"model", model_},
            {"tokens_predicted", usage.completion_tokens},
            {"tokens_evaluated", usage.prompt_tokens},
            {"tokens_cached", usage.cached_tokens},
            {"truncated", false},
            {"stop_type", type_},
            {"stopping_word", stop_text_},
            {"timings", std::move(times)}};
  }

  const std::string id_;
  const std::string model_;
  std::string stop_text_;
  const char* type_ = "eos";
};

}  // namespace

std::unique_ptr<GenerationWriter> llama_cpp_writer(std::string id, std::string model) {
  return std::make_unique<LlamaCppWriter>(std::move(id), std::move(model));
}

std::string props_response(const ServerProps& props, const Settings& defaults) {
  const Json params = {{"temperature", defaults.get(settings::kTemperature)},
                       {"top_k", defaults.get(settings::kTopK)},
                       {"top_p", defaults.get(settings::kTopP)},
                       {"min_p", defaults.get(settings::kMinP)},
                       {"typical_p", defaults.get(settings::kTypical)},
                       {"repeat_penalty", defaults.get(settings::kRepeatPenalty)},
                       {"repeat_last_n", defaults.get(settings::kPenaltyWindow)},
                       {"presence_penalty", defaults.get(settings::kPresencePenalty)},
                       {"frequency_penalty", defaults.get(settings::kFrequencyPenalty)},
                       {"seed", defaults.get(settings::kSeed)},
                       {"n_predict", defaults.get(settings::kMaxTokens)},
                       {"samplers", defaults.get(settings::kSamplers)}};
  Json draft_model;  // null: there is none
  if (const auto& d = props.draft_model) {
    draft_model = {{"name", d->name},
                   {"bytes", d->bytes},
                   {"block_size", d->block_size},
                   {"backend", d->backend}};
  }
  return to_text({{"default_generation_settings", {{"n_ctx", props.context}, {"params", params}}},
                  {"total_slots", props.slots},
                  {"model_alias", props.model},
                  {"modalities", {{"vision", false}, {"audio", false}}},
                  {"speculate", props.speculate},
                  {"draft_model", std::move(draft_model)},
                  {"chat_template", props.chat_template},
                  {"bos_token", props.bos},
                  {"eos_token", props.eos},
                  {"build_info", props.version}});
}

std::string slots_response(int64_t slots, int64_t running, int64_t context) {
  Json out = Json::array();
  for (int64_t i = 0; i < slots; ++i) {
    out.push_back({{"id", i}, {"n_ctx", context}, {"is_processing", i < running}});
  }
  return to_text(out);
}

std::string lora_response(std::span<const LoraEntry> adapters) {
  Json out = Json::array();
  for (const LoraEntry& a : adapters) {
    out.push_back({{"id", out.size()}, {"name", a.name}, {"path", a.path}, {"scale", a.scale}});
  }
  return to_text(out);
}

std::string template_response(const std::string& prompt) { return to_text({{"prompt", prompt}}); }

}  // namespace chimere::protocol
