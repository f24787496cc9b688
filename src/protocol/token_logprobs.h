// Log-probabilities of a token.
#ifndef CHIMERE_PROTOCOL_TOKEN_LOGPROBS_H_
#define CHIMERE_PROTOCOL_TOKEN_LOGPROBS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chimere::protocol {

/// Characters that begin in a piece of a text in UTF-8.
inline int64_t count_characters(std::string_view utf8) {
  return std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; });
}

struct Logprob {
  std::string bytes;  ///< of the token; may end inside a character
  float value = 0;    ///< ln of the probability
};

struct TokenLogprobs {
  Logprob token;
  std::vector<Logprob> top;  ///< most likely first
  bool from_draft = false;   ///< a drafter had proposed the token
  bool first = false;        ///< of a prompt: nothing comes before it, so it has no probability
};

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_TOKEN_LOGPROBS_H_
