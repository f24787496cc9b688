#include "reply.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "interrupt.h"

namespace chimere::app {

Result<std::unique_ptr<engine::Engine>> make_engine(const LoadedModel& loaded) {
  return engine::Engine::create(
      *loaded.model, *loaded.tokenizer,
      {.max_step_rows = LoadedModel::kMaxStepRows, .max_running = 1, .context = loaded.context});
}

engine::Request request_from(const Settings& settings) {
  engine::Request request;
  request.max_tokens = static_cast<int32_t>(settings.get(settings::kMaxTokens));
  sampling::SamplingParams& s = request.sampling;
  s.temperature = static_cast<float>(settings.get(settings::kTemperature));
  s.top_k = static_cast<int32_t>(settings.get(settings::kTopK));
  s.top_p = static_cast<float>(settings.get(settings::kTopP));
  s.min_p = static_cast<float>(settings.get(settings::kMinP));
  s.repeat_penalty = static_cast<float>(settings.get(settings::kRepeatPenalty));
  s.frequency_penalty = static_cast<float>(settings.get(settings::kFrequencyPenalty));
  s.presence_penalty = static_cast<float>(settings.get(settings::kPresencePenalty));
  s.penalty_window = static_cast<int32_t>(settings.get(settings::kPenaltyWindow));
  const int64_t seed = settings.get(settings::kSeed);
  s.seed = seed >= 0 ? static_cast<uint64_t>(seed) : std::random_device{}();
  return request;
}

Result<engine::Outcome> generate(engine::Engine& engine, engine::Request request,
                                 const std::function<void(std::string_view)>& show) {
  engine::Outcome outcome;
  request.on_token = [&](const engine::TokenEvent& event) { show(event.text); };
  request.on_finish = [&](engine::Outcome o) { outcome = std::move(o); };
  const InterruptScope interrupt;
  CHIMERE_TRY(const engine::RequestId id, engine.submit(std::move(request)));
  while (engine.step()) {
    if (interrupt.interrupted()) (void)engine.cancel(id);
  }
  if (outcome.reason == engine::FinishReason::kError) return std::move(outcome.error);
  show(outcome.text_tail);
  return outcome;
}

double prompt_rate(const engine::Outcome& o) {
  return o.prompt_seconds > 0 ? (o.prompt_tokens - o.reused_tokens) / o.prompt_seconds : 0;
}

double decode_rate(const engine::Outcome& o) {
  // The first token came with the prompt.
  if (o.tokens.size() < 2 || o.decode_seconds <= 0) return 0;
  return static_cast<double>(o.tokens.size() - 1) / o.decode_seconds;
}

std::string statistics(const engine::Outcome& o, uint64_t seed) {
  std::string prompt = fmt::format("{} prompt tokens", o.prompt_tokens);
  if (o.reused_tokens > 0) prompt += fmt::format(", {} of them kept from before", o.reused_tokens);
  return fmt::format("{} ({:.1f} tok/s); {} tokens ({:.1f} tok/s); {}; seed {}", prompt,
                     prompt_rate(o), o.tokens.size(), decode_rate(o),
                     engine::finish_reason_name(o.reason), seed);
}

}  // namespace chimere::app
