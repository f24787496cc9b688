// Search for an answer: several candidates, or a tree of their steps, and a judge that scores them,
// within a budget of tokens.
//
// Diverse verifier tree search (DVTS) follows https://huggingface.co/spaces/HuggingFaceH4/
// blogpost-scaling-test-time-compute: M independent subtrees, each of which continues with its best
// step. Beam search keeps the best states of all.
#ifndef CHIMERE_ORCHESTRATOR_SEARCH_ANSWER_SEARCH_H_
#define CHIMERE_ORCHESTRATOR_SEARCH_ANSWER_SEARCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/pipeline.h"
#include "protocol/orchestration.h"

namespace chimere::orchestrator {

/// A state of the search: the text of the answer so far.
struct Candidate {
  std::string text;
  double score = 0;
  bool finished = false;
  std::string finish_reason;
  int64_t subtree = 0;
};

/// What a search needs from its surroundings. Both count their tokens: prompt tokens that were not
/// cached, and completion tokens.
struct SearchModel {
  /// Runs generations at the same time.
  std::function<std::optional<protocol::ApiError>(std::span<const protocol::ChatRequest>,
                                                  std::span<protocol::ChatReply>)>
      generate;
  /// The probability that each answer, whole or begun, is good. `spent` grows by its tokens.
  std::function<std::optional<protocol::ApiError>(std::span<const std::string> answers,
                                                  std::vector<double>& scores, int64_t& spent)>
      judge;
  /// Told after each round; may be empty.
  std::function<void(int64_t round, std::span<const Candidate> states, int64_t spent)> on_round;
};

struct SearchResult {
  Candidate best;
  std::vector<Candidate> finished;  ///< all whole answers, best first
  int64_t spent = 0;                ///< tokens decoded and scored
  int64_t generations = 0;
};

/// `request`: the conversation, whose last message is the user's. Strategies other than kNone.
std::optional<protocol::ApiError> search_answer(const protocol::ChatRequest& request,
                                                const SearchSpec& spec, const SearchModel& model,
                                                SearchResult& out);

/// What the majority counts: the last line that has a number or a word, without punctuation and
/// case; of a line with a number, its last number.
std::string final_answer(std::string_view text);

/// Tokens that a generation cost: cached ones are free.
int64_t cost_of(const protocol::Usage& usage);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_SEARCH_ANSWER_SEARCH_H_
