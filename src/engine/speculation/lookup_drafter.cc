#include "engine/speculation/lookup_drafter.h"

#include <algorithm>
#include <iterator>

#include "engine/speculation/suffix_automaton.h"

namespace chimere::engine {
namespace {

constexpr int32_t kLongestLookup = 15;
constexpr int32_t kMinMatch = 2;
/// Upper bounds of the match-length classes, the kinds of evidence.
constexpr int32_t kMatchClasses[] = {2, 3, 4, 6, 9, 16, 32};

size_t match_class(int32_t length) {
  const auto* const it = std::ranges::lower_bound(kMatchClasses, length);
  return static_cast<size_t>(it - std::begin(kMatchClasses));
}

std::vector<double> lookup_rates(bool greedy) {
  std::vector<double> rates = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9};
  for (double& r : rates) r *= greedy ? 0.6 : 0.5;
  return rates;
}

struct Lookup final : DrafterState {
  SuffixAutomaton seen;
};

/// Proposes the continuation of the longest match.
class LookupDrafter final : public Drafter {
 public:
  std::unique_ptr<DrafterState> start(const sampling::SamplingParams& /*sampling*/) override {
    return std::make_unique<Lookup>();
  }

  Status propose(std::span<const DraftTarget> targets) override {
    for (const DraftTarget& t : targets) {
      look_up(t.history, static_cast<Lookup&>(*t.state).seen, *t.proposal);
    }
    return {};
  }

 private:
  static void look_up(std::span<const int32_t> history, SuffixAutomaton& seen,
                      ProposalBuilder& proposal) {
    for (auto i = static_cast<size_t>(seen.size()); i < history.size(); ++i) seen.push(history[i]);
    const int32_t length = seen.match_length();
    if (length < kMinMatch) return;
    const auto size = static_cast<int64_t>(history.size());
    for (int32_t i = 0; i < kLongestLookup && !proposal.full(); ++i) {
      const int64_t next = seen.match_next() + i;
      if (next >= size) return;
      if (!proposal.add({history[static_cast<size_t>(next)], match_class(length + i)})) return;
    }
  }
};

}  // namespace

constexpr DrafterType kLookupDrafter = {
    .name = "ngram",
    .mode = "ngram",
    .rates_per_request = true,
    .expected_rates = lookup_rates,
    .create = [](const DrafterModels& /*models*/) -> std::unique_ptr<Drafter> {
      return std::make_unique<LookupDrafter>();
    },
};

}  // namespace chimere::engine
