// Log-probabilities of a generated token.
#ifndef CHIMERE_PROTOCOL_TOKEN_LOGPROBS_H_
#define CHIMERE_PROTOCOL_TOKEN_LOGPROBS_H_

#include <string>
#include <vector>

namespace chimere::protocol {

struct Logprob {
  std::string bytes;  ///< of the token; may end inside a character
  float value = 0;    ///< ln of the probability
};

struct TokenLogprobs {
  Logprob token;
  std::vector<Logprob> top;  ///< most likely first
  bool from_draft = false;   ///< a drafter had proposed the token
};

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_TOKEN_LOGPROBS_H_
