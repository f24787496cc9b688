// Passages judged for a question (corrective retrieval-augmented generation, CRAG,
// https://arxiv.org/abs/2401.15884), cut down to what matters, and cited.
#ifndef CHIMERE_ORCHESTRATOR_RELEVANCE_H_
#define CHIMERE_ORCHESTRATOR_RELEVANCE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/passages.h"
#include "orchestrator/pipeline.h"
#include "orchestrator/report.h"

namespace chimere::orchestrator {

/// The words of a text that say what it is about.
std::vector<std::string> content_words(std::string_view text);

/// Stems of a text's content words, sorted, each once.
std::vector<std::string> stems_of(std::string_view text);

/// What a document's title or path is about: "tar" of "tar - an archiver", "man/tar.1.gz".
std::string subject_of(std::string_view name);

/// What a question asks for: stems with their weights. A word weighs more the rarer it is among the
/// passages, and most if none has it; common words of requests ("explain", "colleague") weigh
/// little; the name that a passage's document is about weighs twice as much as any other word.
struct WeighedWords {
  std::vector<std::string> stems;
  std::vector<double> weights;
  double total = 0;
};
WeighedWords weighed_words(std::string_view question, std::span<const Passage> passages);

/// How much of what a question asks for each passage covers, from 0 to 1: the share of the
/// weighed_words(). A question about an unknown name has no relevant passage.
std::vector<double> relevance_of(std::string_view question, std::span<const Passage> passages);

enum class Verdict : uint8_t { kNone, kIncorrect, kAmbiguous, kCorrect };
std::string_view verdict_name(Verdict verdict);
/// By the best relevance.
Verdict verdict_of(std::span<const double> relevance, const EnrichSpec& spec);

/// The sentences of a passage around those that have words of the question; at most `most` bytes.
std::string refine(std::string_view question, std::string_view passage, size_t most);

/// Checks and adds citations while an answer streams: sentence by sentence. A citation [n] of a
/// passage that does not support its sentence is removed; a sentence without one that a passage
/// supports gets it.
class Citations {
 public:
  /// `texts`: of the sources, in the order of their numbers from 1.
  explicit Citations(const std::vector<std::string>& texts);

  /// What is certain after more of the answer.
  std::string push(std::string_view text);
  std::string finish();
  /// Whether source `n`, from 1, was cited.
  const std::vector<bool>& cited() const { return cited_; }

 private:
  std::string checked(const std::string& sentence);
  /// The share of the sentence's content words that the source has.
  double support(const std::vector<std::string>& words, size_t source) const;

  std::vector<std::vector<std::string>> sources_;  ///< sorted stems
  std::vector<bool> cited_;
  std::string waiting_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_RELEVANCE_H_
