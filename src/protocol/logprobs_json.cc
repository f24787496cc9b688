#include "protocol/logprobs_json.h"

#include <cstdint>
#include <string>
#include <utility>

namespace chimere::protocol {
namespace {

Json logprob_json(const Logprob& l) {
  Json bytes = Json::array();
  for (const char c : l.bytes) bytes.push_back(static_cast<uint8_t>(c));
  return {{"token", l.bytes}, {"logprob", l.value}, {"bytes", std::move(bytes)}};
}

}  // namespace

Json token_logprobs_json(std::span<const TokenLogprobs> tokens) {
  Json out = Json::array();
  for (const TokenLogprobs& t : tokens) {
    Json entry = logprob_json(t.token);
    entry["top_logprobs"] = Json::array();
    for (const Logprob& l : t.top) entry["top_logprobs"].push_back(logprob_json(l));
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace chimere::protocol
