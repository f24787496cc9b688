#include "generate.h"

#include <fmt/format.h>

#include <iostream>
#include <utility>

#include "base/terminal.h"
#include "interrupt.h"
#include "repetition.h"
#include "runtime/model_facts.h"

namespace chimere::app {
namespace {

std::string context_full(const runtime::LoadedModel& loaded, AnswerOf kind) {
  std::string text =
      fmt::format("The context, {} tokens of questions and answers, is full.", loaded.context);
  if (kind == AnswerOf::kChat) text += " /clear starts over.";
  const auto facts = runtime::model_facts(*loaded.file);
  const int64_t trained = facts.ok() ? facts->trained_context : 0;
  if (trained == 0 || loaded.context < trained) return text + " --ctx N makes it larger.";
  return text + fmt::format(" The model was trained for no more than {} tokens.", trained);
}

}  // namespace

Result<std::unique_ptr<engine::Engine>> make_engine(const runtime::LoadedModel& loaded) {
  return engine::Engine::create(*loaded.model, *loaded.tokenizer,
                                {.max_step_rows = loaded.step_rows,
                                 .max_running = 1,
                                 .context = loaded.context,
                                 .draft_model = loaded.draft_model()});
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

void tell_of_end(const Generation& generation, const runtime::LoadedModel& loaded,
                 const Settings& settings, AnswerOf kind) {
  const bool quiet = settings.get(settings::kQuiet);
  const bool limited = settings.is_set(settings::kMaxTokens);
  switch (generation.outcome.reason) {
    case engine::FinishReason::kCancelled:
      if (generation.repeated) {
        show_note("The answer repeated itself and was ended; with -n N it continues for N tokens.");
      } else if (!quiet) {
        show_note("The answer was stopped by Ctrl-C.");
      }
      break;
    case engine::FinishReason::kLength:
      if (!limited) {
        show_note(fmt::format("The answer was ended after {} tokens; -n N sets another limit.",
                              kDefaultTokens));
      } else if (!quiet) {
        show_note(fmt::format("The answer was cut off after {} tokens, as --max-tokens says.",
                              generation.outcome.tokens.size()));
      }
      break;
    case engine::FinishReason::kContextFull:
      if (!quiet) show_note(context_full(loaded, kind));
      break;
    default:
      break;
  }
}

void show_note(const std::string& text) {
  const bool faint = has_colours(StandardStream::kError);
  std::cerr << (faint ? "\x1b[2m" : "") << text << (faint ? "\x1b[0m\n" : "\n");
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

bool shows_statistics(const Settings& settings) {
  return settings.get(settings::kVerbose) && !settings.get(settings::kQuiet);
}

std::string statistics(const Generation& generation, uint64_t seed) {
  const engine::Outcome& o = generation.outcome;
  std::string prompt = fmt::format("{} prompt tokens", o.prompt_tokens);
  if (o.reused_tokens > 0) prompt += fmt::format(", {} of them from the cache", o.reused_tokens);
  std::string drafts;
  for (const engine::DraftCounts& of : o.speculation.sources) {
    drafts += fmt::format(", {} {} of {}", of.source, of.accepted, of.drafted);
  }
  if (!drafts.empty()) drafts += " drafts accepted";
  return fmt::format("{} ({:.1f} tok/s); {} tokens ({:.1f} tok/s{}); {}; seed {}", prompt,
                     prompt_rate(o), o.tokens.size(), decode_rate(o), drafts,
                     finish_name(generation), seed);
}

}  // namespace chimere::app
