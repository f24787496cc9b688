#include "engine/speculation/table_drafter.h"

#include <algorithm>

#include "sampling/auxiliary_lm.h"

namespace chimere::engine {
namespace {

constexpr int32_t kLongestContinuation = 15;
/// Length of the text passed to the tables.
constexpr size_t kTableTail = 64;

std::vector<double> table_rates(bool greedy) { return probability_rates(greedy ? 0.6 : 0.5); }

struct Tables final : DrafterState {
  std::shared_ptr<sampling::AuxiliaryLm> tables;
};

/// Proposes the tables' most likely continuation.
class TableDrafter final : public Drafter {
 public:
  std::unique_ptr<DrafterState> start(const sampling::SamplingParams& sampling) override {
    if (!sampling.auxiliary) return nullptr;
    auto state = std::make_unique<Tables>();
    state->tables = sampling.auxiliary;
    return state;
  }

  Status propose(std::span<const DraftTarget> targets) override {
    for (const DraftTarget& t : targets) {
      sampling::AuxiliaryLm& tables = *static_cast<Tables&>(*t.state).tables;
      const auto end = t.history.last(std::min(t.history.size(), kTableTail));
      std::vector<int32_t> text(end.begin(), end.end());
      for (int32_t i = 0; i < kLongestContinuation && !t.proposal->full(); ++i) {
        const sampling::TokenMass next = tables.likeliest(text);
        if (next.id < 0) break;
        if (!t.proposal->add({next.id, probability_class(static_cast<double>(next.mass))})) break;
        text.push_back(next.id);
      }
    }
    return {};
  }
};

}  // namespace

constexpr DrafterType kTableDrafter = {
    .name = "tables",
    .mode = "ngram",
    .expected_rates = table_rates,
    .create = [](const DrafterModels& /*models*/) -> std::unique_ptr<Drafter> {
      return std::make_unique<TableDrafter>();
    },
};

}  // namespace chimere::engine
