#include "generate.h"

#include <fmt/format.h>

#include <iostream>
#include <utility>

#include "interrupt.h"
#include "repetition.h"

namespace chimere::app {

Result<std::unique_ptr<engine::Engine>> make_engine(const runtime::LoadedModel& loaded) {
  return engine::Engine::create(
      *loaded.model, *loaded.tokenizer,
      {.max_step_rows = loaded.step_rows, .max_running = 1, .context = loaded.context});
}

Result<Generation> generate(engine::Engine& engine, engine::Request request,
                            const Settings& settings,
                            const std::function<void(std::string_view)>& show) {
  Generation generation;
  engine::Outcome& outcome = generation.outcome;
  const bool limited = !settings.is_set(settings::kMaxTokens);
  if (limited) request.max_tokens = kDefaultTokens;
  Repetition repetition;
  request.on_token = [&](const engine::TokenEvent& event) {
    if (generation.repeated) return;
    show(event.text);
    repetition.add(event.token.id);
    generation.repeated = limited && repetition.endless();
  };
  request.on_finish = [&](engine::Outcome o) { outcome = std::move(o); };
  const InterruptScope interrupt;
  CHIMERE_TRY(const engine::RequestId id, engine.submit(std::move(request)));
  while (engine.step()) {
    if (generation.repeated || interrupt.interrupted()) (void)engine.cancel(id);
  }
  if (outcome.reason == engine::FinishReason::kError) return std::move(outcome.error);
  generation.repeated = generation.repeated && outcome.reason == engine::FinishReason::kCancelled;
  if (!generation.repeated) show(outcome.text_tail);
  return generation;
}

void tell_of_limits(const Generation& generation, const Settings& settings) {
  if (settings.is_set(settings::kMaxTokens)) return;
  if (generation.repeated) {
    std::cerr << "The answer repeated itself and was ended; with -n N it goes on for N tokens.\n";
  } else if (generation.outcome.reason == engine::FinishReason::kLength) {
    std::cerr << fmt::format("The answer was ended after {} tokens; -n N sets another limit.\n",
                             kDefaultTokens);
  }
}

const char* finish_name(const Generation& generation) {
  return generation.repeated ? "repetition" : engine::finish_reason_name(generation.outcome.reason);
}

void warn_of_context(const runtime::LoadedModel& loaded, const engine::Request& request) {
  const int64_t left = loaded.context - static_cast<int64_t>(request.prompt.size());
  if (left <= 0 || request.max_tokens <= left) return;
  std::cerr << fmt::format(
      "--max-tokens {} is more than fits: after the prompt the context of {} has {} tokens left, "
      "and the generation ends there at the latest (--ctx)\n",
      request.max_tokens, loaded.context, left);
}

double prompt_rate(const engine::Outcome& o) {
  return o.prompt_seconds > 0 ? (o.prompt_tokens - o.reused_tokens) / o.prompt_seconds : 0;
}

double decode_rate(const engine::Outcome& o) {
  // The first token is sampled at the end of prefill.
  if (o.tokens.size() < 2 || o.decode_seconds <= 0) return 0;
  return static_cast<double>(o.tokens.size() - 1) / o.decode_seconds;
}

std::string statistics(const Generation& generation, uint64_t seed) {
  const engine::Outcome& o = generation.outcome;
  std::string prompt = fmt::format("{} prompt tokens", o.prompt_tokens);
  if (o.reused_tokens > 0) prompt += fmt::format(", {} of them from the cache", o.reused_tokens);
  std::string drafts;
  if (o.speculation.drafted > 0) {
    drafts =
        fmt::format(", {} of {} drafts accepted", o.speculation.accepted, o.speculation.drafted);
  }
  return fmt::format("{} ({:.1f} tok/s); {} tokens ({:.1f} tok/s{}); {}; seed {}", prompt,
                     prompt_rate(o), o.tokens.size(), decode_rate(o), drafts,
                     finish_name(generation), seed);
}

}  // namespace chimere::app
