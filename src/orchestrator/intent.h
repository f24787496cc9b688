// What a request is about: a cascade of stages, from the cheapest to the dearest. A stage that is
// not sure abstains, and the next one is asked.
#ifndef CHIMERE_ORCHESTRATOR_INTENT_H_
#define CHIMERE_ORCHESTRATOR_INTENT_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "orchestrator/report.h"
#include "protocol/requests.h"

namespace chimere::orchestrator {

/// "chat", "how-to", "code", "security", "research", "physiotherapy", "math", "write".
std::span<const std::string_view> intent_names();

/// Vectors of texts, one each, of unit length.
using Embed =
    std::function<Result<std::vector<std::vector<float>>>(const std::vector<std::string>&)>;

/// Stage 1: words and phrases that point to an intent, and those that only seem to ("the code of
/// conduct"). Abstains where two intents are close.
std::optional<Intent> intent_by_rules(std::string_view question);
/// Stage 2: names of files and fenced code.
std::optional<Intent> intent_by_files(std::string_view question);

/// Stage 3: the nearest labelled examples. Thread-safe.
class IntentExamples {
 public:
  /// Embeds the examples that ship with the program. Errors: those of `embed`.
  static Result<IntentExamples> create(Embed embed);
  /// Abstains where the neighbours disagree or are far away.
  std::optional<Intent> classify(std::string_view question) const;

 private:
  struct Example {
    std::string_view intent;
    std::vector<float> vector;
  };
  Embed embed_;
  std::vector<Example> examples_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_INTENT_H_
