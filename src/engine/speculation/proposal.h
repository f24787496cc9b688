// A sequence's proposed drafts, and the decision how many of them are worth verifying.
#ifndef CHIMERE_ENGINE_SPECULATION_PROPOSAL_H_
#define CHIMERE_ENGINE_SPECULATION_PROPOSAL_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/output_constraint.h"
#include "engine/speculation/draft_statistics.h"

namespace chimere::engine {

/// A draft token with the kind of evidence for it: drafts of one kind share an acceptance rate.
struct Draft {
  int32_t token = -1;  ///< -1: none
  size_t evidence = 0;
};

/// A block of drafts for consecutive positions; one step verifies all of them.
struct Proposal {
  std::vector<int32_t> tokens;
  std::vector<size_t> evidence;  ///< of each token
  double probability = 1;        ///< expected, that all are accepted
  /// Expected gain of verifying them in seconds, without the time that drafting took.
  double gain = 0;
  int32_t passes = 0;  ///< forward passes that the drafter spent on this sequence
  Draft first;         ///< the drafter's first draft, even if it is not worth verifying
};

/// Keeps drafts as long as each is worth its row in the verification step.
class ProposalBuilder {
 public:
  /// `rates` must outlive the builder. `most`: drafts; the first `least` are kept whether they are
  /// worth their rows or not. `constraint`: drafts that it does not allow end the proposal; may be
  /// nullptr. It holds the drafts until take().
  ProposalBuilder(const Acceptance& rates, const DraftCosts& costs, int32_t most, int32_t least,
                  OutputConstraint* constraint)
      : rates_(&rates), costs_(costs), most_(most), least_(least), constraint_(constraint) {}

  int32_t most() const { return most_; }
  int32_t size() const { return static_cast<int32_t>(proposal_.tokens.size()); }
  bool full() const { return size() >= most_; }

  /// Adds the draft after those before it. False if it was not worth a row, or not allowed: the
  /// proposal has ended.
  bool add(const Draft& draft);
  /// Records one forward pass of the drafter for this sequence.
  void count_pass() { ++proposal_.passes; }
  /// Whether computing a further draft, presumably with this evidence, pays for its pass and row.
  bool worth_pass(size_t evidence) const;

  Proposal take() {
    if (constraint_ != nullptr) constraint_->drop_drafts();
    return std::move(proposal_);
  }

 private:
  double row_cost() const { return costs_.rows(size() + 1) - costs_.rows(size()); }

  const Acceptance* rates_;
  DraftCosts costs_;
  int32_t most_;
  int32_t least_;
  OutputConstraint* constraint_;
  Proposal proposal_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_PROPOSAL_H_
