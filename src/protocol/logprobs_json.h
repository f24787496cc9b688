// Log-probabilities as JSON. Internal to the module.
#ifndef CHIMERE_PROTOCOL_LOGPROBS_JSON_H_
#define CHIMERE_PROTOCOL_LOGPROBS_JSON_H_

#include <span>

#include "protocol/json_text.h"
#include "protocol/token_logprobs.h"

namespace chimere::protocol {

/// A list with an object for each token, as OpenAI's and Ollama's APIs have it: `token`, `logprob`,
/// `bytes`, and `top_logprobs`, a list of the same without the last member.
Json token_logprobs_json(std::span<const TokenLogprobs> tokens);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_LOGPROBS_JSON_H_
