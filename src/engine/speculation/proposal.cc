#include "engine/speculation/proposal.h"

namespace chimere::engine {

bool ProposalBuilder::add(const Draft& draft) {
  if (proposal_.first.token < 0) proposal_.first = draft;
  const double all = proposal_.probability * rates_->probability(draft.evidence);
  const double gain = all * costs_.token() - row_cost();
  const bool keep = gain > 0 || size() < least_;
  if (!keep || full()) return false;
  if (constraint_ != nullptr && !constraint_->push_draft(draft.token)) return false;
  proposal_.probability = all;
  proposal_.gain += gain;
  proposal_.tokens.push_back(draft.token);
  proposal_.evidence.push_back(draft.evidence);
  return true;
}

bool ProposalBuilder::worth_pass(size_t evidence) const {
  const double next = proposal_.probability * rates_->probability(evidence);
  const bool pays = next * costs_.token() > row_cost() + costs_.draft();
  return !full() && (pays || size() < least_);
}

}  // namespace chimere::engine
