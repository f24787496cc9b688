// From settings to a request.
#ifndef CHIMERE_APPS_CHIMERE_REQUEST_H_
#define CHIMERE_APPS_CHIMERE_REQUEST_H_

#include <cstdint>

#include "base/result.h"
#include "base/settings.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace chimere::app {

/// --seed, or a random one where it is -1.
uint64_t seed_from(const Settings& settings);

/// max_tokens and sampling as the settings say. Opens the tables that they name. Errors:
/// kInvalidArgument (--logit-bias, --dry-sequence-breakers); those of open_tables().
Result<engine::Request> request_from(const Settings& settings, const text::Tokenizer& tokenizer);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_REQUEST_H_
