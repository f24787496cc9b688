// What kind of thing a question asks for.
#ifndef CHIMERE_ORCHESTRATOR_ANSWER_KIND_H_
#define CHIMERE_ORCHESTRATOR_ANSWER_KIND_H_

#include <cstdint>

namespace chimere::orchestrator {

/// What the answering sentence must have beside the words of the question.
enum class AnswerKind : uint8_t {
  kAny,        ///< another content word
  kPerson,     ///< a name, or "by" somebody
  kTime,       ///< a year, a month, a time of day
  kPlace,      ///< a name, or a place after a preposition
  kNumber,     ///< a number that is no year
  kDuration,   ///< a number with a unit of time
  kFrequency,  ///< "every", "twice"
  kColour,     ///< a colour
  kReason,     ///< "because", "so that"
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_ANSWER_KIND_H_
