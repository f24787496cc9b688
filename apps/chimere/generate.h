// One streamed generation, for `run` and `chat`.
#ifndef CHIMERE_APPS_CHIMERE_GENERATE_H_
#define CHIMERE_APPS_CHIMERE_GENERATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "runtime/loaded_model.h"

namespace chimere::app {

/// An engine for one request at a time.
Result<std::unique_ptr<engine::Engine>> make_engine(const runtime::LoadedModel& loaded);

struct Generation {
  engine::Outcome outcome;
  bool repeated = false;  ///< ended because it repeated itself without end
};

/// Runs the request to its end, or until Ctrl-C (FinishReason::kCancelled; a second one ends the
/// program). `show` receives all text piece by piece. Without --max-tokens in the settings the
/// generation ends after kDefaultTokens, or when it repeats itself. Errors: those of submit() and
/// of the generation.
Result<Generation> generate(engine::Engine& engine, engine::Request request,
                            const Settings& settings,
                            const std::function<void(std::string_view)>& show);
constexpr int32_t kDefaultTokens = 16384;
/// Says on standard error why an answer ended before the model ended it, and what continues it.
enum class AnswerOf { kRun, kChat };
void tell_of_end(const Generation& generation, const runtime::LoadedModel& loaded,
                 const Settings& settings, AnswerOf kind);

/// Warns on standard error if max_tokens exceeds what the context leaves after the prompt.
void warn_of_context(const runtime::LoadedModel& loaded, const engine::Request& request);

/// Tokens a second; 0 if there is nothing to measure.
double prompt_rate(const engine::Outcome& outcome);
double decode_rate(const engine::Outcome& outcome);
/// "12 prompt tokens (340.1 tok/s); 56 tokens (78.9 tok/s); stop; seed 123"; with drafts the second
/// bracket is "(78.9 tok/s, dflash 61 of 90, ngram 12 of 15 drafts accepted)".
std::string statistics(const Generation& generation, uint64_t seed);
/// --verbose without --quiet.
bool shows_statistics(const Settings& settings);
/// Shows a line about the answer on standard error, faint where the terminal can.
void show_note(const std::string& text);
/// "stop", "length", "context", "cancelled", "repetition".
const char* finish_name(const Generation& generation);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_GENERATE_H_
