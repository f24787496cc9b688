// What a response says about fields that were not honoured to the letter.
#ifndef CHIMERE_PROTOCOL_WARNING_H_
#define CHIMERE_PROTOCOL_WARNING_H_

#include <string>
#include <vector>

namespace chimere::protocol {

struct Warning {
  std::string param;
  std::string message;  ///< a sentence
};

/// What a parser left out or changed.
struct RequestNotes {
  std::vector<std::string> ignored =
      {};                             ///< paths of fields that the API does not have, at most 20
  std::vector<Warning> changed = {};  ///< values that were taken for others
};

/// The warnings of a response: the ignored fields in one, then each change.
std::vector<Warning> warnings_of(const RequestNotes& notes);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_WARNING_H_
