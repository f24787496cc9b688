// A judge: any model, asked a question that it can only answer with yes or no. The score is the
// probability of yes.
#ifndef CHIMERE_ORCHESTRATOR_JUDGE_H_
#define CHIMERE_ORCHESTRATOR_JUDGE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/orchestration.h"

namespace chimere::orchestrator {

/// The request that asks whether an answer (whole, or its beginning) to a question is good.
/// `defaults`: where its settings start from.
protocol::ChatRequest judge_request(std::string_view question, std::string_view answer,
                                    const protocol::ChatRequest& defaults);
/// A request whose reply is one of these words. One token of it is sampled greedily.
protocol::ChatRequest choice_request(std::string prompt, std::vector<std::string> choices,
                                     const protocol::ChatRequest& defaults);

/// P(first choice) / (P(first) + P(second)) at the reply's first token, by the log-probabilities of
/// tokens that begin the two words. Absent: the reply has no log-probabilities, or the model would
/// say something else than these words, so that their probabilities mean nothing.
std::optional<double> probability_of_first(const protocol::ChatReply& reply, std::string_view first,
                                           std::string_view second);

/// How sure a model was of what it wrote.
struct Certainty {
  double entropy = 0;     ///< mean over the tokens, in nats, of the listed alternatives
  double confidence = 0;  ///< geometric mean of the tokens' probabilities
  int64_t tokens = 0;
};
Certainty certainty_of(const protocol::Choice& choice);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_JUDGE_H_
