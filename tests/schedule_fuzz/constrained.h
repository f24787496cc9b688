// Constrained generations through the engine, in random batches.
#ifndef CHIMERE_TESTS_SCHEDULE_FUZZ_CONSTRAINED_H_
#define CHIMERE_TESTS_SCHEDULE_FUZZ_CONSTRAINED_H_

#include <cstdint>
#include <optional>
#include <string>

#include "model/model.h"

namespace chimere::fuzz {

struct ConstrainedCounts {
  int64_t generations = 0;
  int64_t complete = 0;     ///< whose text is in the language
  int64_t with_budget = 0;  ///< of reasoning
  int64_t drafted = 0;      ///< tokens, certain ones included
  int64_t from_cache = 0;   ///< generations that continued from a state
};

/// Runs random requests with constraints (JSON Schema, grammars, patterns, choices), reasoning
/// budgets, drafters and samplers on `model`, several at a time and some of the same prompt. Every
/// generation must be one of its constraint, and have the tokens and log-probabilities that it has
/// alone, on `solo`, without drafts and cache. Returns the failure, if any.
std::optional<std::string> constrained_generations(model::Model& model, model::Model& solo,
                                                   uint32_t seed, ConstrainedCounts& counts);

}  // namespace chimere::fuzz

#endif  // CHIMERE_TESTS_SCHEDULE_FUZZ_CONSTRAINED_H_
