// What a generated message has besides its text, in the form in which Studio keeps it with the
// message.
#ifndef CHIMERE_PROTOCOL_ANSWER_DATA_H_
#define CHIMERE_PROTOCOL_ANSWER_DATA_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/responses.h"

namespace chimere::protocol {

/// Log-probabilities of longer generations are not kept.
inline constexpr size_t kMostKeptLogprobs = 2000;

/// Times in seconds since the request; below 0: that has not happened.
struct AnswerData {
  std::string model;
  Choice whole = {};  ///< of this generation: calls, log-probabilities, finish reason
  std::optional<Usage> usage = std::nullopt;
  std::string error = {};  ///< a sentence; empty: none
  double first_seconds = -1;
  double reasoning_seconds = -1;
  double total_seconds = -1;
  std::vector<std::string> steps = {};  ///< of an orchestrated chat, JSON objects
  std::string orchestration = {};       ///< GenerationWriter::set_orchestration()
};

/// A JSON object. `before`: that of the message that is continued, or empty.
std::string answer_data(const AnswerData& answer, std::string_view before);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_ANSWER_DATA_H_
