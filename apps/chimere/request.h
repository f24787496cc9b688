// From settings to a request.
#ifndef CHIMERE_APPS_CHIMERE_REQUEST_H_
#define CHIMERE_APPS_CHIMERE_REQUEST_H_

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/settings.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace chimere::app {

/// --seed, or a random one where it is -1.
uint64_t seed_from(const Settings& settings);

/// What --reasoning says. Errors: kInvalidArgument.
struct Reasoning {
  std::optional<bool> wanted;  ///< for Conversation::set_thinking()
  int32_t budget = 0;          ///< where it is wanted
  int32_t least = 0;           ///< see engine::ThinkingParams
};
Result<Reasoning> reasoning_from(const Settings& settings);

/// max_tokens, speculation, thinking and sampling as the settings say. Opens the tables that they
/// name. Errors: kInvalidArgument (--reasoning, --logit-bias, --dry-sequence-breakers),
/// kUnsupported (a thought of a model that has none); those of open_tables().
Result<engine::Request> request_from(const Settings& settings, const text::Tokenizer& tokenizer);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_REQUEST_H_
