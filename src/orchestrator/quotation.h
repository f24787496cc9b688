// The part of a passage that answers a question, word for word: an answer that needs no model.
#ifndef CHIMERE_ORCHESTRATOR_QUOTATION_H_
#define CHIMERE_ORCHESTRATOR_QUOTATION_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/passages.h"

namespace chimere::orchestrator {

struct Quotation {
  size_t passage = 0;  ///< its place in the list
  std::string text;    ///< on one line, at most 400 bytes
  double score = 0;    ///< from 0 to 1: how much of the question it and its headings cover
};

/// The parts of a passage that can stand alone: paragraphs, the line of a manual page's name, an
/// option with its description; long paragraphs are divided into sentences.
std::vector<std::string> quotable_parts(std::string_view passage);

/// The best part of the passages for the question; absent: no part has any of its words. A question
/// about a name alone ("what does tar do?") prefers the line "tar - ...".
std::optional<Quotation> quote(std::string_view question, std::span<const Passage> passages);

/// Whether a text says that it does not know the answer.
bool abstains(std::string_view text);

/// The share of a text's content words, without those of the question, that a passage has; of the
/// best passage. Absent: the text has none.
std::optional<double> support_of(std::string_view text, std::string_view question,
                                 std::span<const Passage> passages);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_QUOTATION_H_
